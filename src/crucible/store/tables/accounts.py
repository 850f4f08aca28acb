"""Users, limits, what was spent on each day, and what is reserved by calls that are under way."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, String, Table, Text

from crucible.store.tables import metadata

MEASURES = ("tokens", "usd", "sandbox_seconds", "iterations", "calls")

users = Table(
    "users",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("name", String(256), nullable=False, unique=True),
    # "" is no plan: nothing but limits of the user's own hold.
    Column("plan", String(64), nullable=False, server_default=""),
    Column("created_at", Float(53), nullable=False),
)

limits = Table(
    "budget_limits",
    metadata,
    Column("scope", String(192), primary_key=True),
    Column("measure", String(32), primary_key=True),
    Column("period", String(16), primary_key=True),
    Column("amount", BigInteger, nullable=False),
)

# A row for each scope that was ever charged. Who writes it first holds it: reservations of one scope take turns.
scopes = Table(
    "budget_scopes",
    metadata,
    Column("scope", String(192), primary_key=True),
    Column("touched_at", Float(53), nullable=False),
)

spending = Table(
    "budget_spending",
    metadata,
    Column("scope", String(192), primary_key=True),
    Column("day", String(10), primary_key=True),
    *(Column(f"{name}_spent", BigInteger, nullable=False, server_default="0") for name in MEASURES),
    *(
        Column(f"{name}_reserved", BigInteger, nullable=False, server_default="0")
        for name in MEASURES
    ),
    # How many calls turned out to have cost more than their worst case.
    Column("overshoots", Integer, nullable=False, server_default="0"),
)

reservations = Table(
    "budget_reservations",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("state", String(8), nullable=False),
    Column("scopes", Text, nullable=False),
    Column("day", String(10), nullable=False),
    *(Column(name, BigInteger, nullable=False) for name in MEASURES),
    Column("owner", String(128), nullable=False),
    Column("created_at", Float(53), nullable=False),
    Column("expires_at", Float(53), nullable=False),
    Index("ix_budget_reservations_state", "state"),
)
