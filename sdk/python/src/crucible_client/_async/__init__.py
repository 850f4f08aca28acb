"""The one implementation. `_sync` is made of it by scripts/sdk.py; only `waiting.py` is written twice."""
