"""Tell apart by which way a series of reference calls asked."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    """Add the column."""
    text = sa.String(16).with_variant(sa.Text(), "postgresql")
    op.add_column("reference_series", sa.Column("way", text, nullable=True))
