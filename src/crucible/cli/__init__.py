"""The command line: parses, asks one question of the service, renders the answer."""
