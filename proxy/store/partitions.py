"""Monthly partitions of the table `exchanges`, on PostgreSQL only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, select, text

from proxy.store.connections import Connections, Lock, hold

_AHEAD = 2  # months
_LOCK_TIMEOUT_MS = 1000  # while a partition is attached or detached


class Partition(NamedTuple):
    """A monthly partition: its table, start and end, in epoch seconds."""

    name: str
    start: float
    end: float


class Partitions:
    """Keeps the partitions ready in which the next calls are written."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._ready: frozenset[Partition] = frozenset()

    def add_ahead(self, now: float) -> None:
        """Create the partitions of the month of ``now`` (epoch seconds) and of the next two."""
        partitions = wanted(now)
        if not self._ready.issuperset(partitions):
            with self._connections.writing() as connection:
                add(connection, partitions)
            self._ready = frozenset(partitions)


def wanted(now: float) -> list[Partition]:
    """Return the partitions to have ready at a time, in epoch seconds."""
    at = datetime.fromtimestamp(now, UTC)
    first = at.year * 12 + at.month - 1
    return [_month(first + ahead) for ahead in range(_AHEAD + 1)]


def _month(number: int) -> Partition:
    """Return the partition of a month counted from year 0."""
    bounds = [datetime(n // 12, n % 12 + 1, 1, tzinfo=UTC) for n in (number, number + 1)]
    return Partition(f"exchanges_{bounds[0]:%Y_%m}", bounds[0].timestamp(), bounds[1].timestamp())


def add(connection: Connection, partitions: Iterable[Partition]) -> None:
    """Create missing partitions; matching rows move there from the default partition."""
    hold(connection, Lock.PARTITIONS)
    for partition in partitions:
        if connection.scalar(select(func.to_regclass(partition.name))) is None:
            connection.execute(text(f"SET LOCAL lock_timeout = {_LOCK_TIMEOUT_MS}"))
            for statement in _adding(partition):
                connection.execute(text(statement))


def _adding(partition: Partition) -> Iterator[str]:
    name, start, end = partition
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
    """Return the beginning of the month of a time, both in epoch seconds."""
    return wanted(at)[0].start


def ended(connection: Connection, before: float) -> list[str]:
    """Return the partitions that end before a time (epoch seconds), oldest first."""
    names = connection.execute(text(_PARTITIONS)).scalars()
    known = (each for name in names if (each := _named(name)) is not None)
    return [each.name for each in sorted(known) if each.end <= before]


_PARTITIONS = """
SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
WHERE inhparent = 'exchanges'::regclass
"""
_NAME = re.compile(r"exchanges_(\d{4})_(\d\d)\Z")


def _named(name: str) -> Partition | None:
    match = _NAME.match(name)
    return _month(int(match[1]) * 12 + int(match[2]) - 1) if match else None


def drop(connection: Connection, name: str, *, most: int) -> bool:
    """Drop a partition; calls in it whose rollouts still exist move to the default one.

    Arguments:
        most: the limit of calls that are moved; with more, nothing is done.

    Returns:
        Whether it was dropped.
    """
    hold(connection, Lock.PARTITIONS)
    known = "WHERE EXISTS (SELECT 1 FROM rollouts WHERE rollouts.id = rollout_id)"
    some = f"SELECT 1 FROM {name} {known} LIMIT {most + 1}"
    if (connection.scalar(text(f"SELECT count(*) FROM ({some}) AS kept")) or 0) > most:
        return False
    connection.execute(text(f"SET LOCAL lock_timeout = {_LOCK_TIMEOUT_MS}"))
    connection.execute(text(f"ALTER TABLE exchanges DETACH PARTITION {name}"))
    month = _named(name)
    if month is not None:  # what is inserted again is counted again
        within = {"start": month.start / 60, "end": month.end / 60}
        minutes = "minute >= :start AND minute < :end"
        connection.execute(text(f"DELETE FROM call_usage WHERE {minutes}"), within)
    connection.execute(text(f"INSERT INTO exchanges SELECT * FROM {name} {known}"))
    connection.execute(text(f"DROP TABLE {name}"))
    return True
