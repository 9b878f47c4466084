"""Exchanges: content beside reasoning, and responses that are fetched later.

Calls of earlier versions have none of these facts: null.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add three columns; neither database rewrites the table for that."""
    postgresql = op.get_bind().dialect.name == "postgresql"
    digest = sa.Text() if postgresql else sa.String(32)
    op.add_column("exchanges", sa.Column("content_seen", sa.Boolean(), nullable=True))
    op.add_column("exchanges", sa.Column("response_digest", digest, nullable=True))
    op.add_column("exchanges", sa.Column("pending", sa.Boolean(), nullable=True))
