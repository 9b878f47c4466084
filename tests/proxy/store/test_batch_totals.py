from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, func, select

from classifier import codec
from classifier.batch_summary import declared_in, exclusion_in, summary_of
from classifier.breakers import Admission
from classifier.records import Ending, Kind, Timing
from classifier.reruns import NEVER_STARTED, Rerun, RerunCounts
from classifier.rollup import CountedRollout, Counts, TaskProfile, TaskSums, sample_of
from classifier.totals import sum_known
from classifier.verdicts import Health, Policy, Retry, Subcategory, Verdict
from proxy.control.pricing import PriceTable
from proxy.control.reports import _added_up, _all
from proxy.store import batch_totals, sqlite
from proxy.store.admin import archive, maintenance
from proxy.store.admin.maintenance import prune
from proxy.store.batch_totals import Changed, RepeatKey, change_tasks, changes, task_sums, write
from proxy.store.batches import call_sums, usage_sums
from proxy.store.closings import have_judged_anew
from proxy.store.database import Database
from proxy.store.tables import (
    DERIVED,
    CommitBatch,
    Gap,
    Registration,
    Write,
    as_json,
    batch_tasks,
    call_usage,
    exchanges,
    metadata,
    open_calls,
    rollouts,
    unjudged,
    verdicts,
)
from proxy.store.verdicts import LastChange
from tests.classifier.entries_summary import summarize
from tests.proxy.store.records import BARE, FULL
from tests.proxy.store.test_verdicts import verdict
from tests.proxy.store.test_verdicts import verdict as verdict_row

# --------------------------------------------------------------------------------------------------
# What is kept of batches and calls is what a recount of their rows gives, after any history

DAY = 86_400.0
BATCHES = (None, "b", "c")
NAMES = tuple(f"r{n}" for n in range(7))
SERVINGS = (None, '[["openai","m","m",null,null]]', '[["openai","m","n",null,null]]')
PATIENCE_S = 300.0
PRICES = PriceTable({})
_ENDED = replace(BARE, ending=Ending.COMPLETE)
_PRICED = replace(
    FULL, upstream="gemini", model="gemini-2.5-pro", answered_model=None, pending=None, cause=None
)
CALLS = (
    FULL, _ENDED, _PRICED, _PRICED, replace(_PRICED, kind=Kind.OTHER), replace(_PRICED, role="x"),
    replace(_PRICED, cause=FULL.cause), replace(_PRICED, cause=FULL.cause, status=200),
)  # fmt: skip
HEALTHS = (
    Health.HEALTHY, Health.HEALTHY, Health.HEALTHY, Health.API_ERROR, Health.API_ERROR,
    Health.SUSPECTED_API_ERROR, Health.UNDECIDED, Health.NOT_JUDGED,
)  # fmt: skip
REWARDS = (None, 0.0, 0.1, 1.0, 1 / 3)


@dataclass
class History:
    """One database, and what has been done to it so far."""

    database: Database
    folder: Path
    now: float = 100 * DAY
    calls: dict[str, int] = field(default_factory=dict)

    def tick(self) -> float:
        self.now += 1
        return self.now


def register(of: History, draw: Any) -> None:
    name = draw(st.sampled_from(NAMES))
    registration = Registration(
        id=name,
        batch=draw(st.sampled_from(BATCHES)),
        task=draw(st.sampled_from((None, "t", "u"))),
        repeat=draw(st.sampled_from((None, 0, 1))),
        repeats=draw(st.sampled_from((None, 2, 4))),
        attempt=draw(st.sampled_from((None, 0, 1))),
        fallbacks=draw(st.sampled_from((None, "m\nn"))),
    )
    error = draw(st.sampled_from((None, None, "skipped: breaker open")))
    of.database.rollouts.register(
        registration, now=of.tick(), admit=lambda _states: Admission(error=error)
    )


