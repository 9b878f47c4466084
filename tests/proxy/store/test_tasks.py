"""A batch's rollouts are read by task, and its groups made of them."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import select

from classifier.groups import group
from proxy.store.database import Database
from proxy.store.tables import Registration, rollouts
from proxy.store.verdicts import final_parts
from tests.proxy.store.records import skip
from tests.proxy.store.test_verdicts import verdict


def begin(database: Database, name: str, *, skipped: bool = False, **facts: Any) -> None:
    facts = {"batch": "b", "task": "t", "repeats": 2, **facts}
    registration = Registration(id=name, **facts)
    database.rollouts.register(registration, now=1.0)
    if skipped:
        skip(database, registration)


def end(database: Database, name: str, *, reward: float | None = None, **given: Any) -> None:
    scoreable = "no" if reward is None else "yes"
    advice = json.dumps({"retry": {"eligible": given.pop("retry", False)}})
    row = verdict(name, scoreable=scoreable, reward=reward, verdict=advice, **given)
    database.verdicts.store(row, final_parts(None))


def seen(database: Database) -> dict[str, tuple[bool, bool, int]]:
    """Return of each group whether it has settled, whether it is final, and its revision."""
    tasks = database.tasks.page("b", after=None, limit=9)
    over = tasks.over_at is not None
    groups = [group(name, members, ended=over) for name, members in tasks.members.items()]
    return {each.task: (each.settled, each.final, each.revision) for each in groups}


def test_pages_go_by_task_and_hold_every_attempt(database: Database) -> None:
    for task in ("b", "a", "c"):
        for attempt in (0, 1):
            begin(database, f"{task}{attempt}", task=task, repeat=0, attempt=attempt)
    begin(database, "elsewhere", batch="other", task="aa")
    begin(database, "untasked", task=None)
    first = database.tasks.page("b", after=None, limit=2)
    assert {task: [m.entry.rollout_id for m in found] for task, found in first.members.items()} == {
        "a": ["a0", "a1"], "b": ["b0", "b1"],
    }  # fmt: skip
    assert list(first.members) == ["a", "b"]
    assert list(database.tasks.page("b", after="b", limit=2).members) == ["c"]
    assert list(database.tasks.of_task("b", "c").members) == ["c"]
    assert database.tasks.of_task("b", "none") == ({}, [], None)


def test_a_member_knows_what_its_group_needs(database: Database) -> None:
    begin(database, "kept", repeat=0, repeats=4)
    begin(database, "masked", repeat=1, repeats=None)
    begin(database, "skipped", repeat=2, skipped=True)
    begin(database, "runs", repeat=3)
    end(database, "kept", reward=0.5)
    end(database, "masked", retry=True)
    found = {m.entry.rollout_id: m for m in database.tasks.of_task("b", "t").members["t"]}
    seen = {
        name: (m.wanted, m.retry, m.skipped, m.final, m.reward) for name, m in sorted(found.items())
    }
    assert seen == {
        "kept": (4, False, False, True, 0.5),
        "masked": (None, True, False, True, None),
        "runs": (2, False, False, False, None),
        "skipped": (2, False, True, True, None),
    }


def test_what_has_an_outcome_and_no_final_verdict_is_to_be_judged(database: Database) -> None:
    for number, name in enumerate(("runs", "reported", "provisional", "final")):
        begin(database, name, repeat=number)
        if name != "runs":
            database.rollouts.report(name, "{}", now=2.0)
    end(database, "provisional", provisional=True)
    end(database, "final", reward=1.0)
    assert database.tasks.of_task("b", "t").unjudged == ["provisional", "reported"]


def test_a_task_of_a_batch_is_found_by_the_index(database: Database) -> None:
    wanted = select(rollouts.c.id).where(rollouts.c.batch == "b", rollouts.c.task == "t")
    if database.is_sqlite:
        said = str(wanted.compile(compile_kwargs={"literal_binds": True}))
        with database.connections.reading() as connection:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {said}").all()
        assert "(batch=? AND task=?)" in str(plan)  # of either index that begins so
