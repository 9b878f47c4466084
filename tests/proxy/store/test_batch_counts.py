from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, func, select, text

from classifier import codec
from classifier.batch_parts import BatchParts
from classifier.batch_summary import declared_in, exclusion_in, summary_of
from classifier.batches import Entry, RewardSpan, task_repeats
from classifier.figures import FIGURES, CountedBatch, Query
from classifier.records import Ending, Kind, Timing
from classifier.repeat_counts import (
    UNIT,
    CountedRollout,
    NoteKind,
    PartialTotals,
    kind_of,
    part_of,
)
from classifier.reruns import NEVER_STARTED, Rerun, RerunCounts
from classifier.totals import sum_known
from classifier.verdicts import Health, Retry, Subcategory, Verdict
from classifier.whole_batch import whole_batch
from proxy.control.pricing import PriceTable
from proxy.control.reports import _added_up
from proxy.features.exports import archive
from proxy.features.prune.deletion import prune
from proxy.store import listing, sqlite, triggers
from proxy.store.batch_counts import (
    SummedBatch,
    all_of,
    forget_kinds,
    store_next_kinds,
    sum_up,
    task_totals,
)
from proxy.store.batch_versions import batch_version, note_changed
from proxy.store.batches import call_sums, usage_sums
from proxy.store.closings import have_judged_anew
from proxy.store.database import Database
from proxy.store.listing import RolloutQuery
from proxy.store.tables import (
    DERIVED,
    CommitBatch,
    Gap,
    PolicyTerms,
    Registration,
    as_json,
    call_usage,
    exchanges,
    metadata,
    open_calls,
    rollouts,
    unjudged,
    verdicts,
)
from tests.proxy.store.records import BARE, FULL, loaded, skip, summed_up, write
from tests.proxy.store.test_verdicts import verdict
from tests.proxy.store.test_verdicts import verdict as verdict_row

# --------------------------------------------------------------------------------------------------
# A batch counts what all its rows give, made in Python, after any history; so do calls

DAY = 86_400.0
BATCHES = (None, "b", "b", "b", "b", "c")
NAMES = tuple(f"r{n}" for n in range(9))
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
REPORTED = ({"reward": 0}, {"reward": 1}, {"a": 0, "b": 1}, {"a": 0.5, "b": 2}, {"b": -1}, None)


@dataclass
class History:
    """One database, and what has been done to it so far."""

    database: Database
    folder: Path
    now: float = 100 * DAY

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
    terms = PolicyTerms(stated=draw(st.sampled_from(({}, {}, {"score_key": "a"}))))
    registered = of.database.rollouts.register(registration, now=of.tick(), policy=terms)
    refused = registered.conflict or registered.differing
    if draw(st.sampled_from((False, False, True))) and registration.batch and not refused:
        skip(of.database, registration, now=of.tick())


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
    write(of.database, *recorded, late=late)


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
    rewards = draw(st.sampled_from(REPORTED))
    outcome = as_json({"status": "success", "rewards": rewards})
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
        known=row if draw(st.booleans()) else None,
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
    note_changed(connection, found)


def pruned(of: History, draw: Any) -> None:
    before = draw(st.sampled_from((of.now - 3, of.now + DAY)))
    prune(of.database, before=before, pause=lambda _s: None)
    of.database.calls.forget_rollouts()  # what it knows of is no older than an hour


def counted(of: History, draw: Any) -> None:
    """Leave verdicts without a kind, as those that another version changes; some get one again."""
    ids = [name for name in NAMES if draw(st.booleans())]
    of.database.change(forget_kinds, ids)
    if draw(st.booleans()):
        of.database.change(store_next_kinds, "")


STEPS: tuple[Callable[[History, Any], None], ...] = (
    register, register, register, call, call, begin, lose, report, close, judged, judged, judged,
    judged, imported, pruned, counted,
)  # fmt: skip


@pytest.fixture
def history(database: Database, tmp_path: Path) -> Iterator[History]:
    yield History(database, tmp_path)


_EXAMPLES = (settings.default or settings()).max_examples
_ON_ONE = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def populate(of: History, draw: Any) -> None:
    """Begin with rollouts that have verdicts, most of them in one batch."""
    begin_anew(of)
    for step in (*[register] * 12, *[judged] * 10):
        step(of, draw)


