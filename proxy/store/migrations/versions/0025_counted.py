"""Batches are counted from their rows: their totals go, and verdicts that count alike are told."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"

_NARROW = (
    "rollout_id", "counted", "scoreable", "provisional", "reward", "input_tokens",
    "output_tokens", "total_tokens", "summed_calls", "tokens_known_calls", "cost_known_calls",
    "cost_usd", "lost_s", "held_s",
)  # fmt: skip


def upgrade() -> None:
    """Drop tables and columns, add a column, and widen indexes.

    The kinds of verdicts that are there already are filled in by `Database.prepare`, in short
    transactions; until then they are read one by one.
    """
    for table in ("batch_notes", "batch_tasks", "batch_shapes", "batch_servings"):
        op.drop_table(table)
    op.drop_column("batches", "counts")
    op.drop_column("verdicts", "drifts")
    whole = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
    op.add_column("verdicts", sa.Column("counted", whole, nullable=True))
    op.drop_index("rollouts_repeat", "rollouts")
    columns = ["batch", "task", "repeat", "attempt", "repeats", "id"]
    op.create_index("rollouts_repeat", "rollouts", columns)
    if op.get_bind().dialect.name == "sqlite":
        op.create_index("verdicts_counted", "verdicts", list(_NARROW))
