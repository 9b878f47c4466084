"""Events of batches, written with commits and verdicts and read by streams."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, func, insert, select

from classifier.records import Exchange
from proxy.store.connections import EVENTS_CHANNEL, Connections, Lock, NotificationSource
from proxy.store.tables import Row, as_json, events, rollouts


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


def batch_ended(connection: Connection, batch: str, at: float) -> None:
    """Write the event of a batch that has ended."""
    of = {"rollout_id": None, "batch": batch, "given_at": at}
    write_event(connection, NewEvent("batch_ended", {}), of)


def write_event(connection: Connection, event: NewEvent, verdict: Mapping[str, Any]) -> None:
    """Write an event.

    Arguments:
        verdict: the columns of the verdict that it comes of: its rollout, batch and time.
    """
    row = {
        "kind": event.kind,
        "rollout_id": verdict["rollout_id"],
        "batch": verdict["batch"],
        "at": verdict["given_at"],
        "data": as_json(event.data),
    }
    connection.execute(_writing(connection.dialect.name), row)


@cache  # made once: to make it takes longer than to run it
def _writing(dialect: str) -> Any:
    """Return the statement that writes an event; on PostgreSQL it also notifies listeners."""
    if dialect == "sqlite":
        return insert(events)
    names = ("kind", "rollout_id", "batch", "at", "data")
    values = select(*(bindparam(name, type_=events.c[name].type) for name in names))
    # Joined to the lock, so that no event is numbered before the lock is held.
    held = select(func.pg_advisory_xact_lock(Lock.EVENTS.key())).offset(0).subquery("held")
    written = insert(events).from_select(names, values.select_from(held)).cte("written")
    return select(func.pg_notify(EVENTS_CHANNEL, "")).add_cte(written)


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
