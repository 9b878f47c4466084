"""An index of verdicts without a score, by when their rollouts began."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

_UNSCORED = "(provisional OR scoreable <> 'yes' OR reward IS NULL)"


def upgrade() -> None:
    """Add an index, which rewrites no table."""
    unscored = sa.text(_UNSCORED)
    op.create_index(
        "verdicts_unscored",
        "verdicts",
        ["batch", "began_at", "rollout_id"],
        sqlite_where=unscored,
        postgresql_where=unscored,
    )
