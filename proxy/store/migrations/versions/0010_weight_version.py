"""The version of the weights that answered a call; null in what was stored before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add a column, which rewrites no table."""
    postgresql = op.get_bind().dialect.name == "postgresql"
    text = sa.Text() if postgresql else sa.String(64)
    op.add_column("exchanges", sa.Column("weight_version", text, nullable=True))
