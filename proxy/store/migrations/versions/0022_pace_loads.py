"""Processes' parts of a lane's calls, and what 429s taught them of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Add columns, which rewrites no table."""
    for name in ("in_flight", "answered"):
        column = sa.Column(name, sa.Float(), nullable=False, server_default="0")
        op.add_column("pace_shares", column)
    for name in ("rate", "rate_at", "at_once", "at_once_at"):
        op.add_column("pace_shares", sa.Column(name, sa.Float(), nullable=True))
