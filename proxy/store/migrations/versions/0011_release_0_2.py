"""From the schema of 0.1 to that of 0.2, in one step; facts that 0.1 did not store are null.

It has the number of the last step that development took on this way: a database at that step is
at this one, those at steps between the two are refused.
"""

from __future__ import annotations

import re
from typing import Any

import sqlalchemy as sa
from alembic import op

from proxy.store import triggers

revision = "0011"
down_revision = "0002"

# The most that one call can have; what exceeds it is unknown.
_COUNT, _COST, _WAIT_S = 10**9, 1e6, 366 * 86_400.0
_STATED = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens",
           "reasoning_tokens", "total_tokens")  # fmt: skip
_TOTALS = ("input_total", "output_total")
_SUMMED = ("input_tokens", "output_tokens", "total_tokens")
_TYPES = {"cost_usd": sa.Float, "retry_after_s": sa.Float, "deaf": sa.Text}
_WHY = "a count or a cost that no call can have"

_OF_ALL = ("health", "fingerprint")  # columns whose index across batches holds nulls too
_LISTED_BY = (
    "health", "subcategory", "fingerprint", "reward", "total_tokens", "cost_usd",
)  # fmt: skip
# What the triggers read of a column that migration 0027 adds, and makes them anew for.
_OF_0027 = re.compile(r" WHEN \w+\.billed_as IS NOT NULL THEN 'special'")
_USAGE_KEYS = {"model": 200, "upstream": 64, "role": 40, "cause": 20, "basis": 8}
_USAGE_COUNTS = (
    "calls", "input_known_calls", "output_known_calls", "tokens_known_calls", "input_tokens",
    "output_tokens", "total_tokens", "cached_input_tokens", "cache_write_tokens",
    "seconds_known_calls",
)  # fmt: skip


def upgrade() -> None:
    """Add columns, which rewrites no table, tables and indexes; fill what follows from rows."""
    _add_columns()
    bound_counts()
    _close_what_has_an_outcome()
    _index_lists()
    _add_totals()


def _text(longest: int) -> sa.types.TypeEngine[str]:
    return sa.Text() if _is_postgresql() else sa.String(longest)


def _count() -> sa.types.TypeEngine[int]:
    return sa.BigInteger() if _is_postgresql() else sa.Integer()


def _is_postgresql() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def _add_columns() -> None:
    flag, number, count = sa.Boolean(), sa.Integer(), _count()
    columns: dict[str, dict[str, Any]] = {
        "exchanges": {
            "content_seen": flag, "response_digest": _text(32), "pending": flag,
            "selector_digest": _text(32), "key_source": _text(16), "model_ambiguous": flag,
            "held": flag, "output_limit": count, "prompt_words": count, "continues": _text(32),
            "begun_elsewhere": flag, "written_call": flag, "fallback": flag,
            "served_by": _text(64), "system_fingerprint": _text(64), "weight_version": _text(64),
        },
        "rollouts": {
            "fallbacks": sa.Text(), "closed_at": sa.Float(), "closed_calls": number,
            "agents": _text(16), "validity": _text(16), "max_steps": _text(16),
            "repeat": number, "repeats": number,
        },
        "workers": {"closed_up_to": number, "still_closing": sa.Text()},
        "verdicts": {
            "attributed_to": _text(16), "neighbours": sa.Text(), "validity": sa.Text(),
            "unattributed_calls": number, "summed_calls": count, "tokens_known_calls": count,
            "cost_known_calls": count, "servings": sa.Text(), "began_at": sa.Float(),
        },
    }  # fmt: skip
    for table, added in columns.items():
        for name, kind in added.items():
            op.add_column(table, sa.Column(name, kind, nullable=True))


def bound_counts() -> None:
    """Forget counts, costs and waits that no call can have, and sums that stand on them.

    An answer could claim 2^53 tokens, and a thousand of them made sums that no database takes.
    Where a count of a call is unreadable so are its totals. Verdicts keep their JSON.
    """
    execute = op.get_bind().execute
    exchanges = _table("exchanges", *_STATED, *_TOTALS, "cost_usd", "retry_after_s", "deaf")
    beyond = sa.or_(*(_out(exchanges.c[name], _COUNT) for name in _STATED))
    derived = sa.or_(*(_out(exchanges.c[name], len(_STATED) * _COUNT) for name in _TOTALS))
    dear = _out(exchanges.c.cost_usd, _COST)
    bounded = {name: _within(exchanges.c[name], _COUNT) for name in _STATED}
    bounded |= {
        name: sa.case((beyond | derived, None), else_=exchanges.c[name]) for name in _TOTALS
    }
    bounded["cost_usd"] = _within(exchanges.c.cost_usd, _COST)
    bounded["deaf"] = sa.func.coalesce(exchanges.c.deaf, _WHY)
    execute(sa.update(exchanges).where(beyond | derived | dear).values(bounded))
    long = exchanges.c.retry_after_s > _WAIT_S
    execute(sa.update(exchanges).where(long).values(retry_after_s=_WAIT_S))

    verdicts = _table("verdicts", *_SUMMED, "calls", "cost_usd")
    calls = sa.func.abs(verdicts.c.calls, type_=sa.BigInteger) + 1  # -1: it is judged again
    for name in _SUMMED:
        _forget(verdicts.c[name], calls * sa.literal(2 * len(_STATED) * _COUNT, sa.BigInteger))
    _forget(verdicts.c.cost_usd, sa.cast(calls, sa.Float) * _COST)


