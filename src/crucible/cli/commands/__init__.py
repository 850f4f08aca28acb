"""One module per group of commands; each has COMMANDS. `cli/table.py` says which module a command is in."""
