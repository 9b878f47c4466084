"""A rollout that leaves its place in its task open gets one; of two at once one the next try."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from sqlalchemy import event

from classifier.attempt_numbers import TaskPlace as Place
from proxy.store.database import Database
from proxy.store.open_places import NotJudged
from proxy.store.rollouts import PreparedRegistration
from proxy.store.tables import Registration
from tests.proxy.store.records import row_of
from tests.proxy.store.test_rollouts import race
from tests.proxy.store.test_verdicts import verdict


def go(database: Database, name: str, **facts: Any) -> Place:
    registration = Registration(id=name, batch="b", task="t", **facts)
    return Place(**database.rollouts.register(registration, now=float(name[1:])).place)


def enrolment(name: str, **facts: Any) -> PreparedRegistration:
    registration = Registration(id=name, batch="b", task="t", **facts)
    return PreparedRegistration(registration=registration)


def end(database: Database, name: str, *, measured: bool = False) -> None:
    database.rollouts.report(name, "{}", now=9.0)
    database.verdicts.store(verdict(name, scoreable="yes" if measured else "no"))


def place(database: Database, name: str) -> Place:
    row = row_of(database, name)
    return Place(row["repeat"], row["attempt"])


def test_what_ended_unmeasured_gets_a_next_attempt_until_it_is_measured(database: Database) -> None:
    assert go(database, "r1") == Place()
    end(database, "r1")
    assert go(database, "r2") == Place(None, 1)
    assert place(database, "r1") == Place(None, 0)
    end(database, "r2", measured=True)
    assert go(database, "r3") == Place(1, 0)
    assert go(database, "r4") == Place(2, 0), "the third is running"
    end(database, "r3")
    assert go(database, "r5") == Place(1, 1)


def test_its_earlier_verdict_says_the_number_that_it_has_now(database: Database) -> None:
    go(database, "r1")
    database.rollouts.report("r1", "{}", now=2.0)
    said = '{"repeat":null,"attempt":null}'
    database.verdicts.store(verdict("r1", result=said))
    go(database, "r2")
    stored = database.verdicts.final("r1")
    assert stored is not None
    assert stored["result"] == '{"repeat":null,"attempt":0}'


def test_to_register_it_again_changes_nothing(database: Database) -> None:
    go(database, "r1")
    end(database, "r1")
    assert go(database, "r2") == go(database, "r2") == Place(None, 1)
    assert place(database, "r2") == Place(None, 1)
    other = Registration(id="r2", batch="b", task="other")
    assert database.rollouts.register(other, now=3.0).conflict


def test_a_rollout_that_has_ended_is_not_registered_again(database: Database) -> None:
    go(database, "r1")
    end(database, "r1")
    registered = database.rollouts.register(Registration(id="r1", batch="b", task="t"), now=2.0)
    assert registered.ended


def test_one_that_was_not_admitted_is_tried_again(database: Database) -> None:
    go(database, "r1")
    with database.connections.writing() as connection:
        connection.exec_driver_sql("UPDATE rollouts SET skipped = 'skipped: auth' WHERE id = 'r1'")
    assert go(database, "r2") == Place(None, 1)


def test_one_that_was_given_up_is_tried_again(database: Database) -> None:
    """Its loop was killed: it has no outcome, and nobody starts rollouts of its batch any more."""
    go(database, "r1")
    database.runs.end("b", None, now=2.0)
    assert go(database, "r3") == Place(None, 1)
    assert go(database, "r4") == Place(1, 0), "that one runs"
    database.runs.end("b", None, now=5.0)
    assert go(database, "r6") == Place(None, 2)
    assert go(database, "r7") == Place(1, 1)
    database.runs.begin("b", "again", now=8.0)
    assert go(database, "r9") == Place(2, 0), "nobody says so any more"


def test_several_of_one_transaction_are_told_apart(database: Database) -> None:
    go(database, "r1")
    end(database, "r1")
    asked = [enrolment(f"r{n}", repeat=2 if n == 4 else None) for n in (2, 3, 4, 5)]
    database.rollouts.register_all(asked, now=2.0)
    places = [place(database, f"r{n}") for n in range(1, 6)]
    assert places == [*map(Place, (None, None, 1, 2, 3), (0, 1, 0, None, 0))]


def test_an_outcome_that_registers_a_rollout_gives_it_its_place(database: Database) -> None:
    go(database, "r1")
    end(database, "r1")
    named = {"batch": "b", "task": "t"}
    report = partial(database.rollouts.report, "r2", "{}", attributes=named, registers=True)
    assert not report(now=3.0).conflict
    assert place(database, "r2") == Place(None, 1)
    assert not report(now=4.0).conflict, "the same again"


def test_one_that_is_not_judged_is_to_be_judged_first(database: Database) -> None:
    for name in ("r1", "r2"):
        registration = Registration(id=name, batch="b", task="t", repeat=int(name[1:]))
        database.rollouts.register(registration, now=1.0)
        database.rollouts.report(name, "{}", now=2.0)
    database.verdicts.store(verdict("r2", provisional=True, scoreable="yes"))
    with pytest.raises(NotJudged) as raised:
        go(database, "r3")
    assert raised.value.rollout_ids == ["r1", "r2"]
    assert database.rollouts.row("r3") is None
    known = {"r1": True, "r2": False}
    database.rollouts.register_all([enrolment("r3")], now=3.0, measured=known)
    assert place(database, "r3") == Place(2, 1)


@pytest.mark.parametrize("taken", [(1, 2, 4), (0, 1, 3), (2, 1)])
def test_a_new_repeat_takes_the_number_after_the_highest(
    database: Database, taken: tuple[int, ...]
) -> None:
    for number in taken:
        named = Registration(id=f"n{number}", batch="b", task="t", repeat=number, attempt=0)
        database.rollouts.register(named, now=0.0)
    assert go(database, "r1") == Place(max(taken) + 1, 0)


def test_planned_repeats_are_told_from_others(database: Database) -> None:
    for number, repeats in ((0, None), (1, 3), (2, None)):
        named = Registration(id=f"n{number}", batch="b", task="t", repeat=number, repeats=repeats)
        database.rollouts.register(named, now=0.0)
    assert [go(database, f"r{n}", repeats=3) for n in (1, 2)] == [Place(3, 0), Place(4, 0)]
    end(database, "n0")
    assert go(database, "r3", repeats=3) == Place(0, 1)


def test_planned_repeats_are_counted_once_when_they_are_registered_again(
    database: Database,
) -> None:
    asked = {n: enrolment(f"r{n}", repeats=4) for n in range(1, 6)}
    database.rollouts.register_all([asked[1], asked[2]], now=1.0)
    end(database, "r1")
    database.rollouts.register_all([asked[n] for n in (2, 3, 4, 5)], now=2.0)
    places = [place(database, f"r{n}") for n in range(1, 6)]
    assert places == [Place(0, 0), Place(1, 0), Place(2, 0), Place(3, 0), Place(0, 1)]


def test_what_a_registration_reads_does_not_grow_with_the_samples_of_its_task(
    database: Database,
) -> None:
    rows: list[int] = []  # by statement

    def reads(_connection: Any, cursor: Any, statement: str, given: Any, *_: Any) -> None:
        reading = statement.startswith(("SELECT", "WITH"))
        rows.append(len(cursor.connection.execute(statement, given).fetchall()) if reading else 0)

    costs = []
    for number in range(1, 60, 3):
        rows.clear()
        event.listen(database.connections.writer, "after_cursor_execute", reads)
        go(database, f"r{number}")
        event.remove(database.connections.writer, "after_cursor_execute", reads)
        costs.append((len(rows), sum(rows)))
        end(database, f"r{number}")
        go(database, f"r{number + 1}")
        end(database, f"r{number + 1}", measured=True)
        go(database, f"r{number + 2}")  # runs
    assert len(set(costs[2:])) == 1, costs


def test_of_two_registrations_at_once_one_gets_the_next_attempt(
    database: Database, other: Database
) -> None:
    for number in range(0, 40, 4):
        task, names = f"t{number}", [f"r{number + each}" for each in range(1, 4)]
        first = Registration(id=names[0], batch="b", task=task)
        database.rollouts.register(first, now=1.0)
        end(database, names[0])
        race(*(
            partial(each.rollouts.register, Registration(id=name, batch="b", task=task), now=2.0)
            for each, name in ((database, names[1]), (other, names[2]))
        ))  # fmt: skip
        assert {place(database, name) for name in names[1:]} == {Place(None, 1), Place(1, 0)}
