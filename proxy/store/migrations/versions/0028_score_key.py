"""Add the key of the score, and the scores that verdicts take away; older rows have no key."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"

_NARROW = (
    "rollout_id", "counted", "scoreable", "provisional", "reward", "input_tokens",
    "output_tokens", "total_tokens", "summed_calls", "tokens_known_calls", "cost_known_calls",
    "cost_usd", "lost_s", "held_s", "taken",
)  # fmt: skip


def upgrade() -> None:
    """Add columns, and forget the kinds of verdicts, which count more than they did.

    `Database.prepare` fills both in, in short transactions; until then they are read one by one.
    """
    text = sa.String(200).with_variant(sa.Text(), "postgresql")
    op.add_column("rollouts", sa.Column("score_key", text, nullable=True))
    op.add_column("verdicts", sa.Column("taken", sa.Float(), nullable=True))
    op.execute("UPDATE verdicts SET counted = NULL")
    if op.get_bind().dialect.name == "sqlite":
        op.drop_index("verdicts_counted", "verdicts")
        op.create_index("verdicts_counted", "verdicts", list(_NARROW))
