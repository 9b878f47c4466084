"""Calls by upstream and model over time, and a sample of inference calls for quantiles."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlalchemy import Connection, RowMapping, bindparam, func, literal, select, union_all

from proxy.store.derived import batches, call_usage
from proxy.store.tables import exchanges

Facts = dict[str, Any]

_MINUTE = 60
_BATCHES = union_all(select(batches.c.batch), select(literal("")))
_MODEL = func.coalesce(exchanges.c.answered_model, exchanges.c.model).label("model")
_INFERENCE = exchanges.c.kind == "inference"
_SAMPLED = ("upstream", "key_digest", "subcategory", "started_at", "first_byte_s", "duration_s")
_SAMPLE = (
    select(_MODEL, *(exchanges.c[name] for name in _SAMPLED))
    .where(_INFERENCE)
    .where(exchanges.c.started_at >= bindparam("since"))
    .where(exchanges.c.started_at < bindparam("until"))
    .order_by(exchanges.c.started_at.desc())
    .limit(bindparam("most"))
)


def usage(
    connection: Connection,
    *,
    since: float,
    until: float,
    step_s: int,
    upstream: str | None = None,
) -> list[Facts]:
    """Count ended calls by step, upstream, model and subcategory.

    Arguments:
        since: began in its minute or later, and before ``until``, in epoch seconds.
        step_s: whole minutes, in seconds.
        upstream: only calls to it.

    Returns:
        Rows of ``step`` (times ``step_s`` is epoch seconds), ``upstream``, ``model`` (that
        answered, else that was asked for), ``subcategory`` (None where answered), ``calls`` and
        ``last_at``, the minute in which the last of them began.
    """
    calls = call_usage.c
    step = (calls.minute // (step_s // _MINUTE)).label("step")
    by = (step, calls.upstream, calls.model, calls.cause)
    total, last = func.sum(calls.calls), func.max(calls.minute)
    query = (
        select(*by, total.label("calls"), last.label("last"))
        .where(calls.batch.in_(_BATCHES))  # so that the index is walked, whatever is older
        .where(calls.minute >= math.floor(since / _MINUTE))
        .where(calls.minute < math.ceil(until / _MINUTE))
        .group_by(*by)
        .having(total > 0)
    )
    if upstream is not None:
        query = query.where(calls.upstream == upstream)
    return [_row(row) for row in connection.execute(query).mappings()]


def _row(row: RowMapping) -> Facts:
    return {
        "step": row["step"],
        "upstream": row["upstream"],
        "model": row["model"] or None,
        "subcategory": row["cause"] or None,
        "calls": int(row["calls"]),
        "last_at": float(row["last"] * _MINUTE),
    }


class Slice(NamedTuple):
    """Up to ``most`` calls that began from ``since`` to before ``until`` (epoch seconds)."""

    since: float
    until: float
    most: int


def samples(connection: Connection, slices: Iterable[Slice]) -> list[Facts]:
    """List ended inference calls of each slice, the newest of it first.

    Returns:
        Rows of ``upstream``, ``model``, ``key_digest``, ``subcategory``, ``started_at``,
        ``first_byte_s``, ``duration_s``.
    """
    return [
        dict(row)
        for each in slices
        for row in connection.execute(_SAMPLE, each._asdict()).mappings()
    ]
