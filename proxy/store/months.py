"""The monthly partitions of exchanges, which only PostgreSQL has.

It judges no age: which months are there, and which are wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, select, text

from proxy.store.locks import Lock, hold

_AHEAD = 2
_LOCK_PATIENCE_MS = 1000  # for the moment in which a partition comes or goes


class Month(NamedTuple):
    """A partition: from when, up to when, in epoch seconds."""

    name: str
    start: float
    end: float


def wanted(now: float) -> list[Month]:
    """The months that stand ready at a time, in epoch seconds."""
    at = datetime.fromtimestamp(now, UTC)
    first = at.year * 12 + at.month - 1
    return [_month(first + ahead) for ahead in range(_AHEAD + 1)]


def _month(number: int) -> Month:
    bounds = [datetime(n // 12, n % 12 + 1, 1, tzinfo=UTC) for n in (number, number + 1)]
    return Month(f"exchanges_{bounds[0]:%Y_%m}", bounds[0].timestamp(), bounds[1].timestamp())


def add(connection: Connection, wanted: Iterable[Month]) -> None:
    """Make the partitions that are not there; what the default one holds of them moves over."""
    hold(connection, Lock.MONTHS)
    for month in wanted:
        if connection.scalar(select(func.to_regclass(month.name))) is None:
            connection.execute(text(f"SET LOCAL lock_timeout = {_LOCK_PATIENCE_MS}"))
            for statement in _adding(month):
                connection.execute(text(statement))


def _adding(month: Month) -> Iterator[str]:
    name, start, end = month
    span = f"started_at >= {start!r} AND started_at < {end!r}"
    yield f"CREATE TABLE {name} (LIKE exchanges INCLUDING DEFAULTS INCLUDING CONSTRAINTS)"
    yield (
        f"WITH moved AS (DELETE FROM exchanges_else WHERE {span} RETURNING *)"
        f" INSERT INTO {name} SELECT * FROM moved"
    )
    yield (
        f"ALTER TABLE exchanges ATTACH PARTITION {name} FOR VALUES FROM ({start!r}) TO ({end!r})"
    )
