"""Series of reference calls, the failures that share them, and what a verdict took from them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add two tables and a column, which rewrites no other table."""
    postgresql = op.get_bind().dialect.name == "postgresql"

    def text(length: int) -> Any:
        return sa.Text() if postgresql else sa.String(length)

    op.create_table(
        "reference_series",
        sa.Column("id", text(32), nullable=False),
        sa.Column("upstream", text(64), nullable=False),
        sa.Column("model", text(200), nullable=False),
        sa.Column("api", text(64), nullable=False),
        sa.Column("worker", text(32), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("calls", sa.Text(), nullable=False, server_default="[]"),
        sa.Column("not_run", text(16), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "reference_series_lane", "reference_series", ["upstream", "model", "started_at"]
    )
    op.create_index("reference_series_started", "reference_series", ["started_at"])
    op.create_table(
        "reference_failures",
        sa.Column("rollout_id", text(200), nullable=False),
        sa.Column("exchange_id", text(32), nullable=False),
        sa.Column("series_id", text(32), nullable=False),
        sa.PrimaryKeyConstraint("rollout_id", "exchange_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("reference_failures_series", "reference_failures", ["series_id"])
    op.add_column("verdicts", sa.Column("reference_series", sa.Text(), nullable=True))
