"""Add when each lane that is down was last tried by one that waits for it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    """Add a table."""
    postgresql = op.get_bind().dialect.name == "postgresql"
    op.create_table(
        "lane_probes",
        sa.Column("upstream", sa.Text() if postgresql else sa.String(64), nullable=False),
        sa.Column("model", sa.Text() if postgresql else sa.String(200), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("upstream", "model"),
        sqlite_with_rowid=False,
    )
