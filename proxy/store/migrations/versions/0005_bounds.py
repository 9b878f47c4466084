"""Counts, costs and waits that no call can have: unknown, as they are since read.

An answer could claim 2^53 tokens, and a thousand of them made sums that no database takes. Where
a count of a call is unreadable so are its totals. Verdicts keep their JSON: final ones stand.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_COUNT, _COST, _WAIT_S = 10**9, 1e6, 366 * 86_400.0
_STATED = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens",
           "reasoning_tokens", "total_tokens")  # fmt: skip
_TOTALS = ("input_total", "output_total")
_SUMMED = ("input_tokens", "output_tokens", "total_tokens")
_TYPES = {"cost_usd": sa.Float, "retry_after_s": sa.Float, "deaf": sa.Text}
_WHY = "a count or a cost that no call can have"


def upgrade() -> None:
    """Mend the few rows that are out of bounds; on both databases, in the one transaction."""
    execute = op.get_bind().execute
    exchanges = _table("exchanges", *_STATED, *_TOTALS, "cost_usd", "retry_after_s", "deaf")
    beyond = sa.or_(*(_out(exchanges.c[name], _COUNT) for name in _STATED))
    derived = sa.or_(*(_out(exchanges.c[name], len(_STATED) * _COUNT) for name in _TOTALS))
    dear = _out(exchanges.c.cost_usd, _COST)
    mended = {name: _within(exchanges.c[name], _COUNT) for name in _STATED}
    mended |= {name: sa.case((beyond | derived, None), else_=exchanges.c[name]) for name in _TOTALS}
    mended["cost_usd"] = _within(exchanges.c.cost_usd, _COST)
    mended["deaf"] = sa.func.coalesce(exchanges.c.deaf, _WHY)
    execute(sa.update(exchanges).where(beyond | derived | dear).values(mended))
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
