"""A batch is read from its sums: the first of what it names, and no more with each rollout."""

from __future__ import annotations

from typing import Any

import pytest

from classifier import codec
from classifier.records import Cause, Ending, Exchange, Kind, Timing, Usage
from classifier.repeat_counts import NoteKind
from classifier.verdicts import Health, Retry, Subcategory, Verdict
from classifier.whole_batch import MOST
from proxy.store.batch_versions import batch_version, note_changed
from proxy.store.batches import FLAT_TOKENS, BatchCursor, call_sums, newest, usage_sums
from proxy.store.database import Database
from proxy.store.tables import Registration, as_json
from tests.proxy.store.records import summed_up, write
from tests.proxy.store.test_verdicts import verdict
from tests.statements import statements


def play(
    database: Database,
    name: str,
    at: float,
    *,
    failed: bool,
    provisional: bool,
    after_s: float = 2.0,
) -> None:
    database.rollouts.register(Registration(id=name, batch="b", task=f"t-{name}"), now=at)
    judged = Verdict(
        rollout_id=name, batch="b", health=Health.API_ERROR if failed else Health.HEALTHY,
        rule="all_failed", policy="evidence", subcategory=Subcategory.QUOTA if failed else None,
        retry=Retry(eligible=failed, after_s=after_s, reason="transient"), provisional=provisional,
    )  # fmt: skip
    database.verdicts.store(
        verdict(
            name, health=judged.health.value, scoreable="no" if failed else "yes",
            reward=None if failed else 1.0, provisional=provisional,
            validity=None if failed else " suspect stalled ",
            verdict=as_json(codec.encode_verdict(judged)),
        )
    )  # fmt: skip


def test_of_what_a_summary_names_the_first_are_given_and_all_are_counted(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MOST, NoteKind.PROBLEM, 2)
    monkeypatch.setitem(MOST, NoteKind.RETRY, 3)
    for number, name in enumerate("edcba"):
        play(database, name, float(number), failed=True, provisional=False)
    play(database, "f", 9.0, failed=False, provisional=True)
    found = summed_up(database)
    assert [line.partition(":")[0] for line in found.named.lines] == ["t-e", "t-d"]
    assert [(item["rollout_id"], item["after_s"]) for item in found.retry] == [
        ("e", 2.0), ("d", 2.0), ("c", 2.0),
    ]  # fmt: skip
    assert (found.counts["lines"], found.counts["retry"], found.counts["pending"]) == (6, 5, 1)
    assert found.named.counted["suspect"] == (["t-f (stalled)"], 1)


def test_a_batch_is_read_in_as_many_statements_however_many_rollouts_it_has(
    database: Database,
) -> None:
    taken = set()
    for number in range(12):
        play(database, f"r{number}", float(number), failed=False, provisional=False)
        with statements(database) as asked:
            summed_up(database)
        taken.add(len(asked))
    assert len(taken) == 1
    assert max(taken) <= 11


def test_a_version_grows_with_each_change_and_says_what_waits(database: Database) -> None:
    assert database.read(batch_version, "b") is None
    database.rollouts.register(Registration(id="r1", batch="b"), now=1.0)
    versions = [database.read(batch_version, "b")]
    for work in (
        lambda: database.verdicts.store(verdict(provisional=True)),
        lambda: database.verdicts.store(verdict(health="healthy", scoreable="yes")),
        lambda: database.verdicts.store(verdict(health="healthy", scoreable="yes", lane="other")),
        lambda: database.change(note_changed, ["b"]),
    ):
        work()
        versions.append(database.read(batch_version, "b"))
    numbers = [version.number for version in versions if version is not None]
    assert sorted(set(numbers)) == numbers
    assert [version is not None and version.waits for version in versions][:2] == [True, False]


def test_other_advice_is_another_version_though_it_changes_no_count(database: Database) -> None:
    told = []
    for after_s in (2.0, 7.0):
        play(database, "a", 1.0, failed=True, provisional=True, after_s=after_s)
        summed = summed_up(database)
        (again,) = summed.retry
        told.append((database.read(batch_version, "b"), again["after_s"], summed.counts))
    assert told[0][0] != told[1][0]
    assert ([each[1] for each in told], told[0][2]) == ([2.0, 7.0], told[1][2])


