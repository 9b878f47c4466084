"""Shares of rate limits that processes hold, by lane."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Add a table."""
    postgresql = op.get_bind().dialect.name == "postgresql"

    def text(length: int) -> Any:
        return sa.Text() if postgresql else sa.String(length)

    op.create_table(
        "pace_shares",
        sa.Column("upstream", text(64), nullable=False),
        sa.Column("model", text(200), nullable=False),
        sa.Column("key_digest", text(16), nullable=False),
        sa.Column("worker", text(32), nullable=False),
        sa.Column("share", sa.Float(), nullable=False),
        sa.Column("rollouts", sa.Float(), nullable=False),
        sa.Column("waiting", sa.BigInteger() if postgresql else sa.Integer(), nullable=False),
        sa.Column("longest_s", sa.Float(), nullable=False),
        sa.Column("blocked_until", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("upstream", "model", "key_digest", "worker"),
        sqlite_with_rowid=False,
    )
