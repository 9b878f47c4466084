"""The drifts of lanes that a verdict stands on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Add a column, which rewrites no table."""
    op.add_column("verdicts", sa.Column("drifts", sa.Text(), nullable=True))
