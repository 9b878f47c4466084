"""Add the request forms of calls, so that every process asks in the same ones."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    """Add a table."""
    postgresql = op.get_bind().dialect.name == "postgresql"

    def text(length: int) -> sa.types.TypeEngine[str]:
        return sa.Text() if postgresql else sa.String(length)

    op.create_table(
        "asked_ways",
        sa.Column("exchange_id", text(32), nullable=False),
        sa.Column("rollout_id", text(200), nullable=False),
        sa.Column("upstream", text(64), nullable=False),
        sa.Column("model", text(200), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("way", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("exchange_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("asked_ways_lane", "asked_ways", ["upstream", "model", "at"])
    op.create_index("asked_ways_at", "asked_ways", ["at"])