def call(of: History, draw: Any) -> None:
    """Record calls: some for the first time, some again, some with other facts than before."""
    recorded = []
    for _ in range(draw(st.integers(1, 3))):
        name, number = draw(st.sampled_from(NAMES)), draw(st.integers(0, 2))
        like = draw(st.sampled_from(CALLS))
        usage = replace(
            like.usage,
            cost_usd=draw(st.sampled_from((None, None, 0.1, 1e-7, 3.0))),
            input_total=draw(st.sampled_from((None, 7, 40_000, 200_001, 10**12))),
        )
        timing = Timing(
            started_at=100 * DAY + number * 45, duration_s=draw(st.sampled_from((None, 0.1, 1 / 3)))
        )
        recorded.append(
            replace(like, id=f"{name}-{number}", rollout_id=name, usage=usage, timing=timing)
        )
    late = draw(st.booleans())
    of.database.calls.write(CommitBatch(recorded=recorded, late=late), worker="w")


def begin(of: History, draw: Any) -> None:
    name = draw(st.sampled_from(NAMES))
    opened = replace(BARE, id=f"{name}-open", rollout_id=name, timing=Timing(started_at=of.tick()))
    of.database.calls.write(CommitBatch(opened=[opened]), worker="other")


def lose(of: History, draw: Any) -> None:
    name = draw(st.sampled_from(NAMES))
    of.database.calls.write(CommitBatch(gaps={name: Gap(1, of.tick())}), worker="w")
    of.database.workers.retire("other")


def report(of: History, draw: Any) -> None:
    name = draw(st.sampled_from(NAMES))
    outcome = as_json({"status": "success", "rewards": {"reward": draw(st.sampled_from((0, 1)))}})
    attributes = draw(st.sampled_from(({}, {}, {"batch": "b", "task": "t", "repeat": 0})))
    of.database.rollouts.report(
        name, outcome, now=of.tick(), attributes=attributes, registers=draw(st.booleans())
    )


def close(of: History, draw: Any) -> None:
    of.database.closings.closed(draw(st.sampled_from(NAMES)), now=of.tick(), gaps=0)


def judged(of: History, draw: Any) -> None:
    name = draw(st.sampled_from(NAMES))
    loaded = of.database.rollouts.load(name)
    if loaded is None:
        return
    row = loaded[0]
    health = draw(st.sampled_from(HEALTHS))
    failed = health is not Health.HEALTHY
    cause = draw(st.sampled_from((None, "v1:quota", "v1:quota", "v1:other"))) if failed else None
    verdict = Verdict(
        rollout_id=name,
        batch=row["batch"],
        health=health,
        rule="all_failed" if failed else "healthy",
        policy="evidence",
        subcategory=Subcategory.QUOTA if failed else None,
        fingerprint="quota:429" if failed else None,
        cause=cause,
        transient=draw(st.booleans()) if failed else None,
        lane=draw(st.sampled_from(("openai/m/key-1", "openai/n/key-1"))),
        scoreable="no" if failed else draw(st.sampled_from(("yes", "yes", "unknown"))),
        provisional=draw(st.booleans()),
        retry=Retry(eligible=failed and draw(st.booleans()), after_s=None, reason="it says"),
    )
    tokens, cost = draw(st.sampled_from((None, 5))), draw(st.sampled_from((None, 0.1, 7.0)))
    ended = sum(x.ending is not None for x in loaded[1].exchanges)
    of.database.verdicts.store(
        dict.fromkeys(verdicts.columns.keys())
        | {
            "rollout_id": name, "batch": verdict.batch, "health": health.value,
            "subcategory": verdict.subcategory and verdict.subcategory.value,
            "fingerprint": verdict.fingerprint, "lane": verdict.lane, "cause": cause,
            "provisional": verdict.provisional, "scoreable": verdict.scoreable,
            "reward": None if failed else draw(st.sampled_from(REWARDS)),
            "input_tokens": tokens, "cost_usd": cost, "given_at": of.tick(), "calls": ended,
            "servings": draw(st.sampled_from(SERVINGS)),
            "validity": draw(st.sampled_from((None, None, " suspect a b ", " invalid a "))),
            "verdict": as_json(codec.encode_verdict(verdict)),
        },
        known=LastChange(row["change"]) if draw(st.booleans()) else None,
    )  # fmt: skip


