"""The rollouts of some tasks, as they count."""

from __future__ import annotations

from typing import Any

from proxy.features.compare import store
from proxy.store.database import Database
from proxy.store.tables import Registration
from tests.proxy.store.test_verdicts import verdict


def begin(database: Database, name: str, **facts: Any) -> None:
    database.rollouts.register(Registration(id=name, **{"batch": "b", "task": "t", **facts}), now=1)


def end(database: Database, name: str, *, reward: float | None = None, **given: Any) -> None:
    scoreable = "no" if reward is None else "yes"
    database.verdicts.store(verdict(name, scoreable=scoreable, reward=reward, **given))


def test_each_rollout_of_some_tasks_is_listed_as_it_counts(database: Database) -> None:
    begin(database, "won", repeat=0)
    end(database, "won", reward=1.0)
    begin(database, "dead", repeat=1)
    end(database, "dead", health="api_error")
    begin(database, "running", repeat=2)
    begin(database, "elsewhere", batch="other")
    begin(database, "another", task="another")
    found = {each.rollout_id: each for each in database.read(store.entries, "b", ["t"])}
    assert {name: each.score for name, each in found.items()} == {
        "won": 1.0, "dead": None, "running": None,
    }  # fmt: skip
    assert {name for name, each in found.items() if each.provisional} == {"running"}


def test_rollouts_that_name_no_task_are_counted(database: Database) -> None:
    begin(database, "named")
    begin(database, "nameless", task=None)
    begin(database, "elsewhere", task=None, batch="other")
    assert database.read(store.without_task, "b") == 1
