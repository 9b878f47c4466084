"""State that all processes of a deployment share: secrets, sign-ins, workers, alerts."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Sequence

from sqlalchemy import Connection, Float, bindparam, cast, delete, select, update

from proxy.feature import modules
from proxy.store.connections import Connections, Lock, hold
from proxy.store.lane_minutes import add_ended
from proxy.store.rows import lost_row
from proxy.store.tables import (
    EXCHANGE_COLUMNS,
    Row,
    add,
    exchanges,
    open_calls,
    reference_series,
    server,
    workers,
)

_CREATED = "created"
_OUTAGE = "outage"  # until when the last one lasted
_ENDED = "ended."  # before the name of a session, in the table `server`
_USED = "link."  # before the name of a sign-in link
_TURN = "-turn"  # after the name of some work


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

    def take_turn(self, work: str, now: float, *, for_s: float) -> bool:
        """Take the turn at some work until ``for_s`` from now; False: another process has it."""
        name = work + _TURN
        with self._connections.writing() as connection:
            hold(connection, Lock.ALERTS)
            value = _value(connection, name)
            if value is not None and now < float(value) <= now + for_s:  # or a clock was set back
                return False
            write_value(connection, name, repr(now + for_s))
            return True


def note_outage(connection: Connection, *, until: float) -> None:
    """Store that all processes had died before one started at ``until`` (epoch seconds)."""
    connection.execute(delete(server).where(server.c.name == _OUTAGE))
    add(connection, server, {"name": _OUTAGE, "value": repr(until)})


OUTAGE_UNTIL = select(cast(server.c.value, Float)).where(server.c.name == _OUTAGE).scalar_subquery()
"""When the last outage was over, in epoch seconds; null if none is known."""


def _named(connection: Connection, prefix: str) -> dict[str, int]:
    """Return the rows of a kind: when each expires, by its name."""
    query = select(server).where(server.c.name.startswith(prefix))
    return {row.name.removeprefix(prefix): int(row.value) for row in connection.execute(query)}


def _delete_expired(connection: Connection, prefix: str, now: float) -> None:
    expired = [prefix + one for one, end in _named(connection, prefix).items() if end <= now]
    connection.execute(delete(server).where(server.c.name.in_(expired)))


def _value(connection: Connection, name: str) -> str | None:
    value: str | None = connection.scalar(_VALUE, {"of": name})
    return value


def write_value(connection: Connection, name: str, value: str) -> None:
    """Write a row of the table `server`."""
    if not add(connection, server, {"name": name, "value": value}):
        connection.execute(update(server).where(server.c.name == name).values(value=value))


_VALUE = select(server.c.value).where(server.c.name == bindparam("of"))


# --- workers, and what dead ones leave behind --------------------------------------------------


_STALE_S = 30.0  # a worker without a heartbeat for so long is dead
STOPPED = "stopped"
"""Why a series of reference calls counts for nothing that its process did not bring to its end."""

_AWAKE_S = 15.0  # a worker whose own heartbeat is older knows nothing of others


class Workers:
    """Registers workers and turns the open calls of dead ones into lost exchanges."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._began_at: dict[str, float] = {}  # of the workers of this process
        self._rowless: dict[str, float] = {}  # workers with calls but no row, and since when

    def heartbeat(self, worker: str, *, host: str, now: float) -> None:
        """Record that a worker lives; calls left open by dead ones become `lost`.

        A worker whose own heartbeat is late takes no other's silence for death yet: the database
        may have been away. One without a row was buried alive, or could not write one: a heartbeat
        would make one.
        """
        row = {"id": worker, "host": host, "pid": os.getpid(), "seen_at": now}
        with self._connections.writing() as connection:
            known = {each["id"]: each for each in connection.execute(select(workers)).mappings()}
            own = known.pop(worker, None)
            if own is None:
                add(connection, workers, row)
                self._began_at[worker] = now
            else:
                same = workers.c.id == worker
                connection.execute(update(workers).where(same).values(seen_at=now))
            awake = own is not None and now - own["seen_at"] < _AWAKE_S
            silent_at = now - _STALE_S if awake else -math.inf
            dead = [name for name, each in known.items() if is_dead(each, host, silent_at)]
            if dead:
                _bury(connection, _claimed(connection, dead))
                last_seen_at = max(each["seen_at"] for each in known.values())
                began_at = self._began_at.get(worker, -math.inf)
                if len(dead) == len(known) and last_seen_at < began_at:
                    note_outage(connection, until=began_at)
            rowless = set(connection.execute(_CALLING).scalars()) - known.keys() - {worker}
            since = self._rowless if awake else {}
            self._rowless = {name: since.get(name, now) for name in rowless}
            gone = [name for name, at in self._rowless.items() if now - at > _STALE_S]
            if gone:
                _bury(connection, gone)

    def retire(self, worker: str) -> None:
        """Remove a worker that stops; calls it still had open are lost."""
        with self._connections.writing() as connection:
            _bury(connection, [worker])


_CALLING = select(open_calls.c.worker).distinct()


def is_dead(worker: Row, host: str, silent_at: float) -> bool:
    """Return True if a worker was last seen before ``silent_at`` or has left this host."""
    if worker["seen_at"] < silent_at:
        return True
    if worker["host"] != host:
        return False
    return worker["pid"] == os.getpid() or not _alive(worker["pid"])


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _claimed(connection: Connection, dead: Sequence[str]) -> list[str]:
    """Lock those of the dead that no other process is burying now."""
    ours = select(workers.c.id).where(workers.c.id.in_(dead)).with_for_update(skip_locked=True)
    return list(connection.execute(ours).scalars())


def _bury(connection: Connection, dead: Sequence[str]) -> None:
    """Turn the calls that dead workers left open into lost exchanges; end their series."""
    theirs = open_calls.c.worker.in_(dead)
    lost = [
        made
        for row in connection.execute(select(open_calls).where(theirs)).mappings().all()
        if add(connection, exchanges, made := lost_row(row))
    ]
    add_ended(connection, (tuple(map(made.get, EXCHANGE_COLUMNS)) for made in lost))
    connection.execute(delete(open_calls).where(theirs))
    for _, module in modules("upkeep"):
        module.on_dead_workers(connection, dead)
    left = reference_series.c.worker.in_(dead) & reference_series.c.ended_at.is_(None)
    stopped = {"ended_at": reference_series.c.started_at, "not_run": STOPPED}
    connection.execute(update(reference_series).where(left).values(stopped))
    connection.execute(delete(workers).where(workers.c.id.in_(dead)))
