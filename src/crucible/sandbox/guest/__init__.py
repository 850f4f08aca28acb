"""The host's end of the channel into a machine: a Session over `crucible.wire`."""
