from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.database import database, database_url, postgresql, sqlite_template

from crucible.ledger.ledger import Ledger
from crucible.store.database import Database

__all__ = ["database", "database_url", "postgresql", "sqlite_template"]


@pytest.fixture
def ledger(database: Database, tmp_path: Path) -> Iterator[Ledger]:
    """On either kind of database."""
    made = Ledger(tmp_path / "home", database)
    yield made
    made.close()
