"""Limits of rollouts and batches, what is spent and reserved of them, and how they are judged."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Add two tables and two columns, which rewrites no table."""
    postgresql = op.get_bind().dialect.name == "postgresql"

    def text(length: int) -> Any:
        return sa.Text() if postgresql else sa.String(length)

    count = sa.BigInteger if postgresql else sa.Integer
    op.create_table(
        "budgets",
        sa.Column("kind", text(8), nullable=False),
        sa.Column("name", text(200), nullable=False),
        sa.Column("batch", text(200), nullable=True),
        sa.Column("declared", sa.Text(), nullable=True),
        sa.Column("calls", count(), nullable=True),
        sa.Column("tokens", count(), nullable=True),
        sa.Column("cost_usd", sa.Float(), nullable=True),
        sa.Column("seconds", sa.Float(), nullable=True),
        sa.Column("on_limit", text(8), nullable=True),
        sa.Column("pause_s", sa.Float(), nullable=True),
        sa.Column("spent_calls", count(), nullable=False, server_default="0"),
        sa.Column("spent_tokens", count(), nullable=False, server_default="0"),
        sa.Column("spent_cost_usd", sa.Float(), nullable=False, server_default="0"),
        sa.Column("spent_seconds", sa.Float(), nullable=False, server_default="0"),
        sa.Column("largest_tokens", count(), nullable=False, server_default="0"),
        sa.Column("largest_cost_usd", sa.Float(), nullable=False, server_default="0"),
        sa.Column("largest_seconds", sa.Float(), nullable=False, server_default="0"),
        sa.Column("reached_at", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("kind", "name"),
        sqlite_with_rowid=False,
    )
    op.create_index("budgets_batch", "budgets", ["batch"])
    op.create_table(
        "reservations",
        sa.Column("id", text(32), nullable=False),
        sa.Column("rollout_id", text(200), nullable=True),
        sa.Column("batch", text(200), nullable=True),
        sa.Column("worker", text(32), nullable=False),
        sa.Column("tokens", count(), nullable=False),
        sa.Column("cost_usd", sa.Float(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_with_rowid=False,
    )
    op.create_index("reservations_rollout", "reservations", ["rollout_id"])
    op.create_index("reservations_batch", "reservations", ["batch"])
    op.create_index("reservations_worker", "reservations", ["worker"])
    op.add_column("rollouts", sa.Column("budget", text(16), nullable=True))
    op.add_column("rollouts", sa.Column("limit_reached", sa.Text(), nullable=True))
