"""Databases for what is kept of conversations."""

from tests.database import database, database_url, postgresql, sqlite_template

__all__ = ["database", "database_url", "postgresql", "sqlite_template"]
