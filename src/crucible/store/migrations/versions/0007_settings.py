"""What users have set, their sealed keys of models, and their MCP servers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007_settings"
down_revision: str | None = "0006_conversations"


def upgrade() -> None:
    op.create_table(
        "user_settings",
        sa.Column("user_id", sa.String(200), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("updated_at", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("user_id", name="pk_user_settings"),
    )
    op.create_table(
        "user_keys",
        sa.Column("user_id", sa.String(200), nullable=False),
        sa.Column("provider", sa.String(64), nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("set_at", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "provider", name="pk_user_keys"),
    )
    op.create_table(
        "user_mcp_servers",
        sa.Column("user_id", sa.String(200), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("added_at", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "name", name="pk_user_mcp_servers"),
    )
