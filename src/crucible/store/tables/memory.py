"""What is remembered of users: statements with their vectors, summaries of conversations, and who wants none."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
)

from crucible.store.tables import metadata

NAME = String(200)

# One row for each user of whom anything is known. Who writes raises `generation` first, which also keeps two writers of
# one user apart; `erased` is the generation at which rows last vanished, and not merely changed.
memory_users = Table(
    "memory_users",
    metadata,
    Column("user_id", NAME, primary_key=True),
    Column("is_enabled", Boolean, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("erased", Integer, nullable=False),
)

# Conversations that memory stays out of.
memory_silences = Table(
    "memory_silences",
    metadata,
    Column("user_id", NAME, primary_key=True),
    Column("session", NAME, primary_key=True),
)

memory_facts = Table(
    "memory_facts",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("user_id", NAME, ForeignKey(memory_users.c.user_id), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("text", Text, nullable=False),
    Column("attribute", String(80), nullable=False),
    Column("session", NAME, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("quote", Text, nullable=False),
    Column("confidence", Double, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("recalled_at", Double),
    Column("recalls", Integer, nullable=False),
    Column("expires_at", Double),
    Column("is_pinned", Boolean, nullable=False),
    Column("state", String(20), nullable=False),
    Column("superseded_by", String(40), nullable=False),
    Column("blobs", JSON, nullable=False),
    Column("vector", LargeBinary),
    Column("vector_model", String(80), nullable=False),
    Column("generation", Integer, nullable=False),
    CheckConstraint("kind IN ('fact', 'preference', 'goal', 'constraint')", name="kind"),
    CheckConstraint("state IN ('active', 'superseded', 'expired')", name="state"),
    Index("ix_memory_facts_user_id_generation", "user_id", "generation"),
    Index("ix_memory_facts_user_id_state", "user_id", "state"),
)

# `covers` counts the messages of the conversation, from its first, that the text stands for.
memory_summaries = Table(
    "memory_summaries",
    metadata,
    Column("session", NAME, primary_key=True),
    Column("user_id", NAME, nullable=False),
    Column("covers", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Column("made_at", Double, nullable=False),
    Column("is_stale", Boolean, nullable=False),
    Column("blobs", JSON, nullable=False),
    Index("ix_memory_summaries_user_id", "user_id"),
)
