"""The table of pace."""

from __future__ import annotations

from sqlalchemy import Column, Float, Table

from proxy.store.tables import COUNT, metadata, text_of

# What each process may use of a lane's rate limits, and the calls that wait there.
pace_shares = Table(
    "pace_shares",
    metadata,
    Column("upstream", text_of(64), primary_key=True),
    Column("model", text_of(200), primary_key=True),
    Column("key_digest", text_of(16), primary_key=True),
    Column("worker", text_of(32), primary_key=True),
    Column("share", Float, nullable=False),
    Column("rollouts", Float, nullable=False),
    Column("waiting", COUNT, nullable=False),
    Column("longest_s", Float, nullable=False),
    Column("blocked_until", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("in_flight", Float, nullable=False, server_default="0"),
    Column("answered", Float, nullable=False, server_default="0"),  # calls a second
    Column("rate", Float),  # of the whole lane, as 429s taught
    Column("rate_at", Float),
    Column("at_once", Float),
    Column("at_once_at", Float),
    sqlite_with_rowid=False,
)
