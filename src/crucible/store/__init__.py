"""The database of what outlives a sandbox: runs, budgets, memories, sessions. SQLite by default, PostgreSQL by URL.

Nothing here is loaded by `crucible run`: sandboxes have records of their own.
"""
