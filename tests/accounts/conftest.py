from __future__ import annotations

import pytest
from tests.database import database, database_url, postgresql, sqlite_template

from crucible.accounts.budgets import Budgets
from crucible.store.database import Database

__all__ = ["database", "database_url", "postgresql", "sqlite_template"]


@pytest.fixture
def budgets(database: Database) -> Budgets:
    return Budgets(database)
