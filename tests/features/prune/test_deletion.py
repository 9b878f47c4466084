from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import create_engine, func, select

from classifier.records import Ending, Exchange, Timing
from proxy.features.budgets.tables import BATCH, ROLLOUT, budgets
from proxy.features.prune import deletion
from proxy.features.prune.deletion import Pruned
from proxy.store import sqlite
from proxy.store.batch_versions import batch_version
from proxy.store.database import Database
from proxy.store.tables import (
    CommitBatch,
    Registration,
    events,
    exchanges,
    rollouts,
    verdicts,
)
from tests import postgres
from tests.proxy.api.test_routes import empty
from tests.proxy.store.records import BARE, FULL
from truezero.cli import app

# --- What is old goes with all it left behind; what lives stays whole, on both databases ----------

DAY = 86_400.0
NOW = datetime(2026, 11, 20, tzinfo=UTC).timestamp()
OLD = NOW - 100 * DAY  # in August
LIMIT = NOW - 80 * DAY  # 1 September


@pytest.fixture(scope="module")
def kept_url(postgres_server: postgres.Server) -> Iterator[str]:
    """One database for all tests that leave its months alone: making one costs 0.2 s of CPU."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """Return an empty database."""
    if request.param == "postgresql":
        url = str(request.getfixturevalue("kept_url"))
        empty(url, but=())
    else:
        url = str(tmp_path / "t.db")
    opened = opened_since_long(url)
    yield opened
    opened.close()


def opened_since_long(url: str) -> Database:
    """With the months that a service which ran all the time would have made."""
    opened = Database(url)
    opened.prepare()
    for at in (OLD, LIMIT, NOW):
        opened.heartbeat("w", host="here", now=at)
    return opened


def called(database: Database, rollout: str, *at: float, **facts: Any) -> None:
    """Register a rollout and record its calls, the first at the first of these times."""
    database.rollouts.register(Registration(id=rollout, **facts), now=at[0])
    calls = [
        replace(FULL, id=f"{rollout}-{n}", rollout_id=rollout, timing=Timing(started_at=when))
        for n, when in enumerate(at)
    ]
    database.calls.write(CommitBatch(recorded=calls), worker="w")


def judged(database: Database, rollout: str, batch: str | None, at: float) -> None:
    named = {"rollout_id": rollout, "batch": batch, "health": "healthy", "scoreable": "yes"}
    given = {"provisional": False, "given_at": at, "verdict": "{}", "fingerprint": None}
    database.verdicts.store({**named, **given, "subcategory": None})


def prune(database: Database, **how: Any) -> Pruned:
    return deletion.prune(database, before=LIMIT, pause=lambda _s: None, **how)


def counts(database: Database) -> dict[str, int]:
    with create_engine(database.url).connect() as connection:
        return {
            table.name: connection.scalar(select(func.count()).select_from(table)) or 0
            for table in (rollouts, exchanges, verdicts, events)
        }


def calls_of(database: Database, rollout: str) -> list[str] | None:
    found = database.rollouts.load(rollout)
    return None if found is None else [each.id for each in found[1].exchanges]


def test_what_is_old_goes_with_all_it_left_behind(database: Database) -> None:
    called(database, "old", OLD, OLD + 60)
    judged(database, "old", None, OLD + 99)
    called(database, "new", NOW)
    judged(database, "new", None, NOW)
    before = counts(database)
    done = prune(database)
    assert (done.rollouts, done.exchanges) == (1, 2)
    assert calls_of(database, "old") is None
    assert calls_of(database, "new") == ["new-0"]
    gone = {name: count - counts(database)[name] for name, count in before.items()}
    assert gone == {"rollouts": 1, "exchanges": 2, "verdicts": 1, "events": 3}
    assert prune(database) == replace(done, rollouts=0, exchanges=0, events=0, partitions=())


def test_runs_go_with_their_batch_unless_it_is_about_to_start(database: Database) -> None:
    called(database, "old", OLD, batch="old")
    called(database, "new", NOW, batch="new")
    for batch, at in (("old", OLD), ("new", OLD), ("next", NOW)):
        database.runs.begin(batch, "night", now=at)
    prune(database)
    assert [database.runs.any_of(batch) for batch in ("old", "new", "next")] == [
        False, True, True,
    ]  # fmt: skip


def test_a_rollout_that_is_still_called_stays_whole(database: Database) -> None:
    called(database, "long", OLD, NOW)
    called(database, "old", OLD)
    assert prune(database).rollouts == 1
    assert calls_of(database, "long") == ["long-0", "long-1"]
    assert counts(database)["exchanges"] == 2


def test_a_rollout_whose_call_is_in_flight_stays(database: Database) -> None:
    called(database, "waits", OLD)
    open_call = replace(BARE, id="open", rollout_id="waits", timing=Timing(started_at=OLD + 1))
    database.calls.write(CommitBatch(opened=[open_call]), worker="w")
    assert prune(database).rollouts == 0
    assert calls_of(database, "waits") == ["waits-0", "open"]


def bind(database: Database, *bound: tuple[str, str]) -> None:
    """Give batches and rollouts a limit."""
    rows = [{"kind": kind, "name": name} for kind, name in bound]
    with create_engine(database.url).begin() as connection:
        connection.execute(budgets.insert(), rows)


def bound(database: Database) -> set[tuple[str, str]]:
    with create_engine(database.url).connect() as connection:
        found = connection.execute(select(budgets.c.kind, budgets.c.name))
        return {(kind, name) for kind, name in found}


def test_limits_go_with_the_rollout_or_the_batch_that_they_bind(database: Database) -> None:
    called(database, "old", OLD, batch="old batch")
    called(database, "alone", OLD)
    called(database, "young", NOW, batch="new")
    old = {(BATCH, "old batch"), (ROLLOUT, "old"), (ROLLOUT, "alone")}
    others = {(BATCH, "new"), (ROLLOUT, "young"), (BATCH, "alone"), (ROLLOUT, "old batch")}
    bind(database, *old, *others)
    prune(database)
    assert bound(database) == others


def test_a_rollout_that_is_called_just_before_it_would_go_stays(database: Database) -> None:
    for name in ("back", "old"):
        called(database, name, OLD, batch="b")
        judged(database, name, "b", OLD)
    bind(database, (BATCH, "b"), (ROLLOUT, "back"), (ROLLOUT, "old"))
    late = replace(FULL, id="late", rollout_id="back", timing=Timing(started_at=NOW))
    versions = []

    def comes_back(_done: Pruned) -> None:
        if calls_of(database, "back") == ["back-0"]:
            database.calls.write(CommitBatch(recorded=[late]), worker="w")
            versions.append(database.read(batch_version, "b"))

    prune(database, progress=comes_back)
    assert (calls_of(database, "back"), calls_of(database, "old")) == (["back-0", "late"], None)
    assert counts(database)["verdicts"] == 1
    assert bound(database) == {(BATCH, "b"), (ROLLOUT, "back")}
    assert database.read(batch_version, "b") not in versions, "it is counted anew"


@pytest.mark.parametrize("why", ["announced", "called", "reported"])
def test_a_batch_of_which_one_rollout_is_younger_stays_whole(database: Database, why: str) -> None:
    called(database, "first", OLD, batch="b")
    called(database, "second", *((OLD, NOW) if why == "called" else (OLD,)), batch="b")
    if why == "reported":
        database.rollouts.report("second", "{}", now=NOW)
    if why == "announced":
        called(database, "third", NOW, batch="b")
    assert prune(database).rollouts == 0
    assert calls_of(database, "first") == ["first-0"]


def test_a_trial_run_says_the_same_and_changes_nothing(database: Database) -> None:
    called(database, "old", OLD, OLD + 60, batch="b")
    before = counts(database)
    trial = prune(database, dry_run=True)
    assert counts(database) == before
    done = prune(database)
    assert (trial.rollouts, trial.exchanges, trial.events) == (1, 2, 2)
    assert (done.rollouts, done.exchanges, done.events) == (1, 2, 2)
    assert trial.partitions == done.partitions


def test_it_goes_on_where_it_was_interrupted(database: Database) -> None:
    for number in range(3):
        called(database, f"old-{number}", OLD + number)

    def die(_done: Pruned) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prune(database, progress=die)
    prune(database)
    assert counts(database) == dict.fromkeys(counts(database), 0)


def test_months_are_dropped_whole_and_what_lives_in_them_moves(postgres_url: str) -> None:
    database = opened_since_long(postgres_url)
    called(database, "long", OLD, NOW)
    called(database, "old", OLD)
    done = deletion.prune(database, before=NOW - 70 * DAY, pause=lambda _s: None)
    assert done.partitions == ("exchanges_2026_08",)
    assert done.before == LIMIT, "the month that the time stands in is kept whole"
    assert calls_of(database, "long") == ["long-0", "long-1"]
    with create_engine(database.url).connect() as connection:
        left = connection.exec_driver_sql("SELECT id FROM exchanges_else").scalars().all()
    assert left == ["long-0"]
    database.close()


def test_a_rollout_that_comes_back_is_written_anew(database: Database) -> None:
    called(database, "old", OLD)
    prune(database)
    database.heartbeat("w", host="here", now=NOW + 3601)
    again = replace(FULL, id="again", rollout_id="old", timing=Timing(started_at=NOW + 3602))
    database.calls.write(CommitBatch(recorded=[again]), worker="w")
    assert calls_of(database, "old") == ["again"]


def test_services_write_meanwhile(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every commit of the recorder's gets through while calls are forgotten, slice by slice.

    A busy machine may hold SQLite's lock for longer than the half second that a recorder waits
    before it tries again.
    """
    monkeypatch.setattr(sqlite, "_RECORDING_BUSY_S", 60.0)
    monkeypatch.setattr(deletion, "_SLICE", 100)
    for number in range(3):
        calls = [
            replace(
                FULL, id=f"{number}-{n}", rollout_id=f"old-{number}",
                timing=Timing(started_at=OLD + n), cause=None,
            )
            for n in range(60)
        ]  # fmt: skip
        database.calls.write(CommitBatch(recorded=calls), worker="w")
    written = 0
    pruner = threading.Thread(target=deletion.prune, args=(database,), kwargs={"before": LIMIT})
    pruner.start()
    writer = Database(database.url)
    while pruner.is_alive() or written == 0:
        call = Exchange(
            id=f"now-{written}", rollout_id="now", upstream="u", api="a",
            timing=Timing(started_at=NOW), ending=Ending.COMPLETE,
        )  # fmt: skip
        writer.calls.write(CommitBatch(recorded=[call]), worker="other")
        written += 1
    pruner.join()
    writer.close()
    assert counts(database) == {"rollouts": 1, "exchanges": written, "verdicts": 0, "events": 0}


def command(url: str, *options: str) -> Result:
    """Run `truezero prune`, without the variable that it sets for its processes."""
    alone = CliRunner(env={"TRUEZERO_DATABASE_URL": url})
    return alone.invoke(app, ["prune", "--database", url, *options])


def test_the_command_says_what_went(database: Database) -> None:
    now = time.time()
    called(database, "old", now - 100 * DAY)
    called(database, "new", now)
    trial = command(database.url, "--older-than", "60d", "--dry-run")
    assert trial.exit_code == 0, trial.stderr
    assert "would delete 1 rollout, 1 exchange, 1 event" in trial.stderr
    done = command(database.url, "--older-than", "60d")
    assert "deleted 1 rollout, 1 exchange, 1 event" in done.stderr
    assert calls_of(database, "old") is None
    assert calls_of(database, "new") == ["new-0"]


@pytest.mark.parametrize("span", ["0d", "90", "-3d", "1h", "soon"])
def test_a_span_that_is_none_is_refused_in_words(span: str) -> None:
    done = command("t.db", f"--older-than={span}")
    assert done.exit_code == 1
    assert "is not a number of days or weeks" in done.stderr
