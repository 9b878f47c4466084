"""What all processes of a deployment share: secrets, ended sessions and used sign-in links."""

from __future__ import annotations

import secrets

from sqlalchemy import Connection, delete, select

from proxy.store.connections import Connections
from proxy.store.statements import add
from proxy.store.tables import server

_CREATED = "created"
_OUTAGE = "outage"  # until when the last one lasted
_ENDED = "ended."  # before the name of a session, in the table `server`
_USED = "link."  # before the name of a sign-in link


class Deployment:
    """Reads and writes the table `server`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._secrets: dict[str, str] = {}  # as handed out, for a file that takes this one's place

    def secret(self, name: str) -> bytes:
        """Return a random value of this deployment, made once: the same in every process."""
        with self._connections.writing() as connection:
            value = _value(connection, name)
            if value is None:
                fresh = self._secrets.get(name) or secrets.token_hex(32)
                add(connection, server, {"name": name, "value": fresh})
                value = _value(connection, name)
        self._secrets[name] = value or ""
        return bytes.fromhex(value or "")

    def restore_secrets(self) -> None:
        """Write the secrets that were handed out into a database that replaced this one."""
        for name in tuple(self._secrets):
            self.secret(name)

    def note_created(self, now: float) -> None:
        """Store when the database was made, in epoch seconds."""
        with self._connections.writing() as connection:
            add(connection, server, {"name": _CREATED, "value": repr(now)})

    def created_at(self) -> float | None:
        """Return when the database was made; None for one of a version that did not note it."""
        with self._connections.reading() as connection:
            value = _value(connection, _CREATED)
        return None if value is None else float(value)

    def end_session(self, name: str, *, ends: int, now: float) -> None:
        """Store a session that was signed out before it expires; delete expired ones.

        Arguments:
            ends: when it would have expired, in epoch seconds.
        """
        with self._connections.writing() as connection:
            _delete_expired(connection, _ENDED, now)
            add(connection, server, {"name": _ENDED + name, "value": str(ends)})

    def ended_sessions(self) -> set[str]:
        """Return the names of sessions that were signed out before they expired."""
        with self._connections.reading() as connection:
            return set(_named(connection, _ENDED))

    def use_link(self, name: str, *, ends: int, now: float) -> bool:
        """Store that a sign-in link was used; return whether this was the first time.

        Arguments:
            ends: when it expires, in epoch seconds; afterwards it need not be known.
        """
        with self._connections.writing() as connection:
            _delete_expired(connection, _USED, now)
            return add(connection, server, {"name": _USED + name, "value": str(ends)})


def note_outage(connection: Connection, *, until: float) -> None:
    """Store that all processes had died before one started at ``until`` (epoch seconds)."""
    connection.execute(delete(server).where(server.c.name == _OUTAGE))
    add(connection, server, {"name": _OUTAGE, "value": repr(until)})


def outage_until(connection: Connection) -> float:
    """Return when the last outage was over, in epoch seconds; 0 if none is known."""
    return float(_value(connection, _OUTAGE) or 0)


def _named(connection: Connection, prefix: str) -> dict[str, int]:
    """Return the rows of a kind: when each expires, by its name."""
    query = select(server).where(server.c.name.startswith(prefix))
    return {row.name.removeprefix(prefix): int(row.value) for row in connection.execute(query)}


def _delete_expired(connection: Connection, prefix: str, now: float) -> None:
    expired = [prefix + one for one, end in _named(connection, prefix).items() if end <= now]
    connection.execute(delete(server).where(server.c.name.in_(expired)))


def _value(connection: Connection, name: str) -> str | None:
    value: str | None = connection.scalar(select(server.c.value).where(server.c.name == name))
    return value