@settings(max_examples=3, suppress_health_check=_ON_ONE)
@given(data=st.data())
def test_it_is_what_all_rows_give_after_many_steps(history: History, data: Any) -> None:
    """Every kind of step, in an order that hypothesis chooses; counted when all are over."""
    populate(history, data.draw)
    check(history.database, "registrations and verdicts")
    for step in data.draw(st.permutations([*dict.fromkeys(STEPS), judged])):
        step(history, data.draw)
    check(history.database, "all")


@pytest.mark.slow
@settings(max_examples=_EXAMPLES // 3, suppress_health_check=_ON_ONE)
@given(data=st.data())
def test_it_is_what_all_rows_give_after_any_history(history: History, data: Any) -> None:
    populate(history, data.draw)
    for _ in range(data.draw(st.integers(1, 5))):
        for _ in range(3):
            step = data.draw(st.sampled_from(STEPS))
            step(history, data.draw)
        check(history.database, step.__name__)


@pytest.mark.parametrize("provisional", [False, True])
@pytest.mark.parametrize("step", [register, report])
def test_a_verdict_goes_with_its_rollout_into_a_batch(
    history: History, step: Callable[[History, Any], None], provisional: bool
) -> None:
    """An agent called before its runner registered it, and a verdict was given in between."""
    of = history
    write(of.database, replace(FULL, rollout_id="r0"))
    of.database.verdicts.store(verdict_row("r0", batch=None, provisional=provisional), known=None)
    placed: dict[str, Any] = {"batch": "b", "task": "t", "repeat": 0}
    if step is register:
        of.database.rollouts.register(Registration(id="r0", **placed), now=of.tick())
    else:
        of.database.rollouts.report("r0", "{}", now=of.tick(), attributes=placed)
    check(of.database, step.__name__)


def test_what_changes_beside_judging_is_counted_as_it_is_then(history: History) -> None:
    """A verdict loses its kind where its rollout changes; one that counted alike stays."""
    batch = history.database

    def admitted(name: str) -> Registration:
        placed = Registration(id=name, batch="b", task=name, repeat=0)
        batch.rollouts.register(placed, now=1.0)
        return placed

    def counts(*names: str) -> list[int]:
        found = summed_up(batch)
        return [found.counts[name] for name in names]

    for name in ("r0", "r1"):
        skip(batch, admitted(name))
        batch.verdicts.store(verdict_row(name, health="not_judged", scoreable="no"))
    assert counts("skipped", "standing:skipped:0") == [2, 2]
    admitted("r1")
    assert counts("skipped", "standing:skipped:0") == [1, 1]
    for name in ("r2", "r3"):
        admitted(name)
        batch.verdicts.store(verdict_row(name, health="not_judged", scoreable="no"))
    batch.rollouts.report("r3", '{"rewards": {"reward": 0}}', now=2.0)
    assert counts("reported_zeros", "pending") == [1, 0]
    for name in ("r4", "r5"):
        admitted(name)
        batch.verdicts.store(verdict_row(name, health="healthy", scoreable="yes", reward=1.0))
    with batch.connections.writing() as connection:  # as after a call that was spilled
        have_judged_anew(connection, ["r5"])
    assert counts("scored", "pending") == [2, 1]
    for name in ("r6", "r7"):
        write(batch, replace(FULL, rollout_id=name))
        batch.verdicts.store(verdict_row(name, batch=None, health="healthy", scoreable="no"))
    admitted("r6")
    placed = Registration(id="r7", batch="b", fallbacks="m")
    batch.rollouts.register(placed, now=1.0)
    assert counts("declared:m", "excluded") == [1, 5]
    check(batch, "all")


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
                write(own, *calls, late=number % 2 == 1)
                for name, final in (("r0", False), ("r1", number == 1), (f"w{worker}", True)):
                    own.verdicts.store(
                        verdict_row(name, provisional=not final, reward=worker / 7),
                        known=loaded(own, name)[0],
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
    check(database, "all at once")
    assert summed_up(database).counts["rollouts"] == 5
    counted = database.read(lambda c: c.scalar(select(func.sum(call_usage.c.calls))))
    assert counted == 3 * 2 * 4
    database.close()


def begin_anew(of: History) -> None:
    tables = [table for table in metadata.sorted_tables if table.name not in ("server", "workers")]
    of.database.change(lambda c: [c.execute(table.delete()) for table in (*tables, *DERIVED)])
    of.database.calls.forget_rollouts()
    (of.folder / "other.db").unlink(missing_ok=True)


def check(database: Database, after: str) -> None:
    """Compare what a batch counts with the same counts made in Python of all its rows."""
    database.read(check_calls)
    database.read(_check_unjudged)
    for batch in ("b", "c"):
        summed, (rows, expected) = database.read(sum_up, batch), database.read(_of_all_rows, batch)
        assert (summed is None) == (not rows), (after, batch)
        version = database.read(batch_version, batch)
        assert (version is None) == (not rows), (after, batch)
        if summed is not None:
            assert summed.counts == expected.counts, (after, batch)
            _check_named(summed, expected)
            _check_tasks(database, batch, summed, expected)
            _check_summary(database, batch, summed, rows)
            _check_lists(database, batch, summed)


def _check_lists(database: Database, batch: str, summed: SummedBatch) -> None:
    """Compare each figure with the number of rollouts in the list that it leads to."""
    exclusion = exclusion_in(summed.counts, summed.shapes)
    summary = summary_of(summed.counts, summed.shapes, summed.named, exclusion)
    counted = CountedBatch(counts=summed.counts, summary=summary, rewards=RewardSpan())
    for figure in FIGURES.values():
        value = figure.value(counted)
        parts = value if isinstance(value, dict) else {None: value}
        for part, number in parts.items():
            if (query := figure.query(part)) is not None:
                listed = _listed(database, batch, query)
                assert len(listed) == len(set(listed)) == number, (figure.name, part, listed)


def _listed(database: Database, batch: str, query: Query) -> list[str]:
    flags = {name: value == "true" for name, value in query if name in listing.FLAGS}
    chosen = {name: value.split(",") for name, value in query if name not in listing.FLAGS}
    asked = RolloutQuery(filters={"batch": [batch], **chosen}, flags=flags)
    return [row["id"] for row in database.read(listing.page, asked, limit=1000)]


def _of_all_rows(connection: Connection, batch: str) -> tuple[list[CountedRollout], PartialTotals]:
    rows = all_of(connection, batch)
    part = part_of(rows)
    if lacking := sum(max(0, most - len(begun)) for begun, most in _planned(connection, batch)):
        part.counts[NEVER_STARTED] = lacking
    return rows, part


def _planned(connection: Connection, batch: str) -> list[tuple[set[int], int]]:
    """Return which repeats each task has, of how many, as far as registrations say so."""
    begun: dict[str, tuple[set[int], list[int]]] = {}
    for row in connection.execute(select(rollouts).where(rollouts.c.batch == batch)):
        if row.task is not None and None not in (row.repeat, row.repeats):
            repeats, wanted = begun.setdefault(row.task, (set(), []))
            repeats.add(row.repeat)
            wanted.append(row.repeats)
    return [(repeats, max(wanted)) for repeats, wanted in begun.values()]


def _check_named(summed: SummedBatch, expected: PartialTotals) -> None:
    notes = sorted(expected.notes, key=lambda note: (note.at, note.rollout_id))
    again = [note.rollout_id for note in notes if note.kind is NoteKind.RETRY]
    assert [item["rollout_id"] for item in summed.retry] == again
    served = {each.servings: each for each in summed.served}
    assert served.keys() == expected.served.keys()
    for way, ids in expected.served.items():
        assert served[way].rollouts == len(ids)
        assert set(served[way].examples) <= ids
        assert len(served) == 1 or set(served[way].examples) == ids


def _check_tasks(
    database: Database, batch: str, summed: SummedBatch, expected: PartialTotals
) -> None:
    shapes = Counter(task.shape for task in expected.tasks.values() if task.repeats)
    assert summed.shapes == expected.single + shapes
    of_tasks = {total.task: total for total in database.read(task_totals, batch)}
    assert of_tasks.keys() >= expected.tasks.keys()
    for name, task in expected.tasks.items():
        assert of_tasks[name].measured == task.kept
        assert of_tasks[name].score == (task.score / UNIT / task.kept if task.kept else None)
        assert of_tasks[name].repeats >= task.repeats


def check_calls(connection: Connection) -> None:
    """Compare what calls add up to with a recount of them."""
    keys, sums = ", ".join(("batch", *triggers.KEYS)), [f"sum({name})" for name in triggers.SUMS]
    stored = (
        f"SELECT {keys}, 0, {', '.join(sums)} FROM call_usage GROUP BY {keys}"
        f" HAVING {' OR '.join(f'{each} <> 0' for each in sums)}"
    )
    kept, counted = (
        sorted((tuple(row) for row in connection.execute(text(query))), key=repr)
        for query in (stored, triggers.usage_query(connection.dialect.name))
    )
    assert [tuple(map(_plain, row)) for row in kept] == [tuple(map(_plain, r)) for r in counted]


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, int | Decimal) else value


def _check_unjudged(connection: Any) -> None:
    noted = set(connection.execute(select(unjudged.c.rollout_id)).scalars())
    known = {row.id: row for row in connection.execute(select(rollouts))}
    assert noted <= known.keys()
    given = {row.rollout_id: row for row in connection.execute(select(verdicts))}
    assert known.keys() - given.keys() <= noted
    for name in noted & given.keys():
        assert given[name].provisional, name


def _check_summary(
    database: Database, batch: str, summed: SummedBatch, addends: list[CountedRollout]
) -> None:
    """Compare with the summary of the rollouts, counted one by one."""
    counts = summed.counts
    assert counts["rollouts"] == len(addends)
    excluded = exclusion_in(counts, summed.shapes)
    # With a key registered, rewards under others are no reason to have no score.
    got = summary_of(counts, summed.shapes, summed.named, excluded, score_key="a")
    entries = [each.entry for each in addends if each.entry.health is not None]
    _check_parts(database, batch, got.parts, [each.entry for each in addends])
    whole = whole_batch(addends)
    whole.counts[NEVER_STARTED] = counts[NEVER_STARTED]
    others = exclusion_in(whole.counts, whole.shapes)
    expected = summary_of(whole.counts, whole.shapes, whole.named, others, score_key="a")
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
    _check_usage(database, batch)


def _check_parts(database: Database, batch: str, parts: BatchParts, entries: list[Entry]) -> None:
    """Each planned repeat is in one part: those begun, by their attempts, and the others."""
    slots = task_repeats(entries)
    lacking = database.read(
        lambda read: sum(max(0, most - len(begun)) for begun, most in _planned(read, batch))
    )
    assert parts.never_started == lacking
    assert parts.planned == len(slots) + lacking
    assert parts.counted == sum(any(each.score is not None for each in s.attempts) for s in slots)
    found = summed_up(database, batch)
    again = RerunCounts.of(found.counts)
    apart = sum(parts.not_measured.values()) + sum(parts.not_scored.values())
    assert (parts.running, parts.skipped) == (again.running, again.kinds[Rerun.SKIPPED])
    assert apart == sum(again.kinds.values()) - parts.skipped - lacking


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


# --- What counts alike is stored with the verdict, and known as it is read -----------------------


def test_what_a_verdict_tells_is_read_and_what_is_none_tells_nothing(database: Database) -> None:
    database.rollouts.register(Registration(id="r1", batch="b", fallbacks="m"), now=1.0)
    database.verdicts.store(verdict(verdict='{"health": "of a later version"}', servings="[]"))
    (attempt,) = database.read(all_of, "b")
    assert (attempt.entry.diagnostics, attempt.retry) == ((), False)
    assert (attempt.servings, attempt.fallbacks, attempt.at) == ("[]", "m", 1.0)


def test_a_verdict_is_stored_with_the_kind_that_it_is_read_to_have(database: Database) -> None:
    """Others that count otherwise have another."""
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
        {"health": "healthy", "scoreable": "yes", "reward": 1.0, "cost_usd": 0.1},
        {"health": "healthy", "scoreable": "yes", "reward": 7.0, "cost_usd": 0.1},
        {"health": "healthy", "scoreable": "yes", "reward": 1 / 3},
        {"health": "healthy", "scoreable": "yes", "reward": 1 / 3, "servings": "[]"},
        {"health": "api_error", "scoreable": "no", "cause": "c", "lane": lane, "fingerprint": "f"},
        {"health": "healthy", "scoreable": "unknown", "servings": "[]", "cause": "none"},
        {"health": "healthy", "scoreable": "yes", "attributed_to": "agent", "total_tokens": 7},
    )  # fmt: skip
    kinds = []
    for case in cases:
        with database.connections.writing() as connection:  # as after a call that was spilled
            have_judged_anew(connection, ["r1"])
        database.verdicts.store(verdict(verdict=json.dumps(told), validity=" suspect a ", **case))
        (read,) = database.read(all_of, "b")
        (stored,) = database.read(lambda c: c.execute(select(verdicts.c.counted)).scalars().all())
        assert stored == kind_of(part_of([read])), case
        kinds.append(stored)
    assert len(set(kinds)) == len(cases)
