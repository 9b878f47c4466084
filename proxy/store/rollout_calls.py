"""An outline of a rollout's calls: few columns of each, for a page over thousands of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from proxy.store.tables import exchanges, open_calls, verdicts

Facts = dict[str, Any]

_ENDED = (
    "id", "started_at", "duration_s", "ending", "subcategory", "role", "kind", "model",
    "request_digest", "input_total", "output_total",
)  # fmt: skip
_OPEN = ("id", "started_at", "role", "kind", "model")
_UNKNOWN: Facts = dict.fromkeys(_ENDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutline:
    """A rollout's first calls by id, the oldest first, and how many it has in all."""

    calls: Sequence[Facts]
    total: int


def outline(connection: Connection, rollout_id: str, *, limit: int) -> CallOutline:
    """Outline up to ``limit`` calls of a rollout; those in flight have no ending."""
    of_rollout = exchanges.c.rollout_id == rollout_id
    query = select(*(exchanges.c[name] for name in _ENDED)).where(of_rollout)
    ended = connection.execute(query.order_by(exchanges.c.id).limit(limit)).mappings()
    calls = {row["id"]: dict(row) for row in ended}
    total = len(calls)
    if total == limit:
        total = connection.scalar(select(func.count()).where(of_rollout)) or 0
    flying = select(*(open_calls.c[name] for name in _OPEN))
    for row in connection.execute(flying.where(open_calls.c.rollout_id == rollout_id)).mappings():
        if row["id"] not in calls:
            calls[row["id"]] = {**_UNKNOWN, **row}
            total += 1
    in_order = sorted(calls.values(), key=lambda call: str(call["id"]))
    return CallOutline(calls=in_order[:limit], total=total)


def known_calls(connection: Connection, rollout_id: str) -> Facts:
    """Return how many calls used tokens, and how many of them a verdict's sums know.

    Returns:
        ``calls``, ``tokens_known_calls``, ``cost_known_calls``; None where it was not judged.
    """
    names = {
        "calls": verdicts.c.summed_calls,
        "tokens_known_calls": verdicts.c.tokens_known_calls,
        "cost_known_calls": verdicts.c.cost_known_calls,
    }
    query = select(*(column.label(name) for name, column in names.items()))
    row = connection.execute(query.where(verdicts.c.rollout_id == rollout_id)).mappings().first()
    return dict(row) if row is not None else dict.fromkeys(names)
