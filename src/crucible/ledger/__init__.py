"""What happened in a run, provably: a chain of signed entries, contents that can be erased, exports, checks.

Knows nothing of agents: a step is handed to it and recorded. docs/guides/ledger.md specifies the encoding.
"""
