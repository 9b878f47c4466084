"""Delete batches with no activity since a given time, whole and while services write."""

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

from proxy.feature import modules
from proxy.store import partitions
from proxy.store.batch_versions import lock, note_changed
from proxy.store.database import Database
from proxy.store.lane_minutes import delete_before
from proxy.store.references import delete_series
from proxy.store.tables import (
    batch_runs,
    call_usage,
    events,
    exchanges,
    open_calls,
    rollouts,
    verdicts,
)

_CHUNK = 500  # rollouts that one transaction deletes
_SLICE = 2000  # calls or events that one transaction deletes, in about 20 ms
_LEAST_PAUSE_S = 0.01
_MOVED = 20_000  # the limit of calls of kept rollouts moved out of a partition to drop it


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """The numbers of rows that were deleted so far, or would be.

    Everything since ``before`` (epoch seconds) is kept. ``partitions`` were dropped whole.
    """

    before: float
    rollouts: int = 0
    exchanges: int = 0
    events: int = 0
    partitions: tuple[str, ...] = ()


Progress = Callable[[Pruned], None]
T = TypeVar("T")


def prune(
    database: Database,
    *,
    before: float,
    dry_run: bool = False,
    progress: Progress = lambda _done: None,
    pause: Callable[[float], None] = time.sleep,
) -> Pruned:
    """Delete what ended before a time; on PostgreSQL, before the month of that time.

    A rollout is deleted when it was registered, called and reported before then and nothing of
    its batch came later. After an interruption, the next run deletes the rest.

    Arguments:
        before: epoch seconds, at least a day ago: for an hour, processes assume that a rollout
            they have written still exists.
        progress: called after each transaction.
        pause: called with the seconds that a transaction took, to let other writers in.

    Raises:
        StoreError: the database cannot be read or written.
    """
    work = _Pruning(database, before=before, dry_run=dry_run, progress=progress, pause=pause)
    work.run()
    return work.done


class _Pruning:
    def __init__(
        self,
        database: Database,
        *,
        before: float,
        dry_run: bool,
        progress: Progress,
        pause: Callable[[float], None],
    ) -> None:
        self._database = database
        self._before = before if database.is_sqlite else partitions.begin(before)
        self._dry_run = dry_run
        self._progress = progress
        self._pause = pause
        self.done = Pruned(before=self._before)

    def run(self) -> None:
        """Delete rollouts first, so that none is judged on a part of its calls."""
        active_batches = self._database.read(_active_batches, self._before)
        for ids in self._due(active_batches):
            self._count(exchanges=self._database.read(_calls_of, ids), rollouts=len(ids))
            if not self._dry_run:
                self._step(_delete_rollouts, ids, self._before)
        old_partitions = self._database.read(_old_partitions, self._before)
        if self._dry_run:
            self._count(events=self._database.read(_old_events, self._before))
            self.done = replace(self.done, partitions=tuple(old_partitions))
            return
        for name in old_partitions:
            if self._step(_drop, name):
                self.done = replace(self.done, partitions=(*self.done.partitions, name))
        self._delete_orphans()
        while deleted := self._step(_delete_events, self._before):
            self._count(events=deleted)
        self._step(_delete_runs, self._before)
        self._step(delete_series, self._before)
        self._step(delete_before, self._before)
        self._step(_delete_nothings)

    def _due(self, active_batches: frozenset[str]) -> Iterator[list[str]]:
        after = (0.0, "")
        while page := self._database.read(_old_rollouts, self._before, after):
            after = page[-1][:2]
            if ids := [name for _, name, batch in page if batch not in active_batches]:
                yield ids

    def _delete_orphans(self) -> None:
        after: tuple[float, str, str] = (0.0, "", "")
        while page := self._database.read(_old_calls, self._before, after):
            after = page[-1]
            known = self._database.read(_known, {rollout for _, rollout, _ in page})
            if orphans := [call for call in page if call[1] not in known]:
                self._step(_delete_calls, orphans)

    def _step(self, work: Callable[..., T], *args: object) -> T:
        began = time.monotonic()
        done = self._database.change(work, *args)
        self._pause(max(time.monotonic() - began, _LEAST_PAUSE_S))
        return done

    def _count(self, **more: int) -> None:
        grown = {name: getattr(self.done, name) + count for name, count in more.items()}
        self.done = replace(self.done, **grown)
        self._progress(self.done)


