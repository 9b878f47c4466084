"""Add what scores without an answered call are told by; older rows know none of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """Add columns, which rewrites no table."""
    text = sa.String(80).with_variant(sa.Text(), "postgresql")
    for table, column in (
        ("rollouts", sa.Column("reward_range", text, nullable=True)),
        ("rollouts", sa.Column("client_cache", sa.Boolean(), nullable=True)),
        ("verdicts", sa.Column("passes_tokens", sa.Float(), nullable=True)),
        ("verdicts", sa.Column("unearned", sa.Boolean(), nullable=True)),
    ):
        op.add_column(table, column)
