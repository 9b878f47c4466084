"""The monthly partitions of exchanges, which only PostgreSQL has.

It judges no age: which months are there, and which are wanted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, select, text

from proxy.store.connections import Connections
from proxy.store.locks import Lock, hold

_AHEAD = 2
_LOCK_PATIENCE_MS = 1000  # for the moment in which a partition comes or goes


class Month(NamedTuple):
    """A partition: from when, up to when, in epoch seconds."""

    name: str
    start: float
    end: float


class Partitions:
    """Keeps the partitions ready in which the next calls are written."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._ready: frozenset[Month] = frozenset()

    def add_ahead(self, now: float) -> None:
        """Make the partitions of this month (of a time in epoch seconds) and of the next two."""
        months = wanted(now)
        if not self._ready.issuperset(months):
            with self._connections.writing() as connection:
                add(connection, months)
            self._ready = frozenset(months)


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


def begin(at: float) -> float:
    """When the month began that a time stands in, both in epoch seconds."""
    return wanted(at)[0].start


def ended(connection: Connection, before: float) -> list[str]:
    """The partitions that hold nothing from a time on, oldest first."""
    names = connection.execute(text(_PARTITIONS)).scalars()
    known = (month for name in names if (month := _named(name)) is not None)
    return [month.name for month in sorted(known) if month.end <= before]


_PARTITIONS = """
SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
WHERE inhparent = 'exchanges'::regclass
"""
_NAME = re.compile(r"exchanges_(\d{4})_(\d\d)\Z")


def _named(name: str) -> Month | None:
    found = _NAME.match(name)
    return _month(int(found[1]) * 12 + int(found[2]) - 1) if found else None


def drop(connection: Connection, name: str, *, most: int) -> bool:
    """Drop a partition; calls in it whose rollouts are known move to the default one.

    Arguments:
        most: calls that are moved; where there are more, nothing is done.

    Returns:
        Whether it was dropped.
    """
    hold(connection, Lock.MONTHS)
    known = "WHERE EXISTS (SELECT 1 FROM rollouts WHERE rollouts.id = rollout_id)"
    some = f"SELECT 1 FROM {name} {known} LIMIT {most + 1}"
    if (connection.scalar(text(f"SELECT count(*) FROM ({some}) AS kept")) or 0) > most:
        return False
    connection.execute(text(f"SET LOCAL lock_timeout = {_LOCK_PATIENCE_MS}"))
    connection.execute(text(f"ALTER TABLE exchanges DETACH PARTITION {name}"))
    connection.execute(text(f"INSERT INTO exchanges SELECT * FROM {name} {known}"))
    connection.execute(text(f"DROP TABLE {name}"))
    return True
