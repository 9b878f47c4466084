"""Events of batches, written with commits and verdicts and read by streams; circuit breakers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, insert, select

from classifier.breakers import BreakerState, Phase
from classifier.breakers import at as breaker_at
from classifier.records import Exchange
from proxy.store.connections import EVENTS_CHANNEL, Connections, Lock, NotificationSource, hold
from proxy.store.tables import Row, as_json, breakers, events, rollouts, verdicts


class EventLog:
    """Reads events by batch and subscribes to new ones."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def subscribe(self, listener: Callable[[], object]) -> AbstractContextManager[bool]:
        """Have ``listener`` called, in another thread, when there may be new events.

        Returns:
            A context, whose value is False if the database sends no notifications: poll.
        """
        source = self._connections.notifications
        return contextlib.nullcontext(False) if source is None else _subscribed(source, listener)

    def last_id(self) -> int:
        """Return the newest event's number; 0 where there is none."""
        with self._connections.reading() as connection:
            return connection.scalar(select(func.max(events.c.id))) or 0

    def of_batch(self, batch: str, *, after: int, limit: int = 500) -> tuple[list[Row], int]:
        """Return a batch's events after a number, and the number of the last event examined."""
        owner = func.coalesce(events.c.batch, rollouts.c.batch)
        query = (
            select(events, owner.label("owner"))
            .select_from(events.outerjoin(rollouts, rollouts.c.id == events.c.rollout_id))
            .where(events.c.id > after)
            .order_by(events.c.id)
            .limit(limit)
        )
        with self._connections.reading() as connection:
            rows = connection.execute(query).mappings().all()
        newest = rows[-1]["id"] if rows else after
        return [row for row in rows if row["owner"] == batch], newest


@contextlib.contextmanager
def _subscribed(source: NotificationSource, listener: Callable[[], object]) -> Iterator[bool]:
    with source.subscribe(listener):
        yield True


class NewEvent(NamedTuple):
    """An event of a batch: its kind, and its data as JSON has it."""

    kind: str
    data: Mapping[str, Any]


def verdict_given(row: Mapping[str, Any]) -> NewEvent:
    """Return the event of a final verdict, given as columns of `verdicts`."""
    level, *checks = (row.get("validity") or "").split() or [None]
    data = {
        **{name: row[name] for name in ("health", "subcategory", "fingerprint", "scoreable")},
        "validity": level,
        "validity_checks": checks,
    }
    return NewEvent("verdict_given", data)


def breaker_opened(state: BreakerState) -> NewEvent:
    """Return the event of a breaker that opened on a verdict."""
    data = {
        "lane": state.lane,
        "fingerprint": state.fingerprint,
        "streak": state.streak,
        "tripped_by": list(state.tripped_by),
    }
    return NewEvent("breaker_opened", data)


def batch_ended(connection: Connection, batch: str, at: float) -> None:
    """Write the event of a batch that has ended."""
    of = {"rollout_id": None, "batch": batch, "given_at": at}
    write_event(connection, NewEvent("batch_ended", {}), of)


def write_event(connection: Connection, event: NewEvent, verdict: Mapping[str, Any]) -> None:
    """Write an event.

    Arguments:
        verdict: the columns of the verdict that it comes of: its rollout, batch and time.
    """
    hold(connection, Lock.EVENTS)
    row = {
        "kind": event.kind,
        "rollout_id": verdict["rollout_id"],
        "batch": verdict["batch"],
        "at": verdict["given_at"],
        "data": as_json(event.data),
    }
    connection.execute(_INSERT, row)
    if connection.dialect.name != "sqlite":
        connection.execute(select(func.pg_notify(EVENTS_CHANNEL, "")))


_INSERT = insert(events)  # made once: to make it takes longer than to run it


