"""Rollouts are registered once, reported once and revoked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from classifier.records import Exchange, Kind
from proxy.features.drills.store import Drills
from proxy.store.database import Database
from proxy.store.rollouts import PreparedRegistration
from proxy.store.tables import CommitBatch, PolicyTerms, Registered, Registration, Reported
from tests.proxy.store.records import FULL, loaded, row_of, summed_up, write
from tests.statements import statements

PATIENCE_S = 300.0


def test_registration_fills_in_what_traffic_created(database: Database) -> None:
    write(database, FULL)
    assert not database.rollouts.is_registered("r1")
    placed = Registration(id="r1", batch="b", model="m")
    assert not database.rollouts.register(placed, now=2.0).conflict
    _, found = loaded(database)
    assert (found.batch, found.model, len(found.exchanges)) == ("b", "m", 1)


def test_fallbacks_are_part_of_what_a_rollout_was_registered_with(database: Database) -> None:
    registration = Registration(id="r1", model="m", fallbacks="n\no p")
    assert without_policy(database.rollouts.register(registration, now=1.0)) == Registered()
    assert loaded(database)[1].models == ("m", "n", "o p")
    assert without_policy(database.rollouts.register(registration, now=1.0)) == Registered()
    assert database.rollouts.register(replace(registration, fallbacks=None), now=1.0).conflict


def test_the_first_outcome_stands(database: Database) -> None:
    assert database.rollouts.report("r1", "{}", now=1.0) == Reported()
    database.rollouts.register(Registration(id="r1"), now=1.0)
    assert database.rollouts.report("r1", '{"a":1}', now=1.0) == Reported(outcome='{"a":1}')
    assert database.rollouts.report("r1", '{"a":2}', now=2.0) == Reported(outcome='{"a":1}')


def without_policy(registered: Registered) -> Registered:
    return replace(registered, policy={})


def race(*works: Callable[[], object]) -> list[object]:
    """Begin them at the same moment, each in a thread of its own; returns what they return."""
    start = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> object:
        start.wait(PATIENCE_S)
        return work()

    with ThreadPoolExecutor(len(works)) as threads:
        return list(threads.map(run, works))


def test_an_outcome_and_the_first_call_at_the_same_time_make_one_rollout(
    database: Database,
) -> None:
    others = [Database(database.url) for _ in range(2)]
    for number in range(8):
        name = f"r{number}"
        said, again = (
            partial(
                each.rollouts.report, name, "{}", now=2.0, attributes={"batch": "b"}, registers=True
            )
            for each in (database, others[0])
        )
        called = partial(write, others[1], replace(FULL, id=name, rollout_id=name))
        assert race(said, again, called) == [Reported(outcome="{}"), Reported(outcome="{}"), None]
        found = loaded(database, name)
        assert (found[0]["registered"], found[0]["outcome"]) == (True, "{}")
        assert (found[1].batch, len(found[1].exchanges)) == ("b", 1)
    for other in others:
        other.close()


def test_of_two_outcomes_at_the_same_time_one_stands_whole(
    database: Database, other: Database
) -> None:
    for number in range(8):
        name = f"r{number}"
        told = [
            partial(
                each.rollouts.report, name, f'"{batch}"', now=1.0,
                attributes={"batch": batch}, registers=True,
            )
            for each, batch in ((database, "b"), (other, "c"))
        ]  # fmt: skip
        first, second = race(*told)
        row = row_of(database, name)
        assert (row["batch"], row["outcome"]) in {("b", '"b"'), ("c", '"c"')}
        lost = Reported(outcome=row["outcome"], conflict=True)
        stood = Reported(outcome=row["outcome"])
        assert [first, second] == ([stood, lost] if row["batch"] == "b" else [lost, stood])


def test_of_two_registrations_at_the_same_time_one_stands_whole(
    database: Database, other: Database
) -> None:
    for turn in range(8):
        names = [f"r{turn}-{number}" for number in range(3)]
        asked = ((database, "b", names), (other, "c", names[1:2]))
        first, second = race(*(
            partial(each.rollouts.register_all, [enrolment(n, batch=batch) for n in named], now=1.0)
            for each, batch, named in asked
        ))  # fmt: skip
        assert isinstance(first, list)
        assert isinstance(second, list)
        lost = [row_of(database, name)["batch"] == "c" for name in names]
        assert lost in ([False] * 3, [False, True, False])
        assert [each.conflict for each in first] == lost
        assert [each.conflict for each in second] == [not lost[1]]


def test_an_outcome_fills_in_what_traffic_created_and_nothing_else(database: Database) -> None:
    def reported(batch: str, outcome: str = "{}") -> Reported:
        return database.rollouts.report("r1", outcome, now=2.0, attributes={"batch": batch})

    assert reported("b") == Reported()
    write(database, FULL)
    assert reported("b") == Reported(outcome="{}")
    assert database.rollouts.is_registered("r1")
    assert reported("c") == Reported(outcome="{}", conflict=True)
    database.rollouts.register(Registration(id="r2", batch="b"), now=1.0)
    conflict = database.rollouts.report("r2", "{}", now=2.0, attributes={"task": "t"})
    assert conflict.conflict
    row = row_of(database, "r2")
    assert (row["outcome"], row["task"]) == (None, None)
    write(database, replace(FULL, rollout_id="r3"))
    for attributes, refused in (({}, False), ({"batch": "b"}, True)):
        told = database.rollouts.report("r3", "{}", now=2.0, attributes=attributes)
        assert told.conflict is refused, "it was judged outside of the batch"
    assert row_of(database, "r3")["batch"] is None


def test_a_revocation_is_never_postponed(database: Database) -> None:
    database.rollouts.register(Registration(id="r1"), now=1.0)
    for at, expected in ((50.0, 50.0), (80.0, 50.0), (20.0, 20.0)):
        database.rollouts.expire("r1", at=at)
        assert row_of(database)["revoked_at"] == expected


def test_calls_of_a_drilled_rollout_are_numbered_across_processes(
    database: Database, other: Database
) -> None:
    database.rollouts.register(Registration(id="r1", fault='{"kind":"auth"}'), now=1.0)
    numbers = [Drills(one.connections).next_call("r1") for one in (database, other, database)]
    assert numbers == [1, 2, 3]
    assert Drills(database.connections).drilled() == {"r1"}
    database.rollouts.report("r1", "{}", now=2.0)
    assert Drills(database.connections).drilled() == frozenset()


ASKED = replace(FULL, tool_calls=1)  # began at 1000.5
LATER = replace(ASKED, id="x9", timing=replace(FULL.timing, started_at=1100.0))


@pytest.mark.parametrize(
    ("registered_at", "calls", "died", "gaps"),
    [
        (1000.0, [ASKED], True, 1),
        (1000.0, [ASKED], False, 0),  # nobody died
        (1000.0, [ASKED, LATER], True, 0),  # it called again
        (1000.0, [ASKED, replace(LATER, ending=None)], True, 0),  # that call is under way
        (1000.0, [replace(ASKED, tool_calls=0)], True, 0),  # it had its last answer
        (1000.0, [replace(ASKED, tool_calls=None)], True, 0),
        (1000.0, [replace(ASKED, role="judge")], True, 0),
        (1000.0, [replace(ASKED, kind=Kind.PROBE)], True, 0),
        (1000.0, [], True, 0),
        (1099.0, [ASKED], True, 0),  # it began afterwards; clocks may differ
    ],
)
def test_an_agent_that_was_to_call_again_when_all_died_may_have_met_no_service(
    database: Database, registered_at: float, calls: list[Exchange], died: bool, gaps: int
) -> None:
    database.heartbeat("before", host="here", now=1001.0)
    database.rollouts.register(Registration(id="r1"), now=registered_at)
    ended = [call for call in calls if call.ending is not None]
    database.calls.write(CommitBatch(recorded=ended), worker="before")
    if died:  # a process of our own pid is dead at once
        database.heartbeat("after", host="here", now=1050.0)
    opened = [call for call in calls if call.ending is None]
    database.calls.write(CommitBatch(opened=opened), worker="after")
    for now in (1200.0, 1201.0):
        database.rollouts.report("r1", "{}", now=now)
    assert loaded(database)[1].gaps == gaps


# --- Many registrations at once do what they do one after another, in a few statements ------------


def enrolment(name: str, **facts: Any) -> PreparedRegistration:
    policy = PolicyTerms(stated=facts.pop("policy", {}), default={"agents": "trusted"})
    return PreparedRegistration(registration=Registration(id=name, **facts), policy=policy)


HISTORY = [
    [enrolment("seen", batch="b", task="t"), enrolment("new", batch="b", model="m")],
    [enrolment("new", batch="b", model="m"), enrolment("new", batch="c"), enrolment("alone")],
    [enrolment("twice", task="t"), enrolment("twice", task="t"), enrolment("twice", task="u")],
    [enrolment("new", batch="p", policy={"agents": "untrusted"}),  # another batch: a conflict
     enrolment("p1", batch="p", policy={"agents": "trusted"}),
     enrolment("p2", batch="p", policy={"agents": "untrusted"}), enrolment("p3", batch="p")],
    [enrolment("own", policy={"agents": "untrusted"}), enrolment("own")],
]  # fmt: skip


def state(database: Database) -> list[tuple[Any, ...]]:
    names = ("seen", "new", "alone", "twice", "p1", "p2", "p3", "own")
    rows = [database.rollouts.row(name) for name in names]
    return [tuple(row.values()) if row else () for row in rows]


def prepared(database: Database) -> Database:
    database.prepare()
    write(database, replace(FULL, rollout_id="seen"))
    return database


def test_many_at_once_are_as_one_after_another(database: Database, tmp_path: Path) -> None:
    other = prepared(Database(str(tmp_path / "other.db")))
    alone = [
        [other.rollouts.register_all([each], now=float(n))[0] for each in asked]
        for n, asked in enumerate(HISTORY)
    ]
    assert [list(map(without_policy, each)) for each in alone] == [
        [Registered(), Registered()],
        [Registered(), Registered(conflict=True), Registered()],
        [Registered(), Registered(), Registered(conflict=True)],
        [Registered(conflict=True), Registered(), Registered(differing={"agents": "trusted"}),
         Registered()],
        [Registered(), Registered()],
    ]  # fmt: skip
    prepared(database)
    together = [database.rollouts.register_all(a, now=float(n)) for n, a in enumerate(HISTORY)]
    assert together == alone
    assert state(database) == state(other)
    other.close()


def test_five_hundred_take_one_transaction_and_as_many_statements_as_one(
    database: Database,
) -> None:
    commits: list[object] = []
    event.listen(database.connections.writer, "commit", commits.append)
    costs = set()
    for many in (1, 500):
        asked = [enrolment(f"{many}-{n}", batch=f"b{many}") for n in range(many)]
        commits.clear()
        with statements(database) as said:
            registered = database.rollouts.register_all(asked, now=1.0)
        assert list(map(without_policy, registered)) == [Registered()] * many
        costs.add((len(said), len(commits)))
    assert [each[1] for each in costs] == [1]
    for many in (1, 500):
        found = summed_up(database, f"b{many}")
        of_each = ("rollouts", "running", "verdict:unjudged", "part:running:", "standing::0")
        assert found.counts == dict.fromkeys(of_each, many)
