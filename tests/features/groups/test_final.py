"""Groups that settle, announced once by the rollout that is judged or not admitted last."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from classifier.groups import group
from proxy.features.groups.final import settled_by
from proxy.store.database import Database
from proxy.store.verdicts import final_parts
from tests.proxy.store.test_runs import ends
from tests.proxy.store.test_tasks import begin, end, seen
from tests.proxy.store.test_verdicts import verdict


def announced(database: Database, batch: str = "b") -> list[dict[str, Any]]:
    events, _ = database.events.of_batch(batch, after=0)
    return [json.loads(row["data"]) for row in events if row["kind"] == "group_settled"]


def told_of(told: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(told[name] for name in ("valid", "resample", "revision", "final"))


def test_the_last_verdict_of_a_group_announces_it_once(database: Database) -> None:
    begin(database, "r0", repeat=0)
    end(database, "r0", reward=1.0)
    assert announced(database) == []  # the second repeat is not even registered
    begin(database, "r1", repeat=1)
    end(database, "r1", provisional=True)
    assert announced(database) == []
    end(database, "r1", retry=True)
    told = {"task": "t", "wanted": 2, "valid": 1, "resample": 1, "drop": False, "revision": 1,
            "final": False}  # fmt: skip
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
    assert [told_of(told) for told in announced(database)] == [(1, 1, 1, False), (2, 0, 2, True)]
    begin(database, "r0-again", repeat=0, attempt=1)  # a score was there: it changes nothing
    end(database, "r0-again", reward=0.0)
    assert len(announced(database)) == 2
    (members,) = database.tasks.page("b", after=None, limit=9).members.values()
    assert (group("t", members).revision, group("t", members).final) == (2, True)


def test_a_verdict_that_is_taken_back_settles_its_group_again(database: Database) -> None:
    for repeat in (0, 1):
        begin(database, f"r{repeat}", repeat=repeat)
        end(database, f"r{repeat}", reward=1.0)
    missed = "UPDATE verdicts SET provisional = TRUE WHERE rollout_id = 'r0'"  # a call came late
    database.change(Connection.exec_driver_sql, missed)
    end(database, "r0")
    assert [told_of(told) for told in announced(database)] == [(2, 0, 1, True), (1, 0, 2, True)]


def test_a_group_of_unknown_size_announces_nothing(database: Database) -> None:
    begin(database, "unsaid", repeats=None)
    begin(database, "untasked", task=None)
    begin(database, "unbatched", batch=None)
    for name, batch in (("unsaid", "b"), ("untasked", "b"), ("unbatched", None)):
        end(database, name, reward=1.0, batch=batch)
    assert announced(database) == []
    (members,) = database.tasks.page("b", after=None, limit=9).members.values()
    assert group("t", members).settled


def test_a_rollout_that_is_not_admitted_may_be_the_last_one(database: Database) -> None:
    begin(database, "r0", repeat=0)
    end(database, "r0", reward=1.0)
    begin(database, "r1", repeat=1, skipped=True)
    assert announced(database) == [
        {"task": "t", "wanted": 2, "valid": 1, "resample": 0, "drop": True, "revision": 1,
         "final": True}
    ]  # fmt: skip
    (members,) = database.tasks.page("b", after=None, limit=9).members.values()
    assert group("t", members).revision == 1


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


def test_the_group_that_a_verdict_settles_is_known_before_it_is_stored(database: Database) -> None:
    for repeat in (0, 1):
        begin(database, f"r{repeat}", repeat=repeat)
    first, last = (
        verdict(f"r{repeat}", scoreable="yes", reward=float(repeat)) for repeat in (0, 1)
    )
    assert database.read(settled_by, last) is None
    database.verdicts.store(first, final_parts(None))
    foreseen = database.read(settled_by, last)
    assert foreseen is not None
    assert (foreseen.settled, sum(foreseen.valid)) == (True, 2)
    assert (foreseen.revision, foreseen.final) == (1, True)
    database.verdicts.store(last, final_parts(None))
    assert database.read(settled_by, last) == replace(foreseen, revision=2)


def test_what_has_no_outcome_when_its_batch_is_over_is_given_up(database: Database) -> None:
    begin(database, "killed", repeat=0, attempt=0)
    begin(database, "again", repeat=0, attempt=1)
    end(database, "again", reward=1.0)
    begin(database, "failed", repeat=0, task="u")
    end(database, "failed", retry=True)
    assert seen(database) == {"t": (False, False, 0), "u": (False, False, 0)}
    database.runs.end("b", None, now=2.0)
    assert seen(database) == {"t": (True, True, 1), "u": (True, True, 1)}
    (again,) = (m for m in database.tasks.of_task("b", "t").members["t"] if m.entry.reward)
    assert again.entry.rollout_id == "again"
    database.rollouts.report("killed", "{}", now=3.0)
    assert not database.runs.ended("b"), "it came after all"
    end(database, "killed", reward=0.0)
    assert (seen(database)["t"], ends(database)) == ((True, True, 2), 2)
    assert [told_of(told) for told in announced(database)] == [(1, 0, 2, True)]


def test_an_outcome_that_came_before_its_batch_was_over_settles_its_group_once(
    database: Database,
) -> None:
    for repeat in (0, 1):
        begin(database, f"r{repeat}", repeat=repeat)
    end(database, "r0", reward=1.0)
    database.rollouts.report("r1", "{}", now=2.0)
    database.runs.end("b", None, now=3.0)
    assert seen(database) == {"t": (False, False, 0)}, "its verdict is waited for"
    end(database, "r1", reward=0.0)
    assert (seen(database), ends(database)) == ({"t": (True, True, 1)}, 1)
    assert [told_of(told) for told in announced(database)] == [(2, 0, 1, True)]