# --- Calls added up by what they have in common, and no further than one price holds --------------

DAY = 86_400
LIMITED = Cause(subcategory=Subcategory.RATE_LIMIT, transient=True, rule="r")


def call(name: str, tokens: tuple[int | None, int | None] = (10, 5), **facts: Any) -> Exchange:
    timing = Timing(started_at=facts.pop("at", 0.4 * DAY), duration_s=1.5)
    usage = facts.pop("usage", Usage(input_total=tokens[0], output_total=tokens[1]))
    stated: dict[str, Any] = {
        "upstream": "openai", "model": "gpt-5", "kind": Kind.INFERENCE, "status": 200,
        "ending": Ending.COMPLETE,
    }  # fmt: skip
    return Exchange(
        id=name, rollout_id=facts.pop("rollout", "r1"), api="openai.chat",
        timing=timing, usage=usage, **stated | facts,
    )  # fmt: skip


def filled(database: Database, *calls: Exchange) -> None:
    for name, batch in (("r1", "b"), ("r2", "b"), ("r3", "other")):
        registration = Registration(id=name, batch=batch, task=f"task of {name}")
        database.rollouts.register(registration, now=1.0)
    write(database, *calls)


def test_calls_are_added_up_by_what_is_asked_for(database: Database) -> None:
    filled(
        database,
        call("x1"),
        call("x2", answered_model="gpt-5-2025"),
        call("x3", rollout="r2", role="judge", model="gpt-5-2025"),
        call("x4", rollout="r3"),
        call("x5", kind=Kind.OTHER),
        call("x6", ending=None),
        call("x7", pending=True),
    )
    kept = database.read(usage_sums, "b", ["role", "model"])
    assert {each.group: each.calls for each in kept} == {
        ("agent", "gpt-5"): 1, ("agent", "gpt-5-2025"): 1, ("judge", "gpt-5-2025"): 1,
    }  # fmt: skip
    assert database.read(usage_sums, "nobody", ["model"]) == []
    by_model = database.read(call_sums, "b", ["model"])
    assert {each.group: each.calls for each in by_model} == {("gpt-5",): 1, ("gpt-5-2025",): 2}
    by_two = database.read(call_sums, "b", ["task", "role"])
    assert sorted((each.group, each.calls) for each in by_two) == [
        (("task of r1", "agent"), 1), (("task of r1", "agent"), 1), (("task of r2", "judge"), 1),
    ]  # fmt: skip
    assert sum(each.calls for each in database.read(call_sums, "b", [])) == 3
    assert database.read(call_sums, "nobody", ["model"]) == []


def test_what_is_not_known_is_counted_and_never_zero(database: Database) -> None:
    nothing = (None, None)
    filled(
        database,
        call("x1", (10, 5)),
        call("x2", nothing),
        call("x3", nothing, usage=Usage(total_tokens=7)),
        call("x4", nothing, status=429, cause=LIMITED),
        call("x5", nothing, cause=LIMITED),  # an error inside of a 200: it may have used tokens
        call("x6", usage=Usage(input_total=1, output_total=1, cost_usd=0.25)),
    )
    kept = database.read(usage_sums, "b", ["upstream"])
    assert sum(each.calls for each in kept) == 6
    (unused,) = (each for each in kept if not each.used)
    assert (unused.calls, unused.failures, unused.counted, unused.tokens.total) == (1, 1, 0, None)
    (stated,) = (each for each in kept if each.stated)
    assert (stated.calls, stated.stated_usd, stated.to_price.calls) == (1, 0.25, 0)
    (priced,) = (each for each in kept if each.to_price.calls)
    assert priced.to_price == (1, 10, 0, 0, 5, 0)
    (found,) = database.read(call_sums, "b", ["upstream"])
    assert (found.calls, found.failures, found.used, found.counted) == (6, 2, 5, 3)
    assert found.tokens == (11, 6, 24)
    assert (found.stated, found.stated_usd) == (1, 0.25)
    assert found.to_price == (1, 10, None, None, 5, 0)
    assert found.seconds == 9.0


