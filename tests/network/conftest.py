from __future__ import annotations

from tests.database import sqlite_template

__all__ = ["sqlite_template"]
