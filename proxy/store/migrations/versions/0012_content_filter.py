"""Add the batch's reading of a filtered request to rollouts; it is null in older rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add a column, which rewrites no table."""
    postgresql = op.get_bind().dialect.name == "postgresql"
    text = sa.Text() if postgresql else sa.String(16)
    op.add_column("rollouts", sa.Column("content_filter", text, nullable=True))
