"""Add the seconds that calls lost and waited to verdicts; they are null in older rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Add two columns, which rewrites no table."""
    for name in ("lost_s", "held_s"):
        op.add_column("verdicts", sa.Column(name, sa.Float(), nullable=True))
