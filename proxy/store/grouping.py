"""Rollouts of a list counted by what they have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, Connection, func, select

from proxy.store.listing import RolloutQuery, conditions
from proxy.store.tables import JOINED, rollouts, verdicts

Facts = dict[str, Any]

GROUPS: Mapping[str, Column[Any]] = {
    **{name: rollouts.c[name] for name in ("batch", "task", "model", "upstream")},
    **{
        name: verdicts.c[name]
        for name in ("health", "subcategory", "fingerprint", "cause", "scoreable")
    },
}


def grouped(connection: Connection, query: RolloutQuery, by: str, *, limit: int) -> list[Facts]:
    """Count the rollouts of a list by one of `GROUPS`, the largest groups first.

    Returns:
        Rows of ``value`` (None: of none), ``rollouts``, ``scoreable`` ones, their mean ``reward``,
        ``total_tokens`` and ``cost_usd`` (None where no verdict says), ``priced`` verdicts.
    """
    found = select(rollouts.c.id).where(*conditions(query)).subquery()
    value = GROUPS[by].label("value")
    counted = func.count().label("rollouts")
    measured = verdicts.c.scoreable == "yes"
    rows = (
        select(
            value,
            counted,
            func.count().filter(measured).label("scoreable"),
            func.avg(verdicts.c.reward).filter(measured).label("reward"),
            func.sum(verdicts.c.total_tokens).label("total_tokens"),
            func.sum(verdicts.c.cost_usd).label("cost_usd"),
            func.count(verdicts.c.cost_usd).label("priced"),
        )
        .select_from(found.join(JOINED, rollouts.c.id == found.c.id))
        .group_by(value)
        .order_by(counted.desc(), value)
        .limit(limit)
    )
    return [dict(row) for row in connection.execute(rows).mappings()]
