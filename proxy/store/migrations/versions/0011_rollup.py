"""What is summed up as it happens: calls by minute, rollouts by batch, and what is to be judged.

All of it follows from rows that there are. Calls are counted here; batches are marked, and
`Batches.count_marked` counts each in a transaction of its own, now or when it is first read.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from proxy.store import triggers

revision = "0011"
down_revision = "0010"

_USAGE_KEYS = {"model": 200, "upstream": 64, "role": 40, "cause": 20, "basis": 8}
_USAGE_COUNTS = (
    "calls", "input_known_calls", "output_known_calls", "tokens_known_calls", "input_tokens",
    "output_tokens", "total_tokens", "cached_input_tokens", "cache_write_tokens",
    "seconds_known_calls",
)  # fmt: skip


def upgrade() -> None:
    """Add the tables, fill them from the others, and have triggers keep them."""
    dialect = op.get_bind().dialect.name
    postgresql = dialect == "postgresql"
    count = sa.BigInteger() if postgresql else sa.Integer()

    def text(longest: int) -> Any:
        return sa.Text() if postgresql else sa.String(longest)

    def key(name: str, kind: Any) -> sa.Column[Any]:
        return sa.Column(name, kind, nullable=False, autoincrement=False)

    def sums(names: tuple[str, ...], kind: Any) -> list[sa.Column[Any]]:
        return [sa.Column(name, kind, nullable=False, server_default="0") for name in names]

    def table(name: str, keys: int, *columns: sa.Column[Any]) -> None:
        primary = sa.PrimaryKeyConstraint(*(column.name for column in columns[:keys]))
        op.create_table(name, *columns, primary, sqlite_with_rowid=False)

    batch = ("batch", text(200))
    table(
        "call_usage", 8, key(*batch), key("minute", count),
        *(key(name, text(longest)) for name, longest in _USAGE_KEYS.items()),
        key("slot", sa.Integer()),
        *sums(_USAGE_COUNTS, count), *sums(("cost_usd", "seconds"), sa.Float()),
    )  # fmt: skip
    table(
        "unjudged", 1, key("rollout_id", text(200)), sa.Column(*batch), key("change", count),
    )  # fmt: skip
    op.create_index("unjudged_batch", "unjudged", ["batch"])
    table(
        "batches", 1, key(*batch), key("first_at", sa.Float()), key("last_at", sa.Float()),
        *sums(("version",), count), sa.Column("counts", sa.Text()),
    )  # fmt: skip
    op.create_index("batches_newest", "batches", ["last_at", "batch"])
    table(
        "batch_notes", 4, key(*batch), key("kind", text(16)), key("at", sa.Float()),
        key("rollout_id", text(200)),
    )  # fmt: skip
    table(
        "batch_tasks", 2, key(*batch), key("task", text(200)), key("repeats", count),
        key("kept", count), key("score", sa.Text()), key("lanes", sa.Text()),
        key("wanted", sa.Text()),
    )  # fmt: skip
    table(
        "batch_shapes", 2, key(*batch), key("digest", text(32)), key("repeats", count),
        key("kept", count), key("score", sa.Text()), key("lanes", sa.Text()), key("tasks", count),
    )  # fmt: skip
    table(
        "batch_servings", 2, key(*batch), key("digest", text(32)), key("servings", sa.Text()),
        key("rollouts", count), key("examples", sa.Text()),
    )  # fmt: skip

    op.create_index("rollouts_repeat", "rollouts", ["batch", "task", "repeat"])
    for statement in (triggers.usage_fill(dialect), triggers.MARK_ALL, triggers.NOTE_ALL):
        op.execute(statement)
    for statement in triggers.statements(dialect):
        op.execute(statement)
