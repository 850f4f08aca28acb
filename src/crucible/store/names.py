"""What the database is called where nobody has named another. Apart, since to ask for more loads SQLAlchemy."""

from __future__ import annotations

FILE_NAME = "crucible.db"
VARIABLE = "CRUCIBLE_DATABASE"
SESSIONS_VARIABLE = "CRUCIBLE_SESSION_STORE"
