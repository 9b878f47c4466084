"""A batch's attempts as they count, and those that a rerun looks at."""

from __future__ import annotations

from proxy.store import attempts
from proxy.store.database import Database
from tests.proxy.store.test_groups import begin, end
from tests.proxy.store.test_verdicts import verdict


def test_each_rollout_of_a_batch_is_listed_as_it_counts(database: Database) -> None:
    begin(database, "won", repeat=0)
    end(database, "won", reward=1.0)
    begin(database, "dead", repeat=1)
    end(database, "dead", health="api_error")
    begin(database, "running", repeat=2)
    begin(database, "elsewhere", batch="other")
    found = {each.rollout_id: each for each in database.read(attempts.entries, "b")}
    assert {name: each.score for name, each in found.items()} == {
        "won": 1.0, "dead": None, "running": None,
    }  # fmt: skip
    assert {name for name, each in found.items() if each.provisional} == {"running"}


def test_a_rerun_looks_at_repeats_that_lack_a_score_and_tasks_that_lack_a_repeat(
    database: Database,
) -> None:
    for task in ("done", "failed", "short"):
        begin(database, f"{task}-0", task=task, repeat=0)
        end(database, f"{task}-0", reward=1.0)
    begin(database, "done-1", task="done", repeat=1)
    end(database, "done-1", reward=0.0)
    begin(database, "failed-1", task="failed", repeat=1)
    told = '{"transient": true, "retry": {"after_s": 2.5}, "warnings": ["w"], "rule": "all_failed"}'
    failure = verdict("failed-1", health="api_error", cause="c", verdict=told)
    database.verdicts.store(failure)
    begin(database, "failed-1-again", task="failed", repeat=1, attempt=1)
    end(database, "failed-1-again", reward=1.0)
    for name, reward in (("tried", None), ("tried-again", 1.0)):
        begin(database, name, task="tried", repeats=None)
        end(database, name, reward=reward)
    begin(database, "nameless", task=None, repeats=None)
    begin(database, "elsewhere", task="failed", batch="other")
    found = {each.entry.rollout_id: each for each in database.read(attempts.to_rerun, "b")}
    assert list(found) == [
        "failed-1", "failed-1-again", "nameless", "short-0", "tried", "tried-again",
    ]  # fmt: skip
    failed = found["failed-1"]
    assert (failed.transient, failed.after_s, failed.cause) == (True, 2.5, "c")
    assert (failed.warnings, failed.rule) == (("w",), "all_failed")
    assert found["failed-1-again"].cause is None, "a scored one's verdict is not read"
    wanted = {name: each.wanted for name, each in found.items()}
    assert wanted == {**dict.fromkeys(found), "short-0": 2}, "not all of the others are listed"
