"""Dockerfiles and recipes → OCI images, each command in a sandbox of its own."""
