"""Databases for the stores of sessions."""

from tests.database import database, database_url, postgresql, sqlite_template

__all__ = ["database", "database_url", "postgresql", "sqlite_template"]