def _table(name: str, *columns: str) -> sa.TableClause:
    return sa.table(name, *(sa.column(each, _TYPES.get(each, sa.BigInteger)) for each in columns))


def _out(column: sa.ColumnElement[float], limit: object) -> sa.ColumnElement[bool]:
    # PostgreSQL's NaN is more than any number; SQLite has none.
    return sa.or_(column > limit, column < 0)


def _within(column: sa.ColumnElement[float], limit: float) -> sa.ColumnElement[float | None]:
    return sa.case((_out(column, limit), None), else_=column)


def _forget(column: sa.ColumnClause[float], limit: object) -> None:
    verdicts = column.table
    assert isinstance(verdicts, sa.TableClause)
    out = sa.update(verdicts).where(_out(column, limit)).values({column.name: None})
    op.get_bind().execute(out)


def _close_what_has_an_outcome() -> None:
    text = sa.String(200).with_variant(sa.Text(), "postgresql")
    op.create_table(
        "closings",
        sa.Column("rollout_id", text, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("rollout_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("closings_number", "closings", ["number"])
    op.execute("UPDATE rollouts SET closed_at = outcome_at WHERE outcome_at IS NOT NULL")


def _index_lists() -> None:
    """Index rollouts in the order in which lists show them.

    A verdict gets its rollout's time, because an index cannot span two tables.
    """
    op.execute(
        "UPDATE verdicts SET began_at = "
        "(SELECT created_at FROM rollouts WHERE rollouts.id = verdicts.rollout_id)"
    )
    for name in ("verdicts_batch", "verdicts_fingerprint"):
        op.drop_index(name, "verdicts")
    op.create_index("rollouts_group", "rollouts", ["batch", "task", "created_at", "id"])
    for column in _LISTED_BY:
        known = None if column == "health" else sa.text(f"{column} IS NOT NULL")
        across = None if column in _OF_ALL else known
        order = [column, "began_at", "rollout_id"]
        op.create_index(
            f"verdicts_{column}", "verdicts", order, sqlite_where=across, postgresql_where=across
        )
        op.create_index(
            f"verdicts_batch_{column}", "verdicts", ["batch", *order],
            sqlite_where=known, postgresql_where=known,
        )  # fmt: skip


def _add_totals() -> None:
    """Add what is summed up as it happens, and the triggers that keep it.

    Calls are counted here; batches are marked, and `Batches.count_invalidated` counts each in a
    transaction of its own, now or when it is first read.
    """
    dialect, count = op.get_bind().dialect.name, _count()

    def key(name: str, kind: Any) -> sa.Column[Any]:
        return sa.Column(name, kind, nullable=False, autoincrement=False)

    def sums(names: tuple[str, ...], kind: Any) -> list[sa.Column[Any]]:
        return [sa.Column(name, kind, nullable=False, server_default="0") for name in names]

    def table(name: str, keys: int, *columns: sa.Column[Any]) -> None:
        primary = sa.PrimaryKeyConstraint(*(column.name for column in columns[:keys]))
        op.create_table(name, *columns, primary, sqlite_with_rowid=False)

    batch = ("batch", _text(200))
    table(
        "call_usage", 8, key(*batch), key("minute", count),
        *(key(name, _text(longest)) for name, longest in _USAGE_KEYS.items()),
        key("slot", sa.Integer()),
        *sums(_USAGE_COUNTS, count), *sums(("cost_usd", "seconds"), sa.Float()),
    )  # fmt: skip
    table(
        "unjudged", 1, key("rollout_id", _text(200)), sa.Column(*batch), key("change", count),
    )  # fmt: skip
    op.create_index("unjudged_batch", "unjudged", ["batch"])
    table(
        "batches", 1, key(*batch), key("first_at", sa.Float()), key("last_at", sa.Float()),
        *sums(("version",), count), sa.Column("counts", sa.Text()),
    )  # fmt: skip
    op.create_index("batches_newest", "batches", ["last_at", "batch"])
    table(
        "batch_notes", 4, key(*batch), key("kind", _text(16)), key("at", sa.Float()),
        key("rollout_id", _text(200)),
    )  # fmt: skip
    table(
        "batch_tasks", 2, key(*batch), key("task", _text(200)), key("repeats", count),
        key("kept", count), key("score", sa.Text()), key("lanes", sa.Text()),
        key("wanted", sa.Text()),
    )  # fmt: skip
    table(
        "batch_shapes", 2, key(*batch), key("digest", _text(32)), key("repeats", count),
        key("kept", count), key("score", sa.Text()), key("lanes", sa.Text()), key("tasks", count),
    )  # fmt: skip
    table(
        "batch_servings", 2, key(*batch), key("digest", _text(32)), key("servings", sa.Text()),
        key("rollouts", count), key("examples", sa.Text()),
    )  # fmt: skip

    op.create_index("rollouts_repeat", "rollouts", ["batch", "task", "repeat"])
    filled = (triggers.usage_fill(dialect), triggers.MARK_ALL, triggers.NOTE_ALL)
    for statement in (*filled, *triggers.statements(dialect)):
        op.execute(_OF_0027.sub("", statement))
