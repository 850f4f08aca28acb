"""The one implementation. `_sync` is made of it by scripts/python_sdk.py; two small modules are written twice."""
