"""Lock keys are the same in every process and version."""

from __future__ import annotations

from itertools import product

from proxy.store.connections import Lock, hold
from proxy.store.database import Database

# Replicas of several versions hold the same locks: a key that changes would let two of them in.
KEYS = {
    Lock.SCHEMA: -6067774199800740070,
    Lock.PARTITIONS: -2251519350268136354,
    Lock.BREAKERS: 8577588364522981991,
    Lock.ALERTS: -62864305777512432,
    Lock.VERDICT: 4073423493475226487, Lock.EVENTS: 2492599815100044552,
}  # fmt: skip


def test_keys_do_not_change_between_versions() -> None:
    assert {lock: lock.key() for lock in Lock} == KEYS


def test_keys_differ_by_lock_and_by_what_is_locked() -> None:
    keys = {lock.key(of) for lock, of in product(Lock, ("", "a", "b"))}
    assert len(keys) == 3 * len(Lock)
    assert all(-(2**63) <= key < 2**63 for key in keys)


def test_a_lock_is_free_again_after_its_transaction(database: Database) -> None:
    for _ in range(2):
        with database._connections.writing() as connection:
            hold(connection, Lock.BREAKERS, "b")
            hold(connection, Lock.BREAKERS, "b")
