"""The rollouts that have ended, in the order in which every process ends their calls.

Each end takes the next number. A worker's row says up to which number it has ended calls, and
of which rollouts it is still ending them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    Connection,
    Integer,
    String,
    cast,
    delete,
    func,
    select,
    update,
)

from classifier.logical_calls import ended_at
from classifier.records import Exchange
from proxy.store.batch_versions import changing
from proxy.store.connections import Connections, Lock, hold
from proxy.store.deployment import is_dead
from proxy.store.tables import (
    IDS,
    closings,
    insert_into,
    rollouts,
    server,
    verdicts,
    workers,
)
from proxy.store.verdicts import EndOfCalls, end_calls, queue_for_judging

_COUNTER = "closing"  # its row in the table `server`
_KEPT_S = 3600.0  # far longer than any living worker takes to read one
_SWEPT = 256  # numbers from one deletion of old ones to the next
_LIVING_S = 15.0  # three heartbeats: a worker that is silent for longer is not waited for


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingState:
    """The newest number, 0 before the first, and how many workers there are."""

    newest: int
    workers: int


class Closings:
    """Reads and writes the table `closings`, and what workers say of it."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def state(self) -> ClosingState:
        """Read how far closings have come; asked several times a second: one small query."""
        newest = select(server.c.value).where(server.c.name == _COUNTER).scalar_subquery()
        known = select(func.count()).select_from(workers).scalar_subquery()
        with self._connections.reading() as connection:
            value, count = connection.execute(select(newest, known)).one()
        return ClosingState(newest=int(value or 0), workers=count)

    def between(self, after: int, up_to: int) -> list[tuple[int, str]]:
        """List numbers and their rollouts in order, ``after`` not among them."""
        query = (
            select(closings.c.number, closings.c.rollout_id)
            .where(closings.c.number > after, closings.c.number <= up_to)
            .order_by(closings.c.number)
        )
        with self._connections.reading() as connection:
            return [(number, rollout_id) for number, rollout_id in connection.execute(query)]

    def confirm(self, worker: str, *, up_to: int, but: Iterable[str]) -> bool:
        """State that a worker has ended all calls up to a number, but those of some rollouts.

        Returns:
            Whether the worker has a row to say so in.
        """
        values = {"closed_up_to": up_to, "still_closing": json.dumps(sorted(but))}
        with self._connections.writing() as connection:
            statement = update(workers).where(workers.c.id == worker).values(**values)
            return connection.execute(statement).rowcount == 1

    def unconfirmed(
        self, rollout_id: str, number: int, *, worker: str, host: str, now: float
    ) -> list[str]:
        """List the living workers, but for this one, that have not ended a rollout's calls."""
        with self._connections.reading() as connection:
            rows = connection.execute(_WORKERS).mappings().all()
        return [
            row["id"]
            for row in rows
            if row["id"] != worker
            and not is_dead(row, host, now - _LIVING_S)
            and (
                (row["closed_up_to"] or 0) < number
                or rollout_id in json.loads(row["still_closing"] or "[]")
            )
        ]

    def closed(self, rollout_id: str, *, now: float, gaps: int) -> None:
        """Store that a rollout's calls have ended, once.

        Where it was judged without that, as nobody said so in time, its verdict stands: they had
        ended then. Its batch counts nothing of this until the rollout is judged, which it is
        queued for.

        Arguments:
            gaps: how many workers did not say so; what they saw may be missing.
        """
        with self._connections.writing() as connection:
            hold(connection, Lock.VERDICT, rollout_id)
            end_calls(connection, rollout_id, EndOfCalls(now, gaps))


_WORKERS = select(workers).order_by(workers.c.id)


def add_closing(connection: Connection, rollout_id: str, *, now: float) -> int:
    """Give a rollout that ends the next number, in the transaction that ends it.

    Who takes a number makes the next one wait until its transaction ends: numbers become
    visible in their order.
    """
    next_number, ended = _taking(connection.dialect.name)
    number = int(connection.execute(next_number).scalar_one())
    connection.execute(ended, {"rollout_id": rollout_id, "number": number, "at": now})
    if number % _SWEPT == 0:
        connection.execute(delete(closings).where(closings.c.at < now - _KEPT_S))
    return number


@cache
def _taking(dialect: str) -> tuple[Any, Any]:
    """Return the statements that take the next number, and that give it to a rollout."""
    counted = insert_into(dialect, server).values(name=_COUNTER, value="1")
    more = cast(cast(server.c.value, Integer) + 1, String)
    counted = counted.on_conflict_do_update(index_elements=["name"], set_={"value": more})
    ended = insert_into(dialect, closings)
    again = {"number": ended.excluded.number, "at": ended.excluded.at}
    return (
        counted.returning(server.c.value),
        ended.on_conflict_do_update(index_elements=["rollout_id"], set_=again),
    )


def closing_of(connection: Connection, rollout_id: str) -> int | None:
    """Return the number that a rollout's end has, None if it is forgotten."""
    query = select(closings.c.number).where(closings.c.rollout_id == rollout_id)
    number: int | None = connection.scalar(query)
    return number


def reopen(connection: Connection, missed: Iterable[Exchange]) -> None:
    """Have final verdicts judged anew that calls are missing from, once: the calls are a gap.

    Arguments:
        missed: calls that were not on record when they ended.
    """
    ended: dict[str, float] = {}
    for call in missed:
        at = ended_at(call)
        ended[call.rollout_id] = min(at, ended.get(call.rollout_id, at))
    final = (
        select(rollouts.c.id, func.coalesce(rollouts.c.closed_at, rollouts.c.outcome_at))
        .join(verdicts, verdicts.c.rollout_id == rollouts.c.id)
        .where(rollouts.c.id.in_(ended), rollouts.c.outcome_at.is_not(None))
        .where(rollouts.c.gaps == 0, verdicts.c.provisional.is_(False))
    )
    rows = connection.execute(final).all()
    wrong = [rollout_id for rollout_id, closed_at in rows if ended[rollout_id] <= closed_at]
    if wrong:
        with changing(connection, wrong):
            connection.execute(update(rollouts).where(rollouts.c.id.in_(wrong)).values(gaps=1))
            have_judged_anew(connection, wrong)


def have_judged_anew(connection: Connection, rollout_ids: Sequence[str]) -> None:
    """Have rollouts judged anew whose final verdicts no longer hold."""
    outdated = {"provisional": True, "calls": -1, "counted": None}
    connection.execute(_OUTDATED, {"ids": list(rollout_ids), **outdated})
    queue_for_judging(connection, rollout_ids)


_OUTDATED = update(verdicts).where(verdicts.c.rollout_id.in_(IDS))
