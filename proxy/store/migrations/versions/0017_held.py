"""Add how long a call waited for its turn to exchanges; it is null in older rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add a column, which rewrites no table."""
    op.add_column("exchanges", sa.Column("held_s", sa.Float(), nullable=True))
