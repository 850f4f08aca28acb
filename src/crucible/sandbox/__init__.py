"""The domain: what a sandbox is, what can be asked of one, and who keeps it."""
