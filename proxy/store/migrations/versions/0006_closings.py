"""Ended rollouts, whose calls every worker ends and says so."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the table and columns; what has an outcome by now is closed."""
    text = sa.String(200).with_variant(sa.Text(), "postgresql")
    op.create_table(
        "closings",
        sa.Column("rollout_id", text, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("rollout_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("closings_number", "closings", ["number"])
    op.add_column("rollouts", sa.Column("closed_at", sa.Float()))
    op.add_column("rollouts", sa.Column("closed_calls", sa.Integer()))
    op.add_column("workers", sa.Column("closed_up_to", sa.Integer()))
    op.add_column("workers", sa.Column("still_closing", sa.Text()))
    op.execute("UPDATE rollouts SET closed_at = outcome_at WHERE outcome_at IS NOT NULL")
