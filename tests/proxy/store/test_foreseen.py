"""What a verdict changes of its batch is worked out before it is stored, and only then holds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from proxy.store import batch_totals, verdicts
from proxy.store.admin import maintenance
from proxy.store.database import Database
from proxy.store.tables import Registration
from proxy.store.verdicts import PrecomputedTotals, precompute_totals
from tests.proxy.store.test_verdicts import verdict


@pytest.fixture
def batch(database: Database) -> Database:
    """Two repeats of one task that run."""
    for repeat in (0, 1):
        placed = Registration(id=f"r{repeat}", batch="b", task="t", repeat=repeat, repeats=2)
        database.rollouts.register(placed, now=1.0)
    return database


def test_nothing_is_written_where_it_is_worked_out(batch: Database) -> None:
    before = batch.batches.summed("b")
    foreseen = batch.read(precompute_totals, verdict("r0", scoreable="yes", reward=1.0))
    assert foreseen is not None
    assert foreseen.writes
    assert batch.batches.summed("b") == before


def test_a_verdict_that_changes_nothing_writes_nothing_beside_it(batch: Database) -> None:
    row = verdict("r0", provisional=True)
    batch.verdicts.store(row)
    foreseen = batch.read(precompute_totals, row)
    assert foreseen is not None
    assert foreseen.writes == []


def test_what_shows_only_as_it_is_stored_is_not_foreseen(batch: Database) -> None:
    batch.rollouts.register(Registration(id="alone"), now=1.0)
    batch.verdicts.store(verdict("r1"))
    for row in (
        verdict("alone", batch=None), verdict("r0", batch="other"), verdict("nobody"),
        verdict("r1", provisional=True),
    ):  # fmt: skip
        assert batch.read(precompute_totals, row) is None, row["rollout_id"]
    assert batch.read(precompute_totals, verdict("r0")) is not None
    batch.change(batch_totals.invalidate, ["b"])
    assert batch.read(precompute_totals, verdict("r0")) is None, "it is to be counted anew"


CHANGES: dict[str, Callable[[Database, str], object]] = {
    "verdict": lambda database, of: database.verdicts.store(
        verdict(f"{of}-1", batch=of, reward=0.5, scoreable="yes")
    ),
    "own verdict": lambda database, of: database.verdicts.store(
        verdict(f"{of}-0", batch=of, health="healthy")
    ),
    "outcome": lambda database, of: database.rollouts.report(
        f"{of}-0", '{"rewards": {"reward": 1}}', now=2.0
    ),
    "registration": lambda database, of: database.rollouts.register(
        Registration(id=f"{of}-2", batch=of, task="t", repeat=0, attempt=1), now=2.0
    ),
    "count": lambda database, of: database.batches.count(of),
    "mark": lambda database, of: database.change(batch_totals.invalidate, [of]),
}


def test_what_happens_in_between_is_seen(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is worked out again, and in the transaction itself where things go on happening."""
    for number, (happens, times, provisional) in enumerate(product(CHANGES, (1, 9), (True, False))):
        of, seen = f"b{number}", list[PrecomputedTotals | None]()
        for repeat in (0, 1):
            placed = Registration(id=f"{of}-{repeat}", batch=of, task="t", repeat=repeat, repeats=2)
            database.rollouts.register(placed, now=1.0)

        def foresees(connection: Any, row: Any) -> PrecomputedTotals | None:
            found = precompute_totals(connection, row)
            if row["given_at"] == 7.0:
                seen.append(found)  # noqa: B023
                if len(seen) <= times:  # noqa: B023
                    connection.rollback()
                    CHANGES[happens](database, of)  # noqa: B023
            return found

        monkeypatch.setattr(verdicts, "precompute_totals", foresees)
        row = verdict(f"{of}-0", batch=of, provisional=provisional, reward=0.1, given_at=7.0,
                      health="api_error")  # fmt: skip
        database.verdicts.store(row)
        case = happens, times, provisional
        assert 1 <= len(seen) <= 2, case
        assert None not in seen[:1], case
        database.batches.count_invalidated()
        found = database.read(maintenance.check)
        assert found.right, (case, found)
        stands = database.verdicts.final(f"{of}-0")
        assert (stands is not None) == (happens == "outcome" and not provisional), case
