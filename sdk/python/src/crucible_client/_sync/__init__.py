"""Made of `_async` by scripts/python_sdk.py; `waiting.py` and `transport.py` are written by hand."""
