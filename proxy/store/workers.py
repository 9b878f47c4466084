"""The worker processes that share a database, and what dead ones leave behind."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

from sqlalchemy import Connection, delete, select, update

from proxy.store.connections import Connections
from proxy.store.deployment import note_outage
from proxy.store.rows import lost_row
from proxy.store.statements import add
from proxy.store.tables import exchanges, open_calls, workers
from proxy.store.types import Row

_STALE_S = 30.0  # a worker without a heartbeat for so long is dead
_AWAKE_S = 15.0  # a worker whose own heartbeat is older knows nothing of others


class Workers:
    """Registers workers and turns the open calls of dead ones into lost exchanges."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._began_at: dict[str, float] = {}  # of the workers of this process

    def heartbeat(self, worker: str, *, host: str, now: float) -> None:
        """Record that a worker lives; calls left open by dead ones become `lost`.

        A worker whose own heartbeat is late takes no other's silence for death yet: the database
        may have been away.
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

    def retire(self, worker: str) -> None:
        """Remove a worker that stops; calls it still had open are lost."""
        with self._connections.writing() as connection:
            _bury(connection, [worker])


def is_dead(worker: Row, host: str, silent_at: float) -> bool:
    """Whether a worker is dead: silent since before then, or gone from this host."""
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
    """Turn what dead workers left open into lost exchanges."""
    theirs = open_calls.c.worker.in_(dead)
    for row in connection.execute(select(open_calls).where(theirs)).mappings().all():
        add(connection, exchanges, lost_row(row))
    connection.execute(delete(open_calls).where(theirs))
    connection.execute(delete(workers).where(workers.c.id.in_(dead)))
