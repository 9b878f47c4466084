"""Counts of each lane's calls by minute, filled from the calls of the last two hours."""

from __future__ import annotations

import time
from typing import Any

import sqlalchemy as sa
from alembic import op

from proxy.store.lane_minutes import add_ended, note_kept_from
from proxy.store.tables import EXCHANGE_COLUMNS

revision = "0026"
down_revision = "0025"

_FILLED_S = 7200.0
_READ = (
    "kind", "rollout_id", "upstream", "model", "key_digest", "served_by", "system_fingerprint",
    "started_at", "subcategory", "status", "ending", "first_byte_s", "duration_s", "held",
    "key_source", "injected",
)  # fmt: skip


def upgrade() -> None:
    """Add a table and fill it."""
    postgresql = op.get_bind().dialect.name == "postgresql"

    def text(length: int) -> Any:
        return sa.Text() if postgresql else sa.String(length)

    count = sa.BigInteger() if postgresql else sa.Integer()
    op.create_table(
        "lane_minutes",
        sa.Column("minute", count, nullable=False),
        sa.Column("upstream", text(64), nullable=False),
        sa.Column("model", text(200), nullable=False),
        sa.Column("key_digest", text(16), nullable=False),
        sa.Column("server", text(64), nullable=False),
        sa.Column("slot", sa.BigInteger(), nullable=False),
        sa.Column("answered", count, nullable=False),
        sa.Column("failures", count, nullable=False),
        sa.Column("others", count, nullable=False),
        sa.Column("first_failed_at", sa.Float(), nullable=True),
        sa.Column("last_failed_at", sa.Float(), nullable=True),
        sa.Column("last_answered_at", sa.Float(), nullable=False),
        sa.Column("own_key", sa.Boolean(), nullable=False),
        sa.Column("failed", sa.Text(), nullable=False),
        sa.Column("votes", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("minute", "upstream", "model", "key_digest", "server", "slot"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "lane_minutes_lane", "lane_minutes", ["upstream", "model", "key_digest", "minute"]
    )
    _fill(op.get_bind())


def _fill(connection: sa.Connection) -> None:
    # The counting is the service's own: it adds to these rows.
    calls = sa.table("exchanges", *map(sa.column, _READ))
    begin = time.time() - _FILLED_S
    recent = sa.select(*calls.c).where(calls.c.started_at >= begin)
    unread = dict.fromkeys(EXCHANGE_COLUMNS)
    rows = connection.execute(recent).mappings()
    add_ended(connection, (tuple((unread | dict(row)).values()) for row in rows))
    earlier = sa.select(calls.c.started_at).where(calls.c.started_at < begin).limit(1)
    if connection.execute(earlier).first() is not None:
        note_kept_from(connection, begin)
