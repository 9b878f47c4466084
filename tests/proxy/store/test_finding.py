"""Names are found by a part of them, taken literally."""

from __future__ import annotations

from proxy.store.database import Database
from proxy.store.listing import find_batches, find_fingerprints, find_rollouts, has_rollout
from proxy.store.tables import Registration
from tests.proxy.store.test_verdicts import verdict


def test_names_are_found_in_any_case_and_literally(database: Database) -> None:
    for n, batch in enumerate(("nightly-1", "Nightly-2", "100%")):
        database.rollouts.register(
            Registration(id=f"r{n}", batch=batch, task=f"Sort {n}_"), now=float(n)
        )
        cause = {"fingerprint": "quota:429"} if n else {"fingerprint": "auth:401"}
        database.verdicts.store(verdict(f"r{n}", batch=batch, **cause))
    assert database.read(find_batches, "NIGHT", limit=9) == ["Nightly-2", "nightly-1"]
    assert database.read(find_batches, "night", limit=1) == ["Nightly-2"]
    assert database.read(find_batches, "%", limit=9) == ["100%"]
    assert database.read(find_fingerprints, "QUO", limit=9) == ["quota:429"]
    assert database.read(find_fingerprints, "4", limit=9) == ["auth:401", "quota:429"]
    assert [database.read(has_rollout, name) for name in ("r1", "R1", "r")] == [True, False, False]
    assert database.read(find_rollouts, "R", limit=2) == ["r2", "r1"]
    assert database.read(find_rollouts, "sort 1_", limit=9) == ["r1"]
    assert database.read(find_rollouts, "sort 11", limit=9) == []
