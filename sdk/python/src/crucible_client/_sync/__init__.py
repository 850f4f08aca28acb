"""Made of `_async` by scripts/sdk.py; only `waiting.py` is written by hand."""
