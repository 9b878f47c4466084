"""Groups in the database: read by task, and announced once, by the rollout that settles them."""

from __future__ import annotations

import json
import threading
from typing import Any

from sqlalchemy import select

from classifier.breakers import Admission
from classifier.groups import group
from proxy.store.database import Database
from proxy.store.groups import settled_by
from proxy.store.tables import rollouts
from proxy.store.types import Registration
from tests.proxy.store.test_verdicts import verdict

REFUSED = Admission(error="skipped: the breaker is open")


def begin(database: Database, name: str, *, skipped: bool = False, **facts: Any) -> None:
    facts = {"batch": "b", "task": "t", "repeats": 2, **facts}
    refuse = (lambda _states: REFUSED) if skipped else None
    database.rollouts.register(Registration(id=name, **facts), now=1.0, admit=refuse)


def end(database: Database, name: str, *, reward: float | None = None, **given: Any) -> None:
    scoreable = "no" if reward is None else "yes"
    advice = json.dumps({"retry": {"eligible": given.pop("retry", False)}})
    row = verdict(name, scoreable=scoreable, reward=reward, verdict=advice, **given)
    database.verdicts.store(row)


def announced(database: Database, batch: str = "b") -> list[dict[str, Any]]:
    events, _ = database.events.of_batch(batch, after=0)
    return [json.loads(row["data"]) for row in events if row["kind"] == "group_settled"]


def test_the_last_verdict_of_a_group_announces_it_once(database: Database) -> None:
    begin(database, "r0", repeat=0)
    end(database, "r0", reward=1.0)
    assert announced(database) == []  # the second repeat is not even registered
    begin(database, "r1", repeat=1)
    end(database, "r1", provisional=True)
    assert announced(database) == []
    end(database, "r1", retry=True)
    told = {"task": "t", "wanted": 2, "valid": 1, "resample": 1, "drop": False}
    assert announced(database) == [told]
    end(database, "r1", retry=True)
    assert announced(database) == [told]


def test_a_group_that_is_run_again_settles_again(database: Database) -> None:
    for repeat in (0, 1):
        begin(database, f"r{repeat}", repeat=repeat, attempt=0)
    end(database, "r0", reward=1.0)
    end(database, "r1", retry=True)
    begin(database, "r1-again", repeat=1, attempt=1)
    end(database, "r1-again", reward=0.0)
    assert [(told["valid"], told["resample"]) for told in announced(database)] == [(1, 1), (2, 0)]
    begin(database, "r0-again", repeat=0, attempt=1)  # a score was there: it changes nothing
    end(database, "r0-again", reward=0.0)
    assert len(announced(database)) == 2


def test_a_group_of_unknown_size_announces_nothing(database: Database) -> None:
    begin(database, "unsaid", repeats=None)
    begin(database, "untasked", task=None)
    begin(database, "unbatched", batch=None)
    for name, batch in (("unsaid", "b"), ("untasked", "b"), ("unbatched", None)):
        end(database, name, reward=1.0, batch=batch)
    assert announced(database) == []
    (members,) = database.groups.page("b", after=None, limit=9).members.values()
    assert group("t", members).settled


def test_a_rollout_that_is_not_admitted_may_be_the_last_one(database: Database) -> None:
    begin(database, "r0", repeat=0)
    end(database, "r0", reward=1.0)
    begin(database, "r1", repeat=1, skipped=True)
    assert announced(database) == [
        {"task": "t", "wanted": 2, "valid": 1, "resample": 0, "drop": True}
    ]


def test_of_two_that_end_at_once_one_is_the_last(database: Database) -> None:
    for turn in range(8):
        names = [f"{turn}-{repeat}" for repeat in range(2)]
        for repeat, name in enumerate(names):
            begin(database, name, repeat=repeat, task=f"t{turn}")
        threads = [
            threading.Thread(target=end, args=(database, name), kwargs={"reward": 1.0})
            for name in names
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(told["task"] for told in announced(database)) == [f"t{n}" for n in range(8)]


def test_pages_go_by_task_and_hold_every_attempt(database: Database) -> None:
    for task in ("b", "a", "c"):
        for attempt in (0, 1):
            begin(database, f"{task}{attempt}", task=task, repeat=0, attempt=attempt)
    begin(database, "elsewhere", batch="other", task="aa")
    begin(database, "untasked", task=None)
    first = database.groups.page("b", after=None, limit=2)
    assert {task: [m.entry.rollout_id for m in found] for task, found in first.members.items()} == {
        "a": ["a0", "a1"], "b": ["b0", "b1"],
    }  # fmt: skip
    assert list(first.members) == ["a", "b"]
    assert list(database.groups.page("b", after="b", limit=2).members) == ["c"]
    assert list(database.groups.of_task("b", "c").members) == ["c"]
    assert database.groups.of_task("b", "none") == ({}, [])


def test_a_member_knows_what_its_group_needs(database: Database) -> None:
    begin(database, "kept", repeat=0, repeats=4)
    begin(database, "masked", repeat=1, repeats=None)
    begin(database, "skipped", repeat=2, skipped=True)
    begin(database, "runs", repeat=3)
    end(database, "kept", reward=0.5)
    end(database, "masked", retry=True)
    found = {m.entry.rollout_id: m for m in database.groups.of_task("b", "t").members["t"]}
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
    assert database.groups.of_task("b", "t").unjudged == ["provisional", "reported"]


def test_a_task_of_a_batch_is_found_by_the_index(database: Database) -> None:
    wanted = select(rollouts.c.id).where(rollouts.c.batch == "b", rollouts.c.task == "t")
    if database.is_sqlite:
        said = str(wanted.compile(compile_kwargs={"literal_binds": True}))
        with database._connections.reading() as connection:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {said}").all()
        assert "INDEX rollouts_group (batch=? AND task=?)" in str(plan)


def test_the_group_that_a_verdict_settles_is_known_before_it_is_stored(database: Database) -> None:
    for repeat in (0, 1):
        begin(database, f"r{repeat}", repeat=repeat)
    first, last = (
        verdict(f"r{repeat}", scoreable="yes", reward=float(repeat)) for repeat in (0, 1)
    )
    assert database.read(settled_by, last) is None
    database.verdicts.store(first)
    foreseen = database.read(settled_by, last)
    assert foreseen is not None
    assert (foreseen.settled, sum(foreseen.valid)) == (True, 2)
    database.verdicts.store(last)
    assert database.read(settled_by, last) == foreseen
