"""What each user has set. Keys of models and servers are sealed: the key that opens them is in a file, not here."""

from __future__ import annotations

from sqlalchemy import Column, Float, LargeBinary, String, Table, Text

from crucible.store.tables import metadata

settings = Table(
    "user_settings",
    metadata,
    Column("user_id", String(200), primary_key=True),
    Column("body", Text, nullable=False),
    Column("updated_at", Float(53), nullable=False),
)

keys = Table(
    "user_keys",
    metadata,
    Column("user_id", String(200), primary_key=True),
    Column("provider", String(64), primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
    Column("set_at", Float(53), nullable=False),
)

servers = Table(
    "user_mcp_servers",
    metadata,
    Column("user_id", String(200), primary_key=True),
    Column("name", String(64), primary_key=True),
    # With its headers and variables, which may be secrets.
    Column("sealed", LargeBinary, nullable=False),
    Column("added_at", Float(53), nullable=False),
)
