"""The ways in and out of one running sandbox: published ports, the network, notices."""
