"""Rollouts are registered once, reported once, revoked and listed."""

from __future__ import annotations

from proxy.store.database import Database
from proxy.store.types import CommitBatch, Registration
from tests.proxy.store.records import FULL


def test_a_rollout_is_created_by_its_first_exchange(database: Database) -> None:
    assert database.rollouts.load("r1") is None
    database.calls.write(CommitBatch(recorded=[FULL]), worker="w")
    assert not database.rollouts.is_registered("r1")


def test_registration_fills_in_what_traffic_created(database: Database) -> None:
    database.calls.write(CommitBatch(recorded=[FULL]), worker="w")
    assert not database.rollouts.register(
        Registration(id="r1", batch="b", model="m"), now=2.0
    ).conflict
    found = database.rollouts.load("r1")
    assert found is not None
    assert (found[1].batch, found[1].model, len(found[1].exchanges)) == ("b", "m", 1)


def test_registering_twice_is_harmless_with_the_same_facts_only(database: Database) -> None:
    assert not database.rollouts.register(Registration(id="r1", batch="b"), now=1.0).conflict
    assert not database.rollouts.register(Registration(id="r1", batch="b"), now=2.0).conflict
    assert database.rollouts.register(Registration(id="r1", batch="c"), now=3.0).conflict


def test_the_first_outcome_stands(database: Database) -> None:
    assert database.rollouts.report("r1", "{}", now=1.0) is None
    database.rollouts.register(Registration(id="r1"), now=1.0)
    assert database.rollouts.report("r1", '{"a":1}', now=1.0) == '{"a":1}'
    assert database.rollouts.report("r1", '{"a":2}', now=2.0) == '{"a":1}'


def test_a_revocation_is_never_postponed(database: Database) -> None:
    database.rollouts.register(Registration(id="r1"), now=1.0)
    for at, expected in ((50.0, 50.0), (80.0, 50.0), (20.0, 20.0)):
        database.rollouts.revoke("r1", at=at)
        row = database.rollouts.row("r1")
        assert row is not None
        assert row["revoked_at"] == expected


def test_an_alias_names_its_rollouts_until_they_are_revoked_or_reported(
    database: Database,
) -> None:
    for number, name in enumerate(("a", "a.1", "a.2", "a.3", "b.1")):
        database.rollouts.register(Registration(id=name, task="a"), now=float(number))
    database.rollouts.revoke("a.1", at=50.0)
    database.rollouts.report("a.2", "{}", now=50.0)
    assert database.rollouts.aliased("a", now=100.0) == ["a", "a.3"]
    assert database.rollouts.aliased("a", now=49.0) == ["a", "a.1", "a.3"]


def test_calls_of_a_drilled_rollout_are_numbered_across_processes(database: Database) -> None:
    database.rollouts.register(Registration(id="r1", fault='{"kind":"auth"}'), now=1.0)
    other = Database(database.url)
    numbers = [one.rollouts.next_drilled_call("r1") for one in (database, other, database)]
    assert numbers == [1, 2, 3]
    assert database.rollouts.drilled() == {"r1"}
    database.rollouts.report("r1", "{}", now=2.0)
    assert database.rollouts.drilled() == frozenset()
    other.close()


def test_a_page_continues_after_a_rollout_and_filters(database: Database) -> None:
    for number in range(4):
        batch = "even" if number % 2 == 0 else "odd"
        database.rollouts.register(Registration(id=f"r{number}", batch=batch), now=float(number))
    ids = [row["id"] for row in database.rollouts.page({}, after=(1.0, "r1"), limit=9)]
    assert ids == ["r2", "r3"]
    odd = database.rollouts.page({"batch": "odd"}, after=None, limit=9)
    assert [row["id"] for row in odd] == ["r1", "r3"]
