"""Who may sign in, as whom elsewhere, and in which browsers they are signed in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005_accounts"
down_revision: str | None = "0004_sessions"


def upgrade() -> None:
    op.create_table(
        "logins",
        sa.Column("user_id", sa.String(128), nullable=False),
        sa.Column("password", sa.String(256), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("is_disabled", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("user_id", name="pk_logins"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_logins_user_id_users"),
    )
    op.create_table(
        "login_identities",
        sa.Column("issuer", sa.String(512), nullable=False),
        sa.Column("subject", sa.String(256), nullable=False),
        sa.Column("user_id", sa.String(128), nullable=False),
        sa.PrimaryKeyConstraint("issuer", "subject", name="pk_login_identities"),
        sa.ForeignKeyConstraint(
            ["user_id"], ["logins.user_id"], name="fk_login_identities_user_id_logins"
        ),
    )
    op.create_index("ix_login_identities_user_id", "login_identities", ["user_id"])
    op.create_table(
        "web_sessions",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("user_id", sa.String(128), nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.Column("seen_at", sa.Float(53), nullable=False),
        sa.Column("expires_at", sa.Float(53), nullable=False),
        sa.Column("browser", sa.String(200), nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_web_sessions"),
        sa.UniqueConstraint("hash", name="uq_web_sessions_hash"),
    )
    op.create_index("ix_web_sessions_user_id", "web_sessions", ["user_id"])