def imported(of: History, draw: Any) -> None:
    """Take an archive of one batch into another database, and all of that into this one."""
    other = str(of.folder / "other.db")
    with archive.export_records(of.database.url) as records:
        archive.import_records(other, list(records))
    if draw(st.booleans()):
        ids = [name for name in NAMES if draw(st.booleans())]
        of.database.change(_delete, ids)
        of.database.calls.forget_rollouts()
    with archive.export_records(other) as records:
        archive.import_records(of.database.url, list(records))


def _delete(connection: Any, ids: list[str]) -> None:
    """Delete rollouts as pruning does."""
    named = connection.execute(select(rollouts.c.batch).where(rollouts.c.id.in_(ids))).scalars()
    found = {batch for batch in named if batch is not None}
    for table, column in (
        (verdicts, verdicts.c.rollout_id), (rollouts, rollouts.c.id),
        (exchanges, exchanges.c.rollout_id), (open_calls, open_calls.c.rollout_id),
    ):  # fmt: skip
        connection.execute(table.delete().where(column.in_(ids)))
    batch_totals.invalidate(connection, found)


def pruned(of: History, draw: Any) -> None:
    before = draw(st.sampled_from((of.now - 3, of.now + DAY)))
    prune(of.database, before=before, pause=lambda _s: None)
    of.database.calls.forget_rollouts()  # what it knows of is no older than an hour


def counted(of: History, draw: Any) -> None:
    if draw(st.booleans()):
        of.database.change(batch_totals.derive)
    of.database.batches.count_invalidated()


def read(of: History, _draw: Any) -> None:
    for batch in ("b", "c"):
        of.database.batches.summed(batch)


STEPS: tuple[Callable[[History, Any], None], ...] = (
    register, register, register, call, call, begin, lose, report, close, judged, judged, judged,
    judged, imported, pruned, counted, read,
)  # fmt: skip


@pytest.fixture
def history(database: Database, tmp_path: Path) -> Iterator[History]:
    yield History(database, tmp_path)