def exchange_failed(exchange: Exchange) -> tuple[Any, ...]:
    """Return a failed call's event as values of EVENT_COLUMNS: ids and counts, no provider text."""
    cause, duration_s = exchange.cause, exchange.timing.duration_s or 0.0
    assert cause is not None
    data = {
        "exchange": exchange.id,
        "status": exchange.status,
        "subcategory": cause.subcategory.value,
        "transient": cause.transient,
    }
    at = exchange.timing.started_at + duration_s
    return ("exchange_failed", exchange.rollout_id, at, as_json(data))


# --- circuit breakers, one row for each lane of a batch ----------------------------------------


class Breakers:
    """Reads and resets the breakers of a batch, and reads whom they stopped."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def of_batch(self, batch: str) -> list[BreakerState]:
        """Return the breakers of a batch, by lane."""
        with self._connections.reading() as connection:
            return states_of(connection, batch)

    def opened(self, *, since: float, now: float) -> list[BreakerState]:
        """Return the breakers that opened after ``since`` and let no rollout in, or one."""
        query = select(breakers.c.state).where(breakers.c.state.like('%"phase":"%open"%'))
        with self._connections.reading() as connection:
            states = [decode_state(text) for text in connection.execute(query).scalars()]
        return [
            state
            for state in states
            if (state.opened_at or 0.0) >= since and breaker_at(state, now).phase != Phase.CLOSED
        ]

    def failed_alike(self, state: BreakerState, *, limit: int) -> list[str]:
        """Return the rollouts that failed as a breaker's streak did, the oldest first."""
        query = (
            select(verdicts.c.rollout_id)
            .where(
                verdicts.c.batch == state.batch,
                verdicts.c.fingerprint == state.fingerprint,
                verdicts.c.lane == state.lane,
            )
            .order_by(verdicts.c.began_at, verdicts.c.rollout_id)
            .limit(limit)
        )
        with self._connections.reading() as connection:
            return list(connection.execute(query).scalars())

    def not_admitted(self, batch: str, *, limit: int) -> list[tuple[str, str]]:
        """Return the rollouts of a batch that its breakers skipped, and why, the oldest first."""
        query = (
            select(rollouts.c.id, rollouts.c.skipped)
            .where(rollouts.c.batch == batch, rollouts.c.skipped.is_not(None))
            .order_by(rollouts.c.created_at, rollouts.c.id)
            .limit(limit)
        )
        with self._connections.reading() as connection:
            return [(row.id, row.skipped) for row in connection.execute(query)]

    def reset(
        self, batch: str, reset: Callable[[BreakerState], BreakerState], *, lane: str | None
    ) -> list[BreakerState]:
        """Reset one lane's breaker or all of a batch; returns them as they are now."""
        with self._connections.writing() as connection:
            hold(connection, Lock.BREAKERS, batch)
            states = states_of(connection, batch)
            changed = [reset(state) for state in states if lane in (None, state.lane)]
            store_states(connection, changed)
        return self.of_batch(batch)


def states_of(connection: Connection, batch: str) -> list[BreakerState]:
    """Return the breakers of a batch, by lane, inside a transaction."""
    return [decode_state(row[0]) for row in connection.execute(_STATES, {"of": batch})]


_STATES = (
    select(breakers.c.state).where(breakers.c.batch == bindparam("of")).order_by(breakers.c.lane)
)


def store_states(connection: Connection, states: Iterable[BreakerState]) -> None:
    """Replace breakers by batch and lane."""
    for state in states:
        key = (breakers.c.batch == state.batch) & (breakers.c.lane == state.lane)
        connection.execute(delete(breakers).where(key))
        connection.execute(
            insert(breakers).values(
                batch=state.batch, lane=state.lane, state=as_json(asdict(state))
            )
        )


def decode_state(stored: str) -> BreakerState:
    """Decode the column ``state``."""
    fields: dict[str, Any] = json.loads(stored)
    tripped_by = tuple(fields.pop("tripped_by"))
    return BreakerState(phase=Phase(fields.pop("phase")), tripped_by=tripped_by, **fields)
