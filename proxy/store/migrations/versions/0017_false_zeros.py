"""Batches count the reported zeros that are no measurements: each is counted anew when read."""

from __future__ import annotations

from alembic import op

revision = "0017"
down_revision = "0016"

_SUMMED = ("batch_notes", "batch_tasks", "batch_shapes", "batch_servings")


def upgrade() -> None:
    """Have every batch counted anew."""
    for table in _SUMMED:
        op.execute(f"DELETE FROM {table}")
    op.execute("UPDATE batches SET counts = NULL, version = version + 1")
