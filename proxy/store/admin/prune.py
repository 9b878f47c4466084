"""Forgets what is old, while services write: rollouts of whole batches with all they left behind.

It never leaves half of a rollout or of a batch, and holds no writer up for long.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    delete,
    exists,
    func,
    or_,
    select,
    tuple_,
)

from proxy.store import partitions
from proxy.store.database import Database
from proxy.store.tables import breakers, events, exchanges, open_calls, rollouts, verdicts

_CHUNK = 500  # rollouts that one transaction forgets
_SLICE = 2000  # calls or events that one transaction deletes, in about 20 ms
_LEAST_PAUSE_S = 0.01
_MOVED = 20_000  # calls of living rollouts that are moved out of a month to drop it, no more


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What was forgotten so far, or would be, and from when on all is kept (epoch seconds).

    ``months`` are the partitions that went with all that was in them.
    """

    before: float
    rollouts: int = 0
    exchanges: int = 0
    events: int = 0
    months: tuple[str, ...] = ()


Tell = Callable[[Pruned], None]
T = TypeVar("T")


def prune(
    database: Database,
    *,
    before: float,
    dry_run: bool = False,
    tell: Tell = lambda _done: None,
    pause: Callable[[float], None] = time.sleep,
) -> Pruned:
    """Forget what ended before a time; on PostgreSQL before the month that it stands in.

    A rollout goes when it was announced, called, reported and judged before then and nothing of
    its batch came later. Interrupted, the rest goes the next time.

    Arguments:
        before: epoch seconds, a day ago at least: for an hour a process takes for granted that
            a rollout it has written is still there.
        tell: told of how far it is, after each transaction.
        pause: gives other writers the time that each transaction took.

    Raises:
        StoreError: the database cannot be read or written.
    """
    work = _Pruning(database, before=before, dry_run=dry_run, tell=tell, pause=pause)
    work.run()
    return work.done


class _Pruning:
    def __init__(
        self,
        database: Database,
        *,
        before: float,
        dry_run: bool,
        tell: Tell,
        pause: Callable[[float], None],
    ) -> None:
        self._database = database
        self._before = before if database.is_sqlite else partitions.begin(before)
        self._dry_run = dry_run
        self._tell = tell
        self._pause = pause
        self.done = Pruned(before=self._before)

    def run(self) -> None:
        """Rollouts first, so that nobody judges one on a part of its calls."""
        kept = self._database.read(_living_batches, self._before)
        for ids in self._due(kept):
            self._count(exchanges=self._database.read(_calls_of, ids), rollouts=len(ids))
            if not self._dry_run:
                self._step(_forget, ids, self._before)
        months_ended = self._database.read(_old_months, self._before)
        if self._dry_run:
            self._count(events=self._database.read(_old_events, self._before))
            self.done = replace(self.done, months=tuple(months_ended))
            return
        for month in months_ended:
            if self._step(_drop, month):
                self.done = replace(self.done, months=(*self.done.months, month))
        self._delete_orphans()
        while gone := self._step(_forget_events, self._before):
            self._count(events=gone)
        self._step(_forget_breakers)

    def _due(self, kept: frozenset[str]) -> Iterator[list[str]]:
        after = (0.0, "")
        while page := self._database.read(_old_rollouts, self._before, after):
            after = page[-1][:2]
            if ids := [name for _, name, batch in page if batch not in kept]:
                yield ids

    def _delete_orphans(self) -> None:
        after: tuple[float, str, str] = (0.0, "", "")
        while page := self._database.read(_old_calls, self._before, after):
            after = page[-1]
            known = self._database.read(_known, {rollout for _, rollout, _ in page})
            if orphans := [call for call in page if call[1] not in known]:
                self._step(_forget_calls, orphans)

    def _step(self, work: Callable[..., T], *args: object) -> T:
        began = time.monotonic()
        done = self._database.change(work, *args)
        self._pause(max(time.monotonic() - began, _LEAST_PAUSE_S))
        return done

    def _count(self, **more: int) -> None:
        grown = {name: getattr(self.done, name) + count for name, count in more.items()}
        self.done = replace(self.done, **grown)
        self._tell(self.done)


