"""What runs inside a sandbox. Nothing here is imported on the host; the files are sent as they are."""
