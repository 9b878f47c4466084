"""A batch ends once all runs of it are over and its rollouts are judged."""

from __future__ import annotations

from proxy.store.database import Database
from proxy.store.tables import Registration
from tests.proxy.store.test_tasks import begin, end, seen


def ends(database: Database, batch: str = "b") -> int:
    """Count the times that those who watch were told that the batch has ended."""
    events, _ = database.events.of_batch(batch, after=0)
    return sum(row["kind"] == "batch_ended" for row in events)


def test_a_batch_has_ended_once_every_run_of_it_is_over(database: Database) -> None:
    for run in ("here", "elsewhere", "here"):
        assert database.runs.begin("b", run, now=1.0)[1] is False
    begin(database, "r0", repeat=0, repeats=1)
    end(database, "r0", reward=1.0)
    assert not database.runs.ended("b"), "between two groups nothing runs, and more come"
    runs, ended = database.runs.end("b", "here", now=2.0)
    assert (runs.open, ended, database.runs.ended("b"), ends(database)) == (1, False, False, 0)
    runs, ended = database.runs.end("b", "elsewhere", now=3.0)
    assert (runs.open, ended, database.runs.ended("b"), ends(database)) == (0, True, True, 1)
    assert database.runs.end("b", "elsewhere", now=4.0)[1] is True, "harmless to repeat"
    assert ends(database) == 1
    database.runs.begin("b", "here", now=5.0)
    assert not database.runs.ended("b"), "it was begun again"
    database.runs.end("b", None, now=6.0)
    assert (database.runs.ended("b"), ends(database)) == (True, 2)


def test_a_batch_is_declared_over_again_if_rollouts_began_since(database: Database) -> None:
    begin(database, "r0", repeat=0, repeats=None)
    for now, told in ((2.0, 1), (3.0, 1), (5.0, 2), (6.0, 2)):
        if now == 5.0:
            later = Registration(id="r1", batch="b", task="t", repeat=1)
            database.rollouts.register(later, now=4.0)
            assert not database.runs.ended("b")
        assert database.runs.end("b", None, now=now)[1] is True
        assert ends(database) == told


def test_a_batch_of_which_nobody_said_anything_goes_on(database: Database) -> None:
    begin(database, "r0", repeat=0, repeats=1)
    end(database, "r0", reward=1.0)
    assert (database.runs.ended("b"), seen(database)) == (False, {"t": (True, True, 1)})
    database.runs.end("b", None, now=9.0)
    assert database.runs.ended("b")


def test_a_batch_that_is_over_ends_with_the_verdict_on_its_last_outcome(database: Database) -> None:
    for name in ("r0", "untasked"):
        begin(database, name, repeat=0, repeats=None, task=None)
        database.rollouts.report(name, "{}", now=2.0)
    assert database.runs.end("b", None, now=3.0)[1] is False
    end(database, "r0", reward=1.0)
    assert (database.runs.ended("b"), ends(database)) == (False, 0)
    end(database, "untasked", reward=1.0)
    assert (database.runs.ended("b"), ends(database)) == (True, 1)


def test_a_rollout_that_is_begun_later_opens_its_batch_until_it_is_judged(
    database: Database,
) -> None:
    begin(database, "r0", repeat=0, repeats=1)
    end(database, "r0", retry=True)
    database.runs.end("b", None, now=1.5)
    assert seen(database) == {"t": (True, True, 1)}
    later = Registration(id="r1", batch="b", task="t", repeat=0, repeats=1, attempt=1)
    database.rollouts.register(later, now=2.0)
    assert (database.runs.ended("b"), seen(database)) == (False, {"t": (False, False, 1)})
    database.rollouts.report("r1", "{}", now=3.0)
    end(database, "r1", reward=1.0)
    assert (database.runs.ended("b"), seen(database)) == (True, {"t": (True, True, 2)})
    assert ends(database) == 2
