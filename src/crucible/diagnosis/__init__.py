"""This machine and Crucible on it: what works, how it is prepared, what it takes up, how it goes away again."""
