"""Runs of a batch, which say when it has ended, and how often a rollout's group has settled.

Nobody said of older batches that they go on: they have ended with what they hold.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add a table and a column, which rewrites no other table."""
    postgresql = op.get_bind().dialect.name == "postgresql"
    text: Any = sa.Text() if postgresql else sa.String(200)
    op.create_table(
        "batch_runs",
        sa.Column("batch", text, nullable=False),
        sa.Column("run", text, nullable=False),
        sa.Column("begun_at", sa.Float(), nullable=False),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("batch", "run"),
        sqlite_with_rowid=False,
    )
    op.add_column("rollouts", sa.Column("group_revision", sa.Integer(), nullable=True))
    op.execute(
        "INSERT INTO batch_runs (batch, run, begun_at, ended_at)"
        " SELECT batch, '', first_at, last_at FROM batches"
    )
