"""What a change of some rollouts writes of their batch: as few statements as there are tables."""

from __future__ import annotations

from collections import Counter

from classifier.rollup import CountedRollout
from proxy.store import batch_totals
from proxy.store.batch_totals import changes
from proxy.store.database import Database
from proxy.store.tables import Registration, Write
from tests.proxy.store.test_verdicts import verdict


def tables(written: list[Write]) -> Counter[str]:
    """How many statements there are for each table."""
    return Counter(str(statement.table) for statement, _ in written)  # type: ignore[attr-defined]


def change(
    database: Database, before: list[CountedRollout], after: list[CountedRollout]
) -> list[Write]:
    return database.read(lambda connection: list(changes(connection, "b", before, after)))


def test_what_many_rollouts_change_is_written_together(database: Database) -> None:
    for number in range(20):
        placed = Registration(id=f"r{number}", batch="b")
        database.rollouts.register(placed, now=float(number))
        row = verdict(f"r{number}", provisional=True, servings="[]", scoreable="unknown")
        database.verdicts.store(row)
    before = database.read(batch_totals.all_of, "b")
    rows = [verdict(each.entry.rollout_id, servings="[1]") for each in before]
    after = [
        batch_totals.with_verdict(each, row, None) for each, row in zip(before, rows, strict=True)
    ]
    written = change(database, before, after)
    assert tables(written) == {"batches": 1, "batch_notes": 1, "batch_servings": 2}
    notes = next(values for statement, values in written if "batch_notes" in str(statement))
    assert len(notes) == 20
    assert change(database, before, before) == []


def test_shapes_are_added_counted_and_removed(database: Database) -> None:
    scores = {"a": 0.5, "b": 0.5, "c": 1.0}
    for name, score in scores.items():
        database.rollouts.register(Registration(id=name, batch="b"), now=1.0)
        database.verdicts.store(verdict(name, scoreable="yes", reward=score))
    before = database.read(batch_totals.all_of, "b")
    given = {"a": 0.5, "b": 1.0, "c": 0.25}
    after = [
        batch_totals.with_verdict(each, verdict(name, scoreable="yes", reward=score), None)
        for each, (name, score) in zip(before, given.items(), strict=True)
    ]
    written = [each for each in change(database, before, after) if "shapes" in str(each[0])]
    assert len(written) == 2
    (_, added), (_, changed) = written
    assert [row["tasks"] for row in added] == [1]
    assert [row["tasks"] for row in changed] == [1], "one of two left"
    gone = [
        batch_totals.with_verdict(each, verdict(each.entry.rollout_id), None) for each in before
    ]
    written = [each for each in change(database, before, gone) if "DELETE" in str(each[0])]
    assert tables(written)["batch_shapes"] == 1
    assert len(written[-1][1]) == 2
