"""Indexes that lists of rollouts are read by, in the order in which they are shown.

A verdict gets its rollout's time: an index cannot span two tables.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_REPLACED = (
    ("rollouts_group", "rollouts"),
    ("verdicts_batch", "verdicts"),
    ("verdicts_fingerprint", "verdicts"),
)
_OF_ALL = ("health", "fingerprint")  # columns whose index across batches holds nulls too
_LISTED_BY = (
    "health", "subcategory", "fingerprint", "reward", "total_tokens", "cost_usd",
)  # fmt: skip


def upgrade() -> None:
    """Add the column, fill it, and build the indexes."""
    op.add_column("verdicts", sa.Column("began_at", sa.Float(), nullable=True))
    op.execute(
        "UPDATE verdicts SET began_at = "
        "(SELECT created_at FROM rollouts WHERE rollouts.id = verdicts.rollout_id)"
    )
    for name, table in _REPLACED:
        op.drop_index(name, table)
    op.create_index("rollouts_group", "rollouts", ["batch", "task", "created_at", "id"])
    for column in _LISTED_BY:
        known = None if column == "health" else sa.text(f"{column} IS NOT NULL")
        across = None if column in _OF_ALL else known
        order = [column, "began_at", "rollout_id"]
        op.create_index(
            f"verdicts_{column}", "verdicts", order, sqlite_where=across, postgresql_where=across
        )
        op.create_index(
            f"verdicts_batch_{column}", "verdicts", ["batch", *order],
            sqlite_where=known, postgresql_where=known,
        )  # fmt: skip
