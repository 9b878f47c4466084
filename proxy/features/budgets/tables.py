"""The tables of budgets."""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, Table, Text

from proxy.store.tables import COUNT, metadata, text_of

ROLLOUT, BATCH = "rollout", "batch"
"""The ``kind`` of a budget: of a rollout, or of a batch."""

# The limits of rollouts and batches, and what is spent of them. A rollout of a batch with limits
# has a row without any of its own.
budgets = Table(
    "budgets",
    metadata,
    Column("kind", text_of(8), primary_key=True),  # rollout, batch
    Column("name", text_of(200), primary_key=True),
    Column("batch", text_of(200)),  # of a rollout
    Column("declared", Text),  # JSON, the limits as registered; those below may be raised since
    Column("calls", COUNT),
    Column("tokens", COUNT),
    Column("cost_usd", Float),
    Column("seconds", Float),
    Column("on_limit", text_of(8)),  # refuse, pause
    Column("pause_s", Float),
    Column("spent_calls", COUNT, nullable=False, server_default="0"),
    Column("spent_tokens", COUNT, nullable=False, server_default="0"),
    Column("spent_cost_usd", Float, nullable=False, server_default="0"),
    Column("spent_seconds", Float, nullable=False, server_default="0"),
    Column("largest_tokens", COUNT, nullable=False, server_default="0"),  # of one call so far
    Column("largest_cost_usd", Float, nullable=False, server_default="0"),
    Column("largest_seconds", Float, nullable=False, server_default="0"),
    Column("reached_at", Float),  # since when a limit is spent
    Index("budgets_batch", "batch"),
    sqlite_with_rowid=False,
)

# What calls in flight have reserved; who buries a dead process settles its reservations.
reservations = Table(
    "reservations",
    metadata,
    Column("id", text_of(32), primary_key=True),  # of the call
    Column("rollout_id", text_of(200)),  # null for a role other than agent
    Column("batch", text_of(200)),  # null where it has no limits
    Column("worker", text_of(32), nullable=False),
    Column("tokens", COUNT, nullable=False),
    Column("cost_usd", Float, nullable=False),
    Column("seconds", Float, nullable=False),
    Index("reservations_rollout", "rollout_id"),
    Index("reservations_batch", "batch"),
    Index("reservations_worker", "worker"),
    sqlite_with_rowid=False,
)

# Calls that wait for what calls in flight have reserved of a budget, which they meet oldest first.
waiting_calls = Table(
    "waiting_calls",
    metadata,
    Column("id", text_of(32), primary_key=True),  # of the call
    Column("kind", text_of(8), nullable=False),  # of the budget in its way
    Column("name", text_of(200), nullable=False),
    Column("since", Float, nullable=False),
    Column("worker", text_of(32), nullable=False),
    Index("waiting_calls_budget", "kind", "name", "since"),
    Index("waiting_calls_worker", "worker"),
    sqlite_with_rowid=False,
)
