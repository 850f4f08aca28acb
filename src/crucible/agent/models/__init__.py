"""Models and their providers, behind one seam. What the rest of the room knows of them is in `base`."""
