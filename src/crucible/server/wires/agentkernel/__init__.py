"""The HTTP API of agentkernel, at the root paths that its clients use."""