# --- what is old -----------------------------------------------------------------------------


def _lives(before: float) -> ColumnElement[bool]:
    """Whether a rollout that was announced earlier has been used since."""
    since = exists().where(
        exchanges.c.rollout_id == rollouts.c.id, exchanges.c.started_at >= before
    )
    in_flight = exists().where(open_calls.c.rollout_id == rollouts.c.id)
    return or_(func.coalesce(rollouts.c.outcome_at, 0) >= before, since, in_flight)


def _living_batches(connection: Connection, before: float) -> frozenset[str]:
    named = rollouts.c.batch.is_not(None)
    young = select(rollouts.c.batch).where(named, rollouts.c.created_at >= before)
    used = select(rollouts.c.batch).where(named, rollouts.c.created_at < before, _lives(before))
    return frozenset(connection.execute(young.union(used)).scalars())


def _old_rollouts(
    connection: Connection, before: float, after: tuple[float, str]
) -> Sequence[tuple[float, str, str | None]]:
    place = (rollouts.c.created_at, rollouts.c.id)
    query = (
        select(*place, rollouts.c.batch)
        .where(rollouts.c.created_at < before, tuple_(*place) > after, ~_lives(before))
        .order_by(*place)
        .limit(_CHUNK)
    )
    return [(row[0], row[1], row[2]) for row in connection.execute(query)]


def _calls_of(connection: Connection, ids: Sequence[str]) -> int:
    query = select(func.count()).where(exchanges.c.rollout_id.in_(ids))
    return connection.scalar(query) or 0


def _old_events(connection: Connection, before: float) -> int:
    return connection.scalar(select(func.count()).where(events.c.at < before)) or 0


def _old_calls(
    connection: Connection, before: float, after: tuple[float, str, str]
) -> Sequence[tuple[float, str, str]]:
    place = (exchanges.c.started_at, exchanges.c.rollout_id, exchanges.c.id)
    query = (
        select(*place)
        .where(exchanges.c.started_at < before, tuple_(*place) > after)
        .order_by(*place)
        .limit(_SLICE)
    )
    return [(row[0], row[1], row[2]) for row in connection.execute(query)]


def _known(connection: Connection, ids: Iterable[str]) -> frozenset[str]:
    found = select(rollouts.c.id).where(rollouts.c.id.in_(list(ids)))
    return frozenset(connection.execute(found).scalars())


def _old_months(connection: Connection, before: float) -> list[str]:
    if connection.dialect.name == "sqlite":
        return []
    return partitions.ended(connection, before)


# --- how it goes -----------------------------------------------------------------------------


def _forget(connection: Connection, ids: Sequence[str], before: float) -> None:
    still = select(rollouts.c.id).where(rollouts.c.id.in_(ids), ~_lives(before))
    gone = list(connection.execute(still.with_for_update()).scalars())
    connection.execute(delete(verdicts).where(verdicts.c.rollout_id.in_(gone)))
    connection.execute(delete(rollouts).where(rollouts.c.id.in_(gone)))


def _drop(connection: Connection, month: str) -> bool:
    return partitions.drop(connection, month, most=_MOVED)


def _forget_calls(connection: Connection, calls: Sequence[tuple[float, str, str]]) -> None:
    key = tuple_(exchanges.c.rollout_id, exchanges.c.id)
    connection.execute(delete(exchanges).where(key.in_([call[1:] for call in calls])))


def _forget_events(connection: Connection, before: float) -> int:
    old = select(events.c.id).where(events.c.at < before).order_by(events.c.id).limit(_SLICE)
    return connection.execute(delete(events).where(events.c.id.in_(old))).rowcount


def _forget_breakers(connection: Connection) -> None:
    named = exists().where(rollouts.c.batch == breakers.c.batch)
    connection.execute(delete(breakers).where(~named))
