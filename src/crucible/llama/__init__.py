"""Runs a model file on this machine, in a child process of ours. Knows no model by name and no caller."""
