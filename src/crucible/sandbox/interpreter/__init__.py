"""Code run in a sandbox with a state that lasts: contexts, and what running a piece of code in one tells."""
