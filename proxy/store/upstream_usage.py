"""Inference calls by upstream and model over time, and a sample of them for quantiles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, bindparam, func, select

from proxy.store.dashboard import floor_of
from proxy.store.tables import exchanges

Facts = dict[str, Any]

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
    """Count ended calls by step, upstream, model and subcategory, oldest first.

    Arguments:
        since: began at or after it, and before ``until``, in epoch seconds.
        upstream: only calls to it.

    Returns:
        Rows of ``step`` (times ``step_s`` is epoch seconds), ``upstream``, ``model`` (that
        answered, else that was asked for), ``subcategory`` (None where answered), ``calls`` and
        ``last_at``, when the last of them began.
    """
    step = floor_of(connection, exchanges.c.started_at / step_s).label("step")
    by: tuple[ColumnElement[Any], ...] = (
        step, exchanges.c.upstream, _MODEL, exchanges.c.subcategory,
    )  # fmt: skip
    query = (
        select(*by, func.count().label("calls"), func.max(exchanges.c.started_at).label("last_at"))
        .where(_INFERENCE, exchanges.c.started_at >= since, exchanges.c.started_at < until)
        .group_by(*by)
        .order_by(step)
    )
    if upstream is not None:
        query = query.where(exchanges.c.upstream == upstream)
    return [dict(row) for row in connection.execute(query).mappings()]


class Slice(NamedTuple):
    """Up to ``most`` calls that began from ``since`` to before ``until`` (epoch seconds)."""

    since: float
    until: float
    most: int


def samples(connection: Connection, slices: Iterable[Slice]) -> list[Facts]:
    """List ended calls of each slice, the newest of it first.

    Returns:
        Rows of ``upstream``, ``model``, ``key_digest``, ``subcategory``, ``started_at``,
        ``first_byte_s``, ``duration_s``.
    """
    return [
        dict(row)
        for each in slices
        for row in connection.execute(_SAMPLE, each._asdict()).mappings()
    ]
