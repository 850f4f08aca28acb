"""What clients may ask, over one connection per request: the verbs of `client/protocol.py`."""
