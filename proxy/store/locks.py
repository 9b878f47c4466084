"""PostgreSQL advisory locks; SQLite needs none, because it has one writer."""

from __future__ import annotations

import hashlib
from enum import Enum

from sqlalchemy import Connection, func, select


class Lock(Enum):
    """What only one transaction does at a time; where several are held, in this order."""

    SCHEMA = "schema"
    PARTITIONS = "months"  # the value is part of the key: older services take it too
    BREAKERS = "breakers"  # of one batch: read, decided and written
    VERDICT = "verdict"  # of one rollout
    ALERTS = "alerts"  # read, decided and written
    EVENTS = "events"  # numbered in the order in which they become visible

    def key(self, of: str = "") -> int:
        """Return the lock's key: a signed 64-bit number, the same in every process."""
        digest = hashlib.blake2b(f"truezero/{self.value}/{of}".encode(), digest_size=8)
        return int.from_bytes(digest.digest(), signed=True)


def hold(connection: Connection, lock: Lock, of: str = "") -> None:
    """Wait for a lock and hold it until the transaction ends."""
    if connection.dialect.name != "sqlite":
        connection.execute(select(func.pg_advisory_xact_lock(lock.key(of))))
