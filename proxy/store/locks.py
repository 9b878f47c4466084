"""What no two transactions do at once where several write: PostgreSQL's advisory locks.

SQLite needs none of them: it has one writer.
"""

from __future__ import annotations

import hashlib
from enum import Enum

from sqlalchemy import Connection, func, select


class Lock(Enum):
    """What two transactions never do at once; a key of PostgreSQL's advisory locks each.

    They are taken in this order where several are.
    """

    SCHEMA = "schema"
    MONTHS = "months"
    BREAKERS = "breakers"  # of one batch: read, decided and written
    VERDICT = "verdict"  # of one rollout
    EVENTS = "events"  # numbered in the order in which they become visible

    def key(self, of: str = "") -> int:
        """A signed number of 64 bits, the same in every process."""
        digest = hashlib.blake2b(f"truezero/{self.value}/{of}".encode(), digest_size=8)
        return int.from_bytes(digest.digest(), signed=True)


def hold(connection: Connection, lock: Lock, of: str = "") -> None:
    """Wait for a lock and hold it until the transaction ends."""
    if connection.dialect.name != "sqlite":
        connection.execute(select(func.pg_advisory_xact_lock(lock.key(of))))
