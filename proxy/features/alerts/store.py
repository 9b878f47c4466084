"""Active alerts and their undelivered messages.

Rows of the table `server`, one for each subject. All processes read and write them; each message is
handed to one process at a time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Connection, delete, select

from proxy.control.look import Condition
from proxy.store.connections import Connections, Lock, hold
from proxy.store.deployment import write_value
from proxy.store.tables import as_json, server

QUIET_S = 600.0  # what comes back so soon is the same alert
KEPT_S = 30 * 24 * 3600.0  # of an alert whose end nobody saw

_NAMED = "alert."  # before the digest of a subject, in the table `server`


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A condition that was seen, and the delivery of its message.

    ``id`` is the same at each attempt. ``due_at`` is when the next attempt is, in epoch seconds;
    None once it was delivered, or given up. ``over_at`` is when the condition was seen to be over.
    """

    id: str
    kind: str
    subject: str
    at: float
    data: Mapping[str, Any]
    due_at: float | None
    attempts: int = 0
    over_at: float | None = None


class Alerts:
    """Reads and writes alerts."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def note(
        self, conditions: Iterable[Condition], *, watched: Collection[str], now: float
    ) -> None:
        """Add an alert for each new condition, and note which are over.

        Arguments:
            watched: subjects, as ``kind`` or ``kind:subject``, that were looked at: what is of
                them and not among the conditions is over.
        """
        true = {_name(each.kind, each.subject): each for each in conditions}
        with self._connections.writing() as connection:
            hold(connection, Lock.ALERTS)
            known = _all(connection)
            for name, condition in true.items():
                alert = _seen(known.get(name), condition, now)
                if alert != known.get(name):
                    _store(connection, name, alert)
            for name, alert in known.items():
                if alert.at < now - KEPT_S and name not in true:
                    connection.execute(delete(server).where(server.c.name == name))
                elif name not in true and alert.over_at is None and _among(alert, watched):
                    _store(connection, name, replace(alert, over_at=now))

    def claim(self, now: float, *, for_s: float) -> list[Alert]:
        """Return alerts whose message is due; no process gets them for ``for_s`` from now."""
        with self._connections.writing() as connection:
            hold(connection, Lock.ALERTS)
            due = [
                (name, replace(alert, due_at=now + for_s, attempts=alert.attempts + 1))
                for name, alert in _all(connection).items()
                if alert.due_at is not None and alert.due_at <= now
            ]
            for name, alert in due:
                _store(connection, name, alert)
        return [alert for _, alert in due]

    def settle(self, alert: Alert, *, due_at: float | None) -> None:
        """Note what came of an attempt: when the next one is, None if none is needed."""
        name = _name(alert.kind, alert.subject)
        with self._connections.writing() as connection:
            hold(connection, Lock.ALERTS)
            now = _all(connection).get(name)
            if now is not None and (now.id, now.attempts) == (alert.id, alert.attempts):
                _store(connection, name, replace(now, due_at=due_at))

    def known(self) -> list[Alert]:
        """Return every alert that is kept."""
        with self._connections.reading() as connection:
            return list(_all(connection).values())


def _seen(known: Alert | None, condition: Condition, now: float) -> Alert:
    """Return the alert of a condition: the known one where it goes on or comes back soon."""
    if known is not None and (known.over_at is None or now - known.over_at < QUIET_S):
        return replace(known, over_at=None)
    of = f"{condition.kind}/{condition.subject}/{now!r}"
    return Alert(
        id="msg_" + hashlib.blake2b(of.encode(), digest_size=12).hexdigest(),
        kind=condition.kind,
        subject=condition.subject,
        at=condition.at,
        data=condition.data,
        due_at=now,
    )


def _among(alert: Alert, watched: Collection[str]) -> bool:
    return alert.kind in watched or f"{alert.kind}:{alert.subject}" in watched


def _name(kind: str, subject: str) -> str:
    digest = hashlib.blake2b(f"{kind}:{subject}".encode(), digest_size=12)
    return _NAMED + digest.hexdigest()


def _all(connection: Connection) -> dict[str, Alert]:
    query = select(server).where(server.c.name.startswith(_NAMED))
    return {row.name: Alert(**json.loads(row.value)) for row in connection.execute(query)}


def _store(connection: Connection, name: str, alert: Alert) -> None:
    write_value(connection, name, as_json(asdict(alert)))
