"""Add how a call is billed beside the price of its tokens; older rows do not know."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from proxy.store import triggers

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """Add a column, and make the triggers anew that count calls by it."""
    text = sa.String(20).with_variant(sa.Text(), "postgresql")
    op.add_column("exchanges", sa.Column("billed_as", text, nullable=True))
    dialect = op.get_bind().dialect.name
    for statement in (*triggers.removals(dialect), *triggers.statements(dialect)):
        op.execute(statement)
