"""Conversations as people find them again: titles, what was said in them, and files that were given to them."""

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

# The id is that of the conversation's session. `deleted_at` is when it will have been gone for good, less the time in
# which it can be had back.
conversations = Table(
    "conversations",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("user_id", String(200), nullable=False),
    Column("title", Text, nullable=False),
    Column("folded_title", Text, nullable=False),
    Column("is_pinned", Boolean, nullable=False),
    Column("model", String(300), nullable=False),
    Column("created_at", Float(53), nullable=False),
    Column("updated_at", Float(53), nullable=False),
    Column("deleted_at", Float(53)),
    Index("ix_conversations_user_id_updated_at", "user_id", "updated_at"),
    Index("ix_conversations_deleted_at", "deleted_at"),
)

# `folded` is the text as it is searched, without regard to case.
texts = Table(
    "conversation_texts",
    metadata,
    Column("conversation", String(64), ForeignKey(conversations.c.id), primary_key=True),
    Column("turn", Integer, primary_key=True, autoincrement=False),
    Column("role", String(16), primary_key=True),
    Column("text", Text, nullable=False),
    Column("folded", Text, nullable=False),
)

# `conversation` is empty until a turn has used it.
uploads = Table(
    "conversation_uploads",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("user_id", String(200), nullable=False),
    Column("conversation", String(64), nullable=False),
    Column("name", Text, nullable=False),
    Column("media_type", String(200), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("created_at", Float(53), nullable=False),
    Index("ix_conversation_uploads_user_id", "user_id"),
    Index("ix_conversation_uploads_conversation", "conversation"),
)
