"""Sessions of the agent: a head each, messages by position, events by number, and where some of those are."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Index, Integer, String, Table, Text

from crucible.store.tables import metadata

sessions = Table(
    "agent_sessions",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("created_at", Float(53), nullable=False),
    Column("head", Text, nullable=False),
    Index(None, "created_at"),
)

messages = Table(
    "agent_messages",
    metadata,
    Column("session", String(64), ForeignKey(sessions.c.id), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
)

events = Table(
    "agent_events",
    metadata,
    Column("session", String(64), ForeignKey(sessions.c.id), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
)

# Where the events are that are looked for by their kind.
marks = Table(
    "agent_marks",
    metadata,
    Column("session", String(64), ForeignKey(sessions.c.id), primary_key=True),
    Column("kind", String(32), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("turn", Integer, nullable=False),
)
