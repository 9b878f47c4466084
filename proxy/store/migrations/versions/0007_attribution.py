"""Whose failure a call was: facts of exchanges, the agents' policy, and whose it was found to be.

What earlier versions stored has none of these facts: null.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add columns; neither database rewrites a table for that."""
    postgresql = op.get_bind().dialect.name == "postgresql"

    def text(longest: int) -> sa.types.TypeEngine[str]:
        return sa.Text() if postgresql else sa.String(longest)

    op.add_column("exchanges", sa.Column("selector_digest", text(32), nullable=True))
    op.add_column("exchanges", sa.Column("key_source", text(16), nullable=True))
    op.add_column("exchanges", sa.Column("model_ambiguous", sa.Boolean(), nullable=True))
    op.add_column("exchanges", sa.Column("held", sa.Boolean(), nullable=True))
    op.add_column("rollouts", sa.Column("agents", text(16), nullable=True))
    op.add_column("verdicts", sa.Column("attributed_to", text(16), nullable=True))
    op.add_column("verdicts", sa.Column("neighbours", sa.Text(), nullable=True))
