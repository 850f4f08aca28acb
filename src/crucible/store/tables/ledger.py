"""Runs and their entries. What an entry says is under its hash; `crucible.ledger.chain` says how."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, String, Table, Text

from crucible.store.tables import metadata

runs = Table(
    "ledger_runs",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("opened_us", BigInteger, nullable=False),
    Column("user", String(200), nullable=False),
    Column("facts", Text, nullable=False),
    Column("key", String(64), nullable=False),
    # The end of the chain, so that the next entry need not look for it.
    Column("count", BigInteger, nullable=False),
    Column("hash", String(64), nullable=False),
    Index(None, "user", "opened_us"),
    Index(None, "opened_us"),
)

entries = Table(
    "ledger_entries",
    metadata,
    Column("run", String(64), ForeignKey(runs.c.id), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
    Column("kind", String(64), nullable=False),
    Column("started_us", BigInteger, nullable=False),
    Column("duration_us", BigInteger, nullable=False),
    Column("tokens_in", BigInteger, nullable=False),
    Column("tokens_out", BigInteger, nullable=False),
    Column("tokens_cached", BigInteger, nullable=False),
    Column("cost_micros", BigInteger),
    Column("model", String(200), nullable=False),
    Column("sandbox", String(200), nullable=False),
    Column("image", String(200), nullable=False),
    Column("isolation", String(200), nullable=False),
    Column("exit_status", BigInteger),
    Column("input", String(64)),
    Column("output", String(64)),
    Column("facts", Text, nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    Column("signature", String(88), nullable=False),
    # All that sums are made of: an entry itself is wide, and need not be read for them.
    Index(
        "ix_ledger_entries_totals",
        "run",
        "started_us",
        "kind",
        "model",
        "tokens_in",
        "tokens_out",
        "tokens_cached",
        "cost_micros",
        "duration_us",
    ),
)
