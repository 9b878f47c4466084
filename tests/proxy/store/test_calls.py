"""Calls are committed once, in flight or ended, and read back as they were."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import create_engine, event

from classifier.fingerprints import Lane
from classifier.lane import Spell
from classifier.records import UNATTRIBUTED, Cause, Ending, Exchange, Kind, Timing
from classifier.references import REFERENCE
from classifier.verdicts import Subcategory
from proxy.store import calls
from proxy.store.database import Database
from proxy.store.errors import RowRejected
from proxy.store.tables import CommitBatch, Gap, Registration, metadata
from tests.proxy.store.records import BARE, FULL, exchanges_of, loaded, write


def test_an_exchange_comes_back_as_it_went_in(database: Database) -> None:
    ended = replace(BARE, ending=Ending.NEVER_CONNECTED)
    write(database, FULL, ended)
    assert exchanges_of(database) == (FULL, ended)


def test_a_response_is_known_to_the_rollout_it_was_answered(database: Database) -> None:
    asked = replace(FULL, id="x3", kind=Kind.CONTINUATION, response_digest="ef")
    named = replace(FULL, id="x4", pending=None, response_digest="01")
    write(database, FULL, asked, named)
    rows = (
        ("r1", "openai", "cd", True),
        ("r1", "openai", "01", False),  # an answer that is not fetched later has that id
        ("r1", "openai", "ef", False),  # asked for, never answered
        ("r1", "other", "cd", False),
        ("r2", "openai", "cd", False),
    )
    for rollout, upstream, digest, known in rows:
        found = database.calls.answered(rollout, upstream=upstream, response_digest=digest)
        assert found is known, (rollout, upstream, digest)


def test_a_call_of_a_batch_is_seen_on_its_lane(database: Database) -> None:
    batch = {"m": "main", "j": "judged", "p": "listed", "f": "foreign"}
    for name, of in batch.items():
        database.rollouts.register(Registration(id=name, batch=of), now=1.0)
    asked: dict[str, Any] = {"upstream": "openai", "model": "org/GPT-5", "role": "agent"}
    asked["kind"] = Kind.INFERENCE
    calls = [
        replace(FULL, id="m1", rollout_id="m", **asked),
        replace(FULL, id="j1", rollout_id="j", **asked | {"role": "judge"}),
        replace(FULL, id="p1", rollout_id="p", **asked | {"kind": Kind.PROBE}),
    ]
    write(database, *calls)
    rows = (
        ("main", "openai", "gpt-5", True),
        ("main", "openai", "gpt-5-mini", False),
        ("main", "anthropic", "gpt-5", False),
        ("judged", "openai", "gpt-5", False),
        ("listed", "openai", "gpt-5", False),
        ("foreign", "openai", "gpt-5", False),
        ("no such batch", "openai", "gpt-5", False),
    )
    for of, upstream, model, seen in rows:
        lane = Lane(upstream=upstream, model=model)
        assert database.calls.seen_on(of, lane) is seen, (of, upstream, model)


def test_a_time_without_an_answer_ends_with_the_lanes_next_answer_whoever_asked(
    database: Database,
) -> None:
    asked: dict[str, Any] = {
        "upstream": "openai", "model": "gpt-5", "key_digest": "key-3f9a", "kind": Kind.INFERENCE,
        "cause": None, "status": 200, "ending": Ending.COMPLETE,
    }  # fmt: skip
    down = Cause(subcategory=Subcategory.PROVIDER_ERROR, transient=True, rule="r")
    wrong = Cause(subcategory=Subcategory.REJECTED_REQUEST, transient=False, rule="r")
    facts: tuple[dict[str, Any], ...] = (
        {}, {}, {"model": "gpt-4"}, {"upstream": "azure"}, {"key_digest": "key-01"},
        {"key_digest": None}, {"kind": Kind.PROBE}, {"status": 503},
        {"ending": Ending.LEFT_BY_AGENT}, {"ending": Ending.CUT_UPSTREAM}, {"cause": down},
        {"cause": down, "rollout_id": "again"}, {"cause": down}, {"cause": down, "model": "gpt-4"},
        {"cause": wrong}, {},
        {"cause": down, "rollout_id": "s0"}, {"cause": down, "rollout_id": "s1"},
        {"cause": down, "rollout_id": "s0 again"}, {"cause": down, "rollout_id": "again"}, {},
    )  # fmt: skip
    calls = [
        replace(
            FULL,
            **{"id": f"x{n}", "rollout_id": f"r{n}"} | asked | fact,
            timing=Timing(started_at=10.0 + n),
        )
        for n, fact in enumerate(facts)
    ]
    runs: tuple[tuple[str, str, int | None, int], ...] = (
        ("again", "t", None, 1), ("s0", "s", 0, 0), ("s1", "s", 1, 0), ("s0 again", "s", 0, 1),
    )  # fmt: skip
    for of, task, repeat, attempt in runs:
        run = Registration(id=of, batch="b", task=task, repeat=repeat, attempt=attempt)
        database.rollouts.register(run, now=1.0)
    write(database, *calls)
    lane, spell = Lane(upstream="openai", model="gpt-5", key="3f9a"), database.calls.spell
    assert spell(lane, 20.0, now=99.0) == Spell(25.0, 3), "of three tasks"
    assert spell(lane, 20.0, now=24.0) == Spell(None, 2), "while it lasts, of first tries alone"
    assert spell(lane, 27.0, now=99.0) == Spell(30.0, 3), "of three samples in four tries"
    assert spell(lane, 27.0, now=30.0) == Spell(None, 2)
    assert spell(lane, 9.0, now=99.0) == Spell(10.0, 0)
    assert spell(replace(lane, key=None), 12.0, now=99.0) == Spell(15.0, 0)


def test_the_proxys_own_calls_make_no_rollout_and_are_nobodys_neighbours(
    database: Database,
) -> None:
    own = replace(
        FULL, id="q", rollout_id=REFERENCE, role="reference", timing=Timing(started_at=20.0)
    )
    gaps = {REFERENCE: Gap(2, since=1.0)}
    database.calls.write(CommitBatch(recorded=[own], gaps=gaps), worker="w")
    assert database.rollouts.row(REFERENCE) is None
    assert database.verdicts.unjudged(limit=9).ids == []
    page = database.calls.page(REFERENCE, after=None, limit=9)
    assert page is not None
    assert [x.id for x in page] == ["q"]
    assert database.calls.unattributed(since=0.0, until=99.0) == 0
    assert not database.calls.near(since=0, at=20.0, until=99.0, upstreams={FULL.upstream}, limit=9)


def test_calls_that_name_no_rollout_make_none_and_are_read_as_they_are(database: Database) -> None:
    def nameless(number: int, at: float, **facts: Any) -> Exchange:
        named = {"id": f"n{number}", "rollout_id": UNATTRIBUTED, "kind": Kind.INFERENCE, **facts}
        return replace(FULL, timing=Timing(started_at=at), **named)

    ended = [
        nameless(1, 10.0),
        nameless(2, 20.0, kind=Kind.ACTIVITY),
        nameless(3, 20.0, kind=Kind.PROBE),
        nameless(4, 20.0, role="judge"),
        replace(FULL, timing=Timing(started_at=20.0)),
    ]
    flying = [nameless(5, 30.0, ending=None), nameless(6, 30.0, ending=None, kind=Kind.PROBE)]
    gaps = {UNATTRIBUTED: Gap(2, since=1.0)}
    for _ in range(2):
        database.calls.write(CommitBatch(recorded=ended, opened=flying, gaps=gaps), worker="w")
        database.calls.forget_rollouts()
    assert database.rollouts.row(UNATTRIBUTED) is None
    spans = ((0.0, 99.0), (10.0, 20.0), (20.1, 30.0), (30.1, 99.0))
    counted = [database.calls.unattributed(since=since, until=until) for since, until in spans]
    assert counted == [3, 2, 1, 0]
    page = database.calls.page(UNATTRIBUTED, after=None, limit=9)
    assert page is not None
    assert [x.id for x in page] == ["n1", "n2", "n3", "n4", "n5", "n6"]
    near = database.calls.near(since=0, at=20.0, until=99.0, upstreams={FULL.upstream}, limit=9)
    assert [x.rollout_id for x in near] == [FULL.rollout_id]


def test_a_call_in_flight_is_visible_and_its_end_replaces_it(database: Database) -> None:
    database.calls.write(CommitBatch(opened=[BARE]), worker="w")
    assert exchanges_of(database) == (BARE,)
    assert database.calls.in_flight("r1") == 1
    write(database, replace(BARE, ending=Ending.COMPLETE))
    assert [exchange.ending for exchange in exchanges_of(database)] == [Ending.COMPLETE]
    assert database.calls.in_flight("r1") == 0


def test_a_call_that_ends_while_it_is_looked_at_is_seen_all_the_same(database: Database) -> None:
    """Open calls and ended ones are two tables, read one after the other."""
    database.calls.write(CommitBatch(opened=[BARE]), worker="w")
    written: list[CommitBatch] = []

    def end(*said: Any) -> None:
        if "FROM exchanges" in said[2] and not written:
            written.append(CommitBatch(recorded=[replace(BARE, ending=Ending.COMPLETE)]))
            database.calls.write(written[0], worker="w")

    event.listen(database.connections.reader, "after_cursor_execute", end)
    assert [exchange.id for exchange in exchanges_of(database)] == ["x2"]
    assert written


def test_recording_again_replaces(database: Database) -> None:
    write(database, FULL)
    write(database, replace(FULL, response_bytes=99))
    assert [exchange.response_bytes for exchange in exchanges_of(database)] == [99]


def test_gaps_add_up_also_on_rollouts_never_exchanges_of(database: Database) -> None:
    for _ in range(2):
        database.calls.write(CommitBatch(gaps={"r9": Gap(3, 50.0)}), worker="w")
    found = loaded(database, "r9")
    assert found[1].gaps == 6
    assert found[0]["created_at"] == 50.0


def test_a_page_of_exchanges_continues_after_an_id(database: Database) -> None:
    ended = [replace(FULL, id=f"x{number}") for number in range(3)]
    database.calls.write(CommitBatch(recorded=ended, opened=[replace(BARE, id="x3")]), worker="w")
    first = database.calls.page("r1", after=None, limit=2)
    assert first == ended[:2]
    rest = database.calls.page("r1", after="x1", limit=5)
    assert rest == [ended[2], replace(BARE, id="x3")]
    assert database.calls.page("unknown", after=None, limit=2) is None
    assert [database.calls.number("r1", name) for name in ("x0", "x1", "x3")] == [1, 2, 4]


def test_a_value_no_database_takes_is_rejected_and_the_rest_of_the_store_works(
    database: Database,
) -> None:
    with pytest.raises(RowRejected):
        write(database, replace(FULL, status=2**70))
    assert database.rollouts.load("r1") is None, "nothing of the commit was written"
    write(database, FULL)
    assert exchanges_of(database) == (FULL,)


def test_a_rollout_pruned_an_hour_ago_is_written_again(database: Database) -> None:
    write(database, FULL)
    with create_engine(database.url).begin() as raw:
        raw.execute(metadata.tables["rollouts"].delete())
    write(database, FULL)
    assert database.rollouts.load("r1") is None, "it is remembered for an hour"
    database.calls.expire_rollouts(3601.0)
    write(database, FULL)
    assert database.rollouts.load("r1") is not None


# --- An outline of a rollout's calls, in order, with those in flight ------------------------------


def test_an_outline_is_in_order_and_knows_what_is_in_flight(database: Database) -> None:
    ended = [
        replace(FULL, id="b", timing=Timing(started_at=2.0, duration_s=1.0)),
        replace(BARE, id="a", ending=Ending.COMPLETE),
        replace(BARE, id="o", rollout_id="other", ending=Ending.COMPLETE),
    ]
    flying = [replace(BARE, id="c"), replace(BARE, id="b")]  # one ended meanwhile
    database.calls.write(CommitBatch(opened=flying), worker="w")
    write(database, *ended)
    found = database.read(calls.outline, "r1", limit=10)
    assert [(call["id"], call["ending"]) for call in found.calls] == [
        ("a", "complete"), ("b", "complete"), ("c", None),
    ]  # fmt: skip
    assert found.total == 3
    assert {call.keys() == found.calls[0].keys() for call in found.calls} == {True}
    failed = found.calls[1]
    assert (failed["subcategory"], failed["request_digest"], failed["input_total"]) == (
        "quota", "ab", 7,
    )  # fmt: skip


def test_a_longer_rollout_is_cut_and_counted(database: Database) -> None:
    ended = [replace(BARE, id=f"x{n}", ending=Ending.COMPLETE) for n in range(5)]
    write(database, *ended)
    database.calls.write(CommitBatch(opened=[replace(BARE, id="x9")]), worker="w")
    found = database.read(calls.outline, "r1", limit=3)
    assert ([call["id"] for call in found.calls], found.total) == (["x0", "x1", "x2"], 6)
    nothing = database.read(calls.outline, "nobody", limit=3)
    assert (nothing.calls, nothing.total) == ([], 0)


def test_what_the_sums_of_a_rollout_that_was_not_judged_know_is_unknown(
    database: Database,
) -> None:
    assert database.read(calls.known_calls, "nobody") == {
        "calls": None, "tokens_known_calls": None, "cost_known_calls": None,
    }  # fmt: skip