_EXAMPLES = (settings.default or settings()).max_examples
_ON_ONE = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.mark.slow
@settings(max_examples=_EXAMPLES // 12, suppress_health_check=_ON_ONE)
@given(data=st.data())
def test_it_is_what_a_recount_gives_after_many_steps(history: History, data: Any) -> None:
    """Every kind of step, in an order that hypothesis chooses; counted when all are over."""
    _begin_anew(history)
    for step in data.draw(st.permutations([*dict.fromkeys(STEPS), judged])):
        step(history, data.draw)
    _check(history.database, "all")


@pytest.mark.slow
@settings(max_examples=_EXAMPLES // 3, suppress_health_check=_ON_ONE)
@given(data=st.data())
def test_it_is_what_a_recount_gives_after_any_history(history: History, data: Any) -> None:
    _begin_anew(history)
    for _ in range(data.draw(st.integers(1, 25))):
        step = data.draw(st.sampled_from(STEPS))
        step(history, data.draw)
        _check(history.database, step.__name__)


@pytest.mark.parametrize("provisional", [False, True])
@pytest.mark.parametrize("step", [register, report])
def test_a_verdict_goes_with_its_rollout_into_a_batch(
    history: History, step: Callable[[History, Any], None], provisional: bool
) -> None:
    """An agent called before its runner registered it, and a verdict was given in between."""
    of = history
    of.database.calls.write(CommitBatch(recorded=[replace(FULL, rollout_id="r0")]), worker="w")
    of.database.verdicts.store(verdict_row("r0", batch=None, provisional=provisional), known=None)
    placed: dict[str, Any] = {"batch": "b", "task": "t", "repeat": 0}
    if step is register:
        of.database.rollouts.register(Registration(id="r0", **placed), now=of.tick())
    else:
        of.database.rollouts.report("r0", "{}", now=of.tick(), attributes=placed)
    _check(of.database, step.__name__)


def test_writers_at_once_leave_it_right(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each as a process of its own: what they add to is the same few rows."""
    for limit in ("_BUSY_S", "_RECORDING_BUSY_S"):  # however slow the machine
        monkeypatch.setattr(sqlite, limit, PATIENCE_S)
    Database(database_url).prepare()
    failed: list[BaseException] = []

    def work(worker: int) -> None:
        own = Database(database_url)
        try:
            for number in range(2):
                for name in ("r0", "r1", f"w{worker}"):
                    placed = Registration(id=name, batch="b", task="t", repeat=int(name[1:]))
                    own.rollouts.register(placed, now=float(number))
                calls = [
                    replace(FULL, id=f"{worker}-{number}-{name}", rollout_id=name)
                    for name in ("r0", "r1", f"w{worker}", f"alone{worker}")
                ]
                own.calls.write(CommitBatch(recorded=calls, late=number % 2 == 1), worker="w")
                for name, final in (("r0", False), ("r1", number == 1), (f"w{worker}", True)):
                    loaded = own.rollouts.load(name)
                    assert loaded is not None
                    own.verdicts.store(
                        verdict_row(name, provisional=not final, reward=worker / 7),
                        known=LastChange(loaded[0]["change"]),
                    )
                own.rollouts.report(f"w{worker}", "{}", now=9.0)
                own.closings.closed(f"w{worker}", now=9.0, gaps=0)
        except BaseException as error:
            failed.append(error)
        finally:
            own.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert failed == []
    database = Database(database_url)
    _check(database, "all at once")
    found = database.batches.summed("b")
    assert found is not None and found.counts["rollouts"] == 5
    counted = database.read(lambda c: c.scalar(select(func.sum(call_usage.c.calls))))
    assert counted == 3 * 2 * 4
    database.close()


def _begin_anew(of: History) -> None:
    tables = [table for table in metadata.sorted_tables if table.name not in ("server", "workers")]
    of.database.change(lambda c: [c.execute(table.delete()) for table in (*tables, *DERIVED)])
    of.database.calls.forget_rollouts()
    (of.folder / "other.db").unlink(missing_ok=True)


def _check(database: Database, after: str) -> None:
    found = database.read(maintenance.check)
    assert found.right, f"after {after}: {found}"
    database.read(_check_unjudged)
    for batch in ("b", "c"):
        _check_summary(database, batch)


def _check_unjudged(connection: Any) -> None:
    noted = set(connection.execute(select(unjudged.c.rollout_id)).scalars())
    known = {row.id: row for row in connection.execute(select(rollouts))}
    assert noted <= known.keys()
    given = {row.rollout_id: row for row in connection.execute(select(verdicts))}
    assert known.keys() - given.keys() <= noted
    for name in noted & given.keys():
        assert given[name].provisional, name


def _check_summary(database: Database, batch: str) -> None:
    """Compare with the sums that `summarize` makes of the rows, in another way."""
    marked = database.read(batch_totals.invalidated)
    if batch in marked:
        return
    summed = database.batches.summed(batch)
    addends = database.read(batch_totals.all_of, batch)
    if summed is None:
        assert addends == []
        return
    counts = summed.counts
    assert counts["rollouts"] == len(addends)
    got = summary_of(counts, summed.shapes, summed.named, exclusion_in(counts, summed.shapes))
    entries = [each.entry for each in addends if each.entry.health is not None]
    expected = summarize(entries)
    assert got.check == expected.check
    assert got.exclusion == expected.exclusion
    for name in ("health", "subcategory", "fingerprint", "pending", "input_tokens", "diagnostics",
                 "validity", "validity_checks", "calls", "summaries"):  # fmt: skip
        assert getattr(got, name) == getattr(expected, name), name
    assert got.cost_usd == pytest.approx(sum_known(entry.cost_usd for entry in entries))
    for name in type(expected.scores).__dataclass_fields__:
        value, other = getattr(got.scores, name), getattr(expected.scores, name)
        assert value == (pytest.approx(other, abs=1e-12) if isinstance(other, float) else other)
    assert len(summed.retry) == counts["retry"]
    assert set(declared_in(counts)) <= {"m", "n"}
    _check_reruns(database, batch, counts)
    _check_usage(database, batch)


def _check_usage(database: Database, batch: str) -> None:
    """Compare what calls add up to with what the calls themselves do."""
    for by in ((), ("model", "upstream", "role")):
        kept, counted = (
            _added_up(PRICES, batch, by, database.read(sums, batch, by))
            for sums in (usage_sums, call_sums)
        )
        items, others = (
            {tuple(item[name] for name in by): item for item in told["items"]}
            for told in (kept, counted)
        )
        assert items.keys() == others.keys()
        pairs = [(kept["sum"], counted["sum"]), *((items[key], others[key]) for key in items)]
        for item, other in pairs:
            assert item.keys() == other.keys()
            for name, value in item.items():
                if name in ("cost_usd", "seconds"):  # each kept to a part of 2**30 or 2**24
                    assert value == (other[name] and pytest.approx(other[name], abs=1e-5)), name
                else:
                    assert value == other[name], name


def _check_reruns(database: Database, batch: str, counts: Counts) -> None:
    """Compare with the lists of what to run again, made of the rows."""
    for policy in (Policy(repetition=2), Policy(repetition=0)):
        listed = database.read(_all, batch, policy)
        assert RerunCounts.of(counts, policy) == RerunCounts(
            running=listed["running"], kinds={kind: listed[kind]["count"] for kind in Rerun}
        )


# --- Rollouts are summed up with those that decide together what counts ---------------------------

PLACES = (
    ("a", None, 0, 0), ("b", "t", 0, 0), ("c", "t", 0, 1), ("d", "t", 1, None), ("e", "t", None, 0),
    ("f", "t", None, 1), ("g", "t", None, None), ("h", "u", 0, 0),
)  # fmt: skip


def names(attempts: list[CountedRollout] | None) -> str:
    assert attempts is not None
    return "".join(attempt.entry.rollout_id for attempt in attempts)


def test_a_unit_is_read_whole_and_alone(database: Database) -> None:
    for at, (name, task, repeat, number) in enumerate(PLACES):
        placed = Registration(id=name, batch="b", task=task, repeat=repeat, attempt=number)
        database.rollouts.register(placed, now=float(at))
    database.rollouts.register(Registration(id="other", task="t", repeat=0), now=9.0)
    wanted = {"a": "a", "b": "bc", "c": "bc", "d": "d", "e": "ef", "f": "ef", "g": "g", "h": "h"}
    attempts = database.read(batch_totals.all_of, "b")
    assert names(attempts) == "abcdefgh"
    for attempt in attempts:
        entry = attempt.entry
        unit = RepeatKey.of({"id": entry.rollout_id, **entry._asdict()})
        assert (
            names(database.read(batch_totals.attempts_of, "b", {unit})) == wanted[entry.rollout_id]
        )
        assert unit[:2] == (sample_of(entry) or (None, None))
    several = {RepeatKey("t", 0), RepeatKey(None, None, "g"), RepeatKey("u", 0)}
    assert names(database.read(batch_totals.attempts_of, "b", several)) == "bcgh"
    some = database.read(batch_totals.some_of, "b", ["f", "a", "x", "other"])
    assert sorted(some) == ["a", "f"]


def test_some_are_found_by_their_ids_however_many_are_in_the_batch(database: Database) -> None:
    def plan(connection: Connection) -> str:
        asked = batch_totals._SOME.params(ids=["a", "b"], of_batch="b")
        statement = asked.compile(connection, compile_kwargs={"literal_binds": True})
        found = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}")
        return "\n".join(row[-1] for row in found)

    if database.is_sqlite:  # PostgreSQL knows how few the ids are
        assert "rollouts_1 (id=?)" in database.read(plan)
        assert "(batch=?)" not in database.read(plan)


def test_a_unit_that_is_too_large_is_none(database: Database) -> None:
    database.rollouts.register(Registration(id="r", batch="b", task="t", repeat=0), now=1.0)
    assert database.read(batch_totals.attempts_of, "b", {RepeatKey("t", 0)}, most=0) is None
    assert names(database.read(batch_totals.attempts_of, "b", {RepeatKey("t", 0)}, most=1)) == "r"


def test_what_a_verdict_tells_is_read_and_what_is_none_tells_nothing(database: Database) -> None:
    database.rollouts.register(Registration(id="r1", batch="b", fallbacks="m"), now=1.0)
    database.verdicts.store(verdict(verdict='{"health": "of a later version"}', servings="[]"))
    (attempt,) = database.read(batch_totals.all_of, "b")
    assert (attempt.entry.diagnostics, attempt.retry) == ((), False)
    assert (attempt.servings, attempt.fallbacks, attempt.at) == ("[]", "m", 1.0)


def test_a_verdict_is_foreseen_as_it_is_read_once_it_is_stored(database: Database) -> None:
    placed = Registration(id="r1", batch="b", task="t", repeat=0, repeats=4, fallbacks="m")
    database.rollouts.register(placed, now=1.0)
    outcome = '{"status": "success", "rewards": {"reward": 0.25}}'
    database.rollouts.report("r1", outcome, now=2.0)
    lane = "openai/m/key-1"
    retry = Retry(eligible=True, after_s=None, reason="it says")
    told = codec.encode_verdict(
        Verdict(rollout_id="r1", batch="b", health=Health.API_ERROR, rule="all_failed",
                policy="evidence", transient=True, lane=lane, scoreable="no", retry=retry)
    )  # fmt: skip
    cases: tuple[dict[str, Any], ...] = (
        {"health": "undecided", "scoreable": "unknown", "provisional": True},
        {"health": "healthy", "scoreable": "yes", "reward": 1 / 3, "cost_usd": 0.1},
        {"health": "api_error", "scoreable": "no", "cause": "c", "lane": lane, "fingerprint": "f"},
        {"health": "healthy", "scoreable": "unknown", "servings": "[]", "cause": "none"},
        {"health": "healthy", "scoreable": "yes", "attributed_to": "agent", "total_tokens": 7},
    )  # fmt: skip
    for number, case in enumerate(cases):
        row = verdict(verdict=json.dumps(told), validity=" suspect a ", **case)
        with database._connections.writing() as connection:  # as after a call that was spilled
            have_judged_anew(connection, ["r1"])
        (before,) = database.read(batch_totals.all_of, "b")
        database.verdicts.store(row)
        (after,) = database.read(batch_totals.all_of, "b")
        assert batch_totals.with_verdict(before, row, outcome) == after != before, number


# --------------------------------------------------------------------------------------------------
# What a change of some rollouts writes of their batch: as few statements as there are tables


def tables(written: list[Write]) -> Counter[str]:
    """How many statements there are for each table."""
    return Counter(str(statement.table) for statement, _ in written)  # type: ignore[attr-defined]


def change(
    database: Database, before: list[CountedRollout], after: list[CountedRollout]
) -> list[Write]:
    return database.read(lambda connection: list(changes(connection, "b", before, after)))


def test_what_many_rollouts_change_is_written_together(database: Database) -> None:
    for number in range(20):
        placed = Registration(id=f"r{number}", batch="b")
        database.rollouts.register(placed, now=float(number))
        row = verdict(f"r{number}", provisional=True, servings="[]", scoreable="unknown")
        database.verdicts.store(row)
    before = database.read(batch_totals.all_of, "b")
    rows = [verdict(each.entry.rollout_id, servings="[1]") for each in before]
    after = [
        batch_totals.with_verdict(each, row, None) for each, row in zip(before, rows, strict=True)
    ]
    written = change(database, before, after)
    assert tables(written) == {"batches": 1, "batch_notes": 1, "batch_servings": 2}
    notes = next(values for statement, values in written if "batch_notes" in str(statement))
    assert len(notes) == 20
    assert change(database, before, before) == []


def test_shapes_are_added_counted_and_removed(database: Database) -> None:
    scores = {"a": 0.5, "b": 0.5, "c": 1.0}
    for name, score in scores.items():
        database.rollouts.register(Registration(id=name, batch="b"), now=1.0)
        database.verdicts.store(verdict(name, scoreable="yes", reward=score))
    before = database.read(batch_totals.all_of, "b")
    given = {"a": 0.5, "b": 1.0, "c": 0.25}
    after = [
        batch_totals.with_verdict(each, verdict(name, scoreable="yes", reward=score), None)
        for each, (name, score) in zip(before, given.items(), strict=True)
    ]
    written = [each for each in change(database, before, after) if "shapes" in str(each[0])]
    assert len(written) == 2
    (_, added), (_, changed) = written
    assert [row["tasks"] for row in added] == [1]
    assert [row["tasks"] for row in changed] == [1], "one of two left"
    gone = [
        batch_totals.with_verdict(each, verdict(each.entry.rollout_id), None) for each in before
    ]
    written = [each for each in change(database, before, gone) if "DELETE" in str(each[0])]
    assert tables(written)["batch_shapes"] == 1
    assert len(written[-1][1]) == 2


# --- Repeats of tasks as they are stored: what a change adds, and what tasks lack -----------------


def kept(connection: Connection) -> dict[str, TaskSums]:
    return {row.task: task_sums(row) for row in connection.execute(select(batch_tasks))}


def add(connection: Connection, batch: str, tasks: Mapping[str, TaskSums]) -> Changed:
    changed = change_tasks(connection, batch, tasks)
    write(connection, changed.writes)
    return changed


def wanted(*repeats: int) -> TaskSums:
    return TaskSums(wanted=Counter(map(str, repeats)))


def test_a_task_lacks_what_it_was_registered_for_and_does_not_have(database: Database) -> None:
    for asked, change in (((8,), 7), ((8, 8), -2), ((16,), 7), ((16,) * 12, -12)):
        changed = database.change(add, "b", {"t": wanted(*asked)})
        assert (dict(changed.shapes), changed.lacking[NEVER_STARTED]) == ({}, change), asked
    assert database.read(kept)["t"].lacking == 0


def test_tasks_with_nothing_left_are_deleted_and_their_shapes_are_counted(
    database: Database,
) -> None:
    one = TaskSums(repeats=1, kept=1, score=7, lanes=Counter({"openai/m": 1}))
    shape, several = TaskProfile(1, 1, 7, ("openai/m",)), {"t": one, "u": one}
    assert database.change(add, "b", several).shapes == {shape: 2}
    assert database.read(kept) == several
    both = database.change(add, "b", {"u": one}).shapes
    assert both == {shape: -1, TaskProfile(2, 2, 14, ("openai/m",)): 1}
    taken = TaskSums(repeats=-1, kept=-1, score=-7, lanes=Counter({"openai/m": -1}))
    assert database.change(add, "b", {"t": taken}).shapes == {shape: -1}
    assert database.read(kept).keys() == {"u"}
