"""A batch is read from its sums: the first of what it names, and no more with each rollout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import event, update

from classifier import codec
from classifier.verdicts import Health, Retry, Subcategory, Verdict
from proxy.store import batch_totals, batches
from proxy.store.database import Database
from proxy.store.tables import Registration, as_json
from proxy.store.tables import batches as table
from tests.proxy.store.test_verdicts import verdict


def play(
    database: Database,
    name: str,
    at: float,
    *,
    failed: bool,
    provisional: bool,
    after_s: float = 2.0,
) -> None:
    database.rollouts.register(Registration(id=name, batch="b", task=f"t-{name}"), now=at)
    judged = Verdict(
        rollout_id=name, batch="b", health=Health.API_ERROR if failed else Health.HEALTHY,
        rule="all_failed", policy="evidence", subcategory=Subcategory.QUOTA if failed else None,
        retry=Retry(eligible=failed, after_s=after_s, reason="transient"), provisional=provisional,
    )  # fmt: skip
    database.verdicts.store(
        verdict(
            name, health=judged.health.value, scoreable="no" if failed else "yes",
            reward=None if failed else 1.0, provisional=provisional,
            validity=None if failed else " suspect stalled ",
            verdict=as_json(codec.encode_verdict(judged)),
        )
    )  # fmt: skip


@contextmanager
def counting(database: Database) -> Iterator[list[int]]:
    """Count the statements of the readers, and the rows that they are answered."""
    counts = [0, 0]

    def executed(_connection: object, cursor: object, *_: object) -> None:
        counts[0] += 1

    engine = database._connections.reader
    event.listen(engine, "after_cursor_execute", executed)
    try:
        yield counts
    finally:
        event.remove(engine, "after_cursor_execute", executed)


def test_of_what_a_summary_names_the_first_are_given_and_all_are_counted(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "LINES", 2)
    monkeypatch.setattr(batches, "RETRIES", 3)
    for number, name in enumerate("edcba"):
        play(database, name, float(number), failed=True, provisional=False)
    play(database, "f", 9.0, failed=False, provisional=True)
    found = database.batches.summed("b")
    assert found is not None
    assert [line.partition(":")[0] for line in found.named.lines] == ["t-e", "t-d"]
    assert [(item["rollout_id"], item["after_s"]) for item in found.retry] == [
        ("e", 2.0), ("d", 2.0), ("c", 2.0),
    ]  # fmt: skip
    assert (found.counts["lines"], found.counts["retry"], found.counts["pending"]) == (6, 5, 1)
    assert found.named.counted["suspect"] == (["t-f (stalled)"], 1)


def test_reading_a_batch_costs_the_same_however_many_rollouts_it_has(database: Database) -> None:
    statements = []
    for number in range(12):
        play(database, f"r{number}", float(number), failed=False, provisional=False)
        with counting(database) as counts:
            assert database.batches.summed("b") is not None
        statements.append(counts[0])
    assert set(statements) == {statements[0]}
    assert statements[0] <= 10


def test_a_batch_that_is_marked_is_counted_when_it_is_read(database: Database) -> None:
    play(database, "a", 1.0, failed=True, provisional=False)
    before = database.batches.summed("b")
    database.change(batch_totals.invalidate, ["b"])
    assert database.read(batch_totals.invalidated) == ["b"]
    assert database.batches.summed("b") == before
    assert database.read(batch_totals.invalidated) == []
    assert database.batches.summed("nobody") is None


def test_counting_goes_on_where_it_was_interrupted(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        database.rollouts.register(Registration(id=name, batch=name), now=1.0)
    database.change(lambda c: c.execute(update(table).values(counts=None)))
    real = batch_totals.count

    def dies(connection: object, batch: str) -> None:
        real(connection, batch)  # type: ignore[arg-type]
        if batch == "b":
            raise KeyboardInterrupt

    monkeypatch.setattr(batch_totals, "count", dies)
    with pytest.raises(KeyboardInterrupt):
        database.batches.count_invalidated()
    monkeypatch.undo()
    assert database.read(batch_totals.invalidated) == ["b"]
    assert database.batches.count_invalidated() == 1


def test_a_version_grows_with_each_change_and_says_what_waits(database: Database) -> None:
    assert database.read(batches.batch_version, "b") is None
    database.rollouts.register(Registration(id="r1", batch="b"), now=1.0)
    versions = [database.read(batches.batch_version, "b")]
    for work in (
        lambda: database.verdicts.store(verdict(provisional=True)),
        lambda: database.verdicts.store(verdict(health="healthy", scoreable="yes")),
        lambda: database.verdicts.store(verdict(health="healthy", scoreable="yes", lane="other")),
        lambda: database.change(batch_totals.invalidate, ["b"]),
        lambda: database.batches.count("b"),
    ):
        work()
        versions.append(database.read(batches.batch_version, "b"))
    numbers = [version.number for version in versions if version is not None]
    assert sorted(set(numbers)) == numbers
    assert [version is not None and version.waits for version in versions][:2] == [True, False]


def test_other_advice_is_another_version_though_it_changes_no_sum(database: Database) -> None:
    told = []
    for after_s in (2.0, 2.0, 7.0):
        play(database, "a", 1.0, failed=True, provisional=True, after_s=after_s)
        summed = database.batches.summed("b")
        assert summed is not None
        (again,) = summed.retry
        told.append((database.read(batches.batch_version, "b"), again["after_s"], summed.counts))
    assert told[0] == told[1]
    assert told[2][0] != told[1][0]
    assert (told[2][1], told[2][2]) == (7.0, told[1][2])
