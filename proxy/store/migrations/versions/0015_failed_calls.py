"""An index of calls that failed, and of models' answers that could not be read, by their time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

_FAILED = (
    "(subcategory IS NOT NULL"
    " OR (answer_state = 'unread' AND kind IN ('inference', 'continuation')))"
)


def upgrade() -> None:
    """Add an index, which rewrites no table."""
    failed = sa.text(_FAILED)
    op.create_index(
        "exchanges_failed",
        "exchanges",
        ["started_at"],
        sqlite_where=failed,
        postgresql_where=failed,
    )
