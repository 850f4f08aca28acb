"""What Alembic runs for each upgrade: on the connection, and in the transaction, that it was handed."""

from __future__ import annotations

from alembic import context

from crucible.store.tables import all_tables

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=all_tables(),
    # SQLite alters a table only by making it anew.
    render_as_batch=True,
)
context.run_migrations()
