"""Add findings about answers and a digest of each to exchanges; they are null in older rows."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add columns, which rewrites no table."""
    postgresql = op.get_bind().dialect.name == "postgresql"

    def text(length: int) -> Any:
        return sa.Text() if postgresql else sa.String(length)

    for name, kind in (
        ("answer_state", text(16)),
        ("inferred", sa.Boolean()),
        ("output_digest", text(32)),
        ("output_reads_as", text(20)),
    ):
        op.add_column("exchanges", sa.Column(name, kind, nullable=True))