# --- selection -------------------------------------------------------------------------------


def _active(before: float) -> ColumnElement[bool]:
    """Build the condition that a rollout registered before a time has been used since."""
    since = exists().where(
        exchanges.c.rollout_id == rollouts.c.id, exchanges.c.started_at >= before
    )
    in_flight = exists().where(open_calls.c.rollout_id == rollouts.c.id)
    return or_(func.coalesce(rollouts.c.outcome_at, 0) >= before, since, in_flight)


def _active_batches(connection: Connection, before: float) -> frozenset[str]:
    named = rollouts.c.batch.is_not(None)
    young = select(rollouts.c.batch).where(named, rollouts.c.created_at >= before)
    used = select(rollouts.c.batch).where(named, rollouts.c.created_at < before, _active(before))
    return frozenset(connection.execute(young.union(used)).scalars())


def _old_rollouts(
    connection: Connection, before: float, after: tuple[float, str]
) -> Sequence[tuple[float, str, str | None]]:
    place = (rollouts.c.created_at, rollouts.c.id)
    query = (
        select(*place, rollouts.c.batch)
        .where(rollouts.c.created_at < before, tuple_(*place) > after, ~_active(before))
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
    query = select(rollouts.c.id).where(rollouts.c.id.in_(list(ids)))
    return frozenset(connection.execute(query).scalars())


def _old_partitions(connection: Connection, before: float) -> list[str]:
    if connection.dialect.name == "sqlite":
        return []
    return partitions.ended(connection, before)


# --- deletion --------------------------------------------------------------------------------


def _delete_rollouts(connection: Connection, ids: Sequence[str], before: float) -> None:
    named = select(rollouts.c.batch).distinct().where(rollouts.c.id.in_(ids))
    batches = list(connection.execute(named.where(rollouts.c.batch.is_not(None))).scalars())
    lock(connection, batches)
    still = select(rollouts.c.id).where(rollouts.c.id.in_(ids), ~_active(before))
    gone = list(connection.execute(still.with_for_update()).scalars())
    connection.execute(delete(verdicts).where(verdicts.c.rollout_id.in_(gone)))
    connection.execute(delete(rollouts).where(rollouts.c.id.in_(gone)))
    for _, module in modules("upkeep"):
        module.on_deleted_rollouts(connection, gone, batches)
    note_changed(connection, batches)


def _drop(connection: Connection, name: str) -> bool:
    return partitions.drop(connection, name, most=_MOVED)


def _delete_calls(connection: Connection, calls: Sequence[tuple[float, str, str]]) -> None:
    key = tuple_(exchanges.c.rollout_id, exchanges.c.id)
    connection.execute(delete(exchanges).where(key.in_([call[1:] for call in calls])))


def _delete_events(connection: Connection, before: float) -> int:
    old = select(events.c.id).where(events.c.at < before).order_by(events.c.id).limit(_SLICE)
    return connection.execute(delete(events).where(events.c.id.in_(old))).rowcount


def _delete_nothings(connection: Connection) -> None:
    """Delete sums of calls that are gone."""
    connection.execute(delete(call_usage).where(call_usage.c.calls == 0))


def _delete_runs(connection: Connection, before: float) -> None:
    """Delete runs of batches that are gone; one that was begun since may start its first."""
    named = exists().where(rollouts.c.batch == batch_runs.c.batch)
    old = delete(batch_runs).where(batch_runs.c.begun_at < before)
    connection.execute(old.where(~named))
