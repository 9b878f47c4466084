"""Rollouts: further models that count as the one under test.

Rollouts of earlier versions have none: null.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add a column; neither database rewrites the table for that."""
    op.add_column("rollouts", sa.Column("fallbacks", sa.Text(), nullable=True))
