"""Users, who of them may sign in, limits, what was spent on each day and what is reserved by calls under way."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
)

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

# A user without a row here is one for budgets alone and cannot sign in.
logins = Table(
    "logins",
    metadata,
    Column("user_id", String(128), ForeignKey("users.id"), primary_key=True),
    # "" is no password: such a user comes by an identity elsewhere, or not at all.
    Column("password", String(256), nullable=False),
    Column("role", String(16), nullable=False),
    Column("is_disabled", Boolean, nullable=False),
)

identities = Table(
    "login_identities",
    metadata,
    Column("issuer", String(512), primary_key=True),
    Column("subject", String(256), primary_key=True),
    Column("user_id", String(128), ForeignKey("logins.user_id"), nullable=False),
    Index("ix_login_identities_user_id", "user_id"),
)

# Of no user that must be in `users`: the machine's own has no row there.
web_sessions = Table(
    "web_sessions",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("hash", String(64), nullable=False, unique=True),
    Column("user_id", String(128), nullable=False),
    Column("created_at", Float(53), nullable=False),
    Column("seen_at", Float(53), nullable=False),
    Column("expires_at", Float(53), nullable=False),
    Column("browser", String(200), nullable=False),
    Column("address", String(64), nullable=False),
    Index("ix_web_sessions_user_id", "user_id"),
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
