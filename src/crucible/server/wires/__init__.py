"""Other products' APIs, each under a prefix of its own; `server/wire.py` says what one is."""
