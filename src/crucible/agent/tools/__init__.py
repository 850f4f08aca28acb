"""What a model can do. Every tool works inside the session's sandbox; the seam is in `base`."""
