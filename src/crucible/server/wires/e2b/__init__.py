"""The API of E2B, so that its clients work with the sandboxes of this machine."""