def test_what_another_price_may_hold_for_is_not_added_up(database: Database) -> None:
    filled(
        database,
        call("x1"),
        call("x2", (FLAT_TOKENS, 5)),
        call("x3", (FLAT_TOKENS + 1, 5)),
        call("x4", (FLAT_TOKENS + 1, 5)),
        call("x5", at=1.6 * DAY),
        call("x6", upstream="gateway"),
    )
    found = database.read(call_sums, "b", [])
    read = [(each.day, each.upstream, each.to_price.inputs, each.to_price.calls) for each in found]
    assert sorted(read) == [
        (0, "gateway", 10, 1), (0, "openai", FLAT_TOKENS + 1, 1),
        (0, "openai", FLAT_TOKENS + 1, 1), (0, "openai", FLAT_TOKENS + 10, 2), (1, "openai", 10, 1),
    ]  # fmt: skip
    kept = [each.to_price for each in database.read(usage_sums, "b", []) if each.day == 0]
    assert sorted((each.above, each.inputs, each.calls) for each in kept) == [
        (0, 10, 1), (0, FLAT_TOKENS + 10, 2), (FLAT_TOKENS, 2 * FLAT_TOKENS + 2, 2),
    ]  # fmt: skip


def test_sums_beyond_32_bits_are_whole_numbers(database: Database) -> None:
    large = 10**9
    filled(database, *(call(f"x{n}", (large, large)) for n in range(3)))
    totals = [each.tokens.total for each in database.read(call_sums, "b", [])]
    assert [(type(total), total) for total in totals] == [(int, 2 * large)] * 3
    (kept,) = database.read(usage_sums, "b", [])
    assert (type(kept.tokens.total), kept.tokens.total) == (int, 6 * large)


def test_what_no_call_can_have_is_unknown(database: Database) -> None:
    filled(database, call("x1", (10**9 + 1, 5)), call("x2", (-1, 5)), call("x3", (7, 5)))
    for sums in (call_sums, usage_sums):
        found = database.read(sums, "b", [])
        inputs = [each.tokens.inputs for each in found if each.tokens.inputs is not None]
        assert (inputs, sum(each.counted for each in found)) == ([7], 1), sums.__name__


# --- Batches are listed by their last rollout, page by page and by an index -----------------------


@pytest.fixture
def batch_list_filled(database: Database) -> Database:
    for at, name, batch in (
        (0, "1", "a"), (1, "2", "b"), (2, "3", "c"), (3, "4", "a"), (4, "5", None), (3, "6", "d"),
    ):  # fmt: skip
        database.rollouts.register(Registration(id=name, batch=batch), now=float(at))
    return database


def test_the_newest_come_first_with_their_span(batch_list_filled: Database) -> None:
    found = batch_list_filled.read(newest, limit=9)
    rows = [(row["batch"], row["first_at"], row["last_at"]) for row in found]
    assert rows == [("d", 3.0, 3.0), ("a", 0.0, 3.0), ("c", 2.0, 2.0), ("b", 1.0, 1.0)]


def test_pages_join_also_between_batches_of_one_moment(batch_list_filled: Database) -> None:
    found, after = [], None
    while rows := batch_list_filled.read(newest, after=after, limit=1):
        found.append(rows[0]["batch"])
        after = BatchCursor(rows[0]["last_at"], rows[0]["batch"])
    assert found == ["d", "a", "c", "b"]


def test_a_page_is_read_in_the_order_of_an_index(batch_list_filled: Database) -> None:
    if not batch_list_filled.is_sqlite:
        return  # so few rows are sorted whatever there is
    with statements(batch_list_filled) as told:
        for after in (None, BatchCursor(2.0, "c")):
            batch_list_filled.read(newest, after=after, limit=2)
    with batch_list_filled.connections.reading() as connection:
        plans = [connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {said}", values).all()
                 for said, values in told if said.startswith("SELECT")]  # fmt: skip
    steps = [row[-1] for plan in plans for row in plan]
    assert len(steps) == 2
    assert all("batches_newest" in step and "B-TREE" not in step for step in steps)
