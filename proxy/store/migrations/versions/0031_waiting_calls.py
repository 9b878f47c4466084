"""Add the calls that wait for reservations, so that processes admit them in one order."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    """Add a table."""
    postgresql = op.get_bind().dialect.name == "postgresql"

    def text(length: int) -> sa.types.TypeEngine[str]:
        return sa.Text() if postgresql else sa.String(length)

    op.create_table(
        "waiting_calls",
        sa.Column("id", text(32), nullable=False),
        sa.Column("kind", text(8), nullable=False),
        sa.Column("name", text(200), nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("worker", text(32), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_with_rowid=False,
    )
    op.create_index("waiting_calls_budget", "waiting_calls", ["kind", "name", "since"])
    op.create_index("waiting_calls_worker", "waiting_calls", ["worker"])
