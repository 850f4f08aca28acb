"""Conversations as people have them: found again, named, searched, given files, taken out, thrown away."""
