"""The health of lanes from recorded calls: their lane, and what is counted of them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy import event, func, select
from sqlalchemy.engine import Engine

from classifier.__main__ import judge_export
from classifier.records import (
    Cause,
    Ending,
    Exchange,
    KeySource,
    Kind,
    Timing,
    Usage,
    UsageSource,
)
from classifier.verdicts import Subcategory
from proxy.control import health, judge
from proxy.control.alerts import current_alerts
from proxy.control.health import (
    BatchDrift,
    NamedLane,
    batch_drifts,
    batch_episodes,
    lanes_of,
    public_status,
    read_lanes,
    status_report,
)
from proxy.control.queries import Service as ControlService
from proxy.control.queries import VersionedCache, run_in_thread
from proxy.server import background
from proxy.store import health as rows
from proxy.store import statistics
from proxy.store.batches import batch_version
from proxy.store.closings import have_judged_anew
from proxy.store.database import Database
from proxy.store.rollouts import PreparedRegistration
from proxy.store.tables import CommitBatch, Registration, events, verdicts
from proxy.web.format import moment
from tests.classifier.test_evidence import opcodes
from tests.classifier.test_export import exported
from tests.fakes.provider import Answer, Wait
from tests.proxy.api.test_routes import CHAT, Service
from tests.proxy.store.records import FULL
from tests.proxy.web.test_pages import page
from tests.proxy.web.test_pages import words as words_of
from tests.waiting import until
from truezero.models import StatusReport

NOW = 1_800_000_000.0
DOWN = Cause(subcategory=Subcategory.PROVIDER_ERROR, transient=True, rule="status.503")
ANSWERED = replace(
    FULL, status=200, cause=None, ending=Ending.COMPLETE, upstream="openai", model="gpt-5",
    answered_model="gpt-5-2025-08-07", key_digest="key-a", served_by=None, system_fingerprint=None,
    injected=False, held=None,
)  # fmt: skip
FAILED = replace(ANSWERED, status=503, cause=DOWN, answered_model=None)


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


@pytest.fixture
def at_noon(control: ControlService) -> ControlService:
    return replace(control, now=lambda: NOW, lane_drifts=VersionedCache(3))


def write(service: Service, *calls: Exchange) -> None:
    with closing(Database(service.database)) as database:
        database.calls.write(CommitBatch(recorded=calls), worker="gone")


def some(count: int, ago_s: float, like: Exchange, **facts: object) -> list[Exchange]:
    """Calls of five rollouts, two seconds apart."""
    name = f"{like.cause is None:d}{ago_s:g}{sorted(facts.items())}"
    return [
        replace(
            like,
            id=f"{hash(name) & 0xFFFFFF:x}-{n}",
            rollout_id=f"r{n % 5}",
            timing=Timing(started_at=NOW - ago_s + 2.0 * n, duration_s=1.0),
            **facts,  # type: ignore[arg-type]
        )
        for n in range(count)
    ]


def every_minute(count: int, ago_s: float, like: Exchange, now: float = NOW) -> list[Exchange]:
    return [
        replace(call, timing=Timing(started_at=now - ago_s + 60.0 * n, duration_s=1.0))
        for n, call in enumerate(some(count, ago_s, like))
    ]


def lanes(service: Service, now: float = NOW) -> dict[str, NamedLane]:
    with closing(Database(service.database)) as database:
        return {lane.name: lane for lane in read_lanes(database, now, VersionedCache(3))}


def words(service: Service) -> dict[str, str]:
    return {name: lane.health.word.value for name, lane in lanes(service).items()}


def test_a_call_that_failed_belongs_to_the_model_that_it_asked_for(service: Service) -> None:
    """Answers name the dated model; failures name none."""
    write(service, *some(40, 600, ANSWERED), *some(12, 60, FAILED))
    (lane,) = lanes(service).values()
    assert lane.name == "openai · gpt-5 · key-a"
    assert lane.health.word == "down"
    assert lane.health.since == (NOW - 60) // 60 * 60
    assert (lane.health.cause, lane.health.failures) == ("provider_error", 12)


def test_one_key_of_two_is_down(service: Service) -> None:
    auth = Cause(subcategory=Subcategory.AUTH, transient=False, rule="status.401")
    dead = replace(FAILED, status=401, cause=auth, key_digest="key-b")
    write(service, *some(20, 60, ANSWERED), *some(20, 60, dead))
    assert words(service) == {"openai · gpt-5 · key-b": "down", "openai · gpt-5 · key-a": "healthy"}


def test_a_server_has_a_word_where_answers_tell_several_apart(service: Service) -> None:
    write(service, *some(20, 60, ANSWERED, served_by="one"))
    assert words(service) == {"openai · gpt-5 · key-a": "healthy"}
    write(service, *some(12, 61, FAILED, served_by="two"))
    assert words(service) == {
        "openai · gpt-5 · key-a": "degraded",
        "openai · gpt-5 · key-a · one": "healthy",
        "openai · gpt-5 · key-a · two": "down",
    }


@pytest.mark.parametrize(
    ("status", "subcategory"), [(400, "rejected_request"), (404, "model_not_found")]
)
def test_what_one_agent_does_is_in_no_lane(service: Service, status: int, subcategory: str) -> None:
    own = Cause(subcategory=Subcategory(subcategory), transient=False, rule="any")
    calls = some(30, 60, FAILED, status=status, cause=own, model="gtp-5")
    write(service, *some(20, 60, ANSWERED), *(replace(each, rollout_id="one") for each in calls))
    assert words(service) == {"openai · gpt-5 · key-a": "healthy"}


def test_calls_beyond_the_sample_are_counted_by_their_minute(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MOST", 60)
    monkeypatch.setattr(health, "MOST", 60)
    write(
        service,
        *some(600, 1800, ANSWERED),
        *some(200, 420, FAILED, key_source=KeySource.OPERATOR),
        *some(20, 420, ANSWERED, model="rare", answered_model="rare-1"),
    )
    found = lanes(service)
    lane = found["openai · gpt-5 · key-a"].health
    assert (lane.word, round(lane.failures)) == ("down", 140), "in the last five minutes"
    assert found["openai · rare · key-a"].health.word == "healthy"


async def test_few_rows_are_read_however_many_there_are(
    service: Service, at_noon: ControlService
) -> None:
    write(service, *some(1500, 3500, ANSWERED), *some(1300, 3500, FAILED))
    asked: list[str] = []

    def counted(*executed: object) -> None:
        asked.append(str(executed[2]))

    event.listen(Engine, "after_cursor_execute", counted)
    try:
        await status_report(at_noon)
        assert len(asked) <= 12 + 14 + 84, "statements, once an hour with its seven days before"
        at_noon.statuses.clear()
        asked.clear()
        report = await status_report(at_noon)
        assert len(asked) <= 12, "statements: six, and some of the service's own"
        assert all("LIMIT" in each or "GROUP BY" in each for each in asked if "FROM exch" in each)
        assert await status_report(at_noon) is report, "for two seconds"
    finally:
        event.remove(Engine, "after_cursor_execute", counted)


@pytest.mark.slow
def test_each_row_that_is_read_takes_few_instructions(service: Service) -> None:
    write(service, *some(1500, 3500, ANSWERED), *some(1300, 3500, FAILED))
    with closing(Database(service.database)) as database:
        found = database.read(rows.lane_rows, since=NOW - 3600, now=NOW, overdue_s=30.0)
    read = len(found.failed) + len(found.answered) + len(found.counts)
    assert read > 900
    taken = opcodes(lambda: lanes_of(found, NOW))
    assert taken <= 240 * read, taken / read


async def test_the_public_form_names_no_key_count_or_name_of_ones_own(
    service: Service, at_noon: ControlService
) -> None:
    own = replace(ANSWERED, model="ft:gpt-5:acme::x1", answered_model=None)
    write(
        service,
        *some(20, 60, ANSWERED),
        *some(20, 61, own),
        *some(20, 62, ANSWERED, upstream="our-gateway"),
    )
    assert len((await status_report(at_noon)).items) == 3
    public = await public_status(at_noon)
    assert public == {
        "at": NOW,
        "items": [
            {"upstream": "openai", "model": "gpt-5", "word": "healthy", "since": None,
             "cause": None}
        ],
    }  # fmt: skip


@pytest.mark.postgres_smoke
async def test_a_batch_says_when_its_lane_failed_and_how_many_rollouts_that_struck(
    service: Service, at_noon: ControlService
) -> None:
    for n in range(3):
        service.http.post("/rollouts", json={"id": f"r{n}", "batch": "b"})
    write(service, *some(40, 600, ANSWERED), *some(12, 180, FAILED), *some(10, 100, ANSWERED))
    (found,) = await batch_episodes(at_noon, "b")
    assert (found.name, found.word, found.cause) == (
        "openai · gpt-5 · key-a", "down", "provider_error",
    )  # fmt: skip
    assert (found.since, found.until) == (NOW - 180, NOW - 120)
    assert found.rollouts == 3, "of five that it struck"
    assert await batch_episodes(at_noon, "unknown") == []


async def test_an_outage_of_over_an_hour_is_said_whole(
    service: Service, at_noon: ControlService
) -> None:
    began, ended = NOW - 9000, NOW - 600
    for n in range(5):
        service.http.post("/rollouts", json={"id": f"r{n}", "batch": "b"})
    write(service, *every_minute(150, 18_000, ANSWERED), *every_minute(140, 9000, FAILED))
    before = replace(at_noon, now=partial(float, ended))
    (lane,) = (await status_report(before)).items
    assert (lane.health.word, lane.health.since) == ("down", began)
    assert lane.last_episode is not None
    assert (lane.last_episode.since, lane.last_episode.until) == (began, None)
    write(service, *every_minute(10, 600, ANSWERED))
    (found,) = await batch_episodes(at_noon, "b")
    assert (found.word, found.since, found.until) == ("down", began, ended + 240)
    assert found.rollouts == 5


def test_the_page_upstreams_says_since_when_an_outage_of_over_an_hour_lasts(
    service: Service,
) -> None:
    now = time.time()
    calls = [*every_minute(60, 9600, ANSWERED, now), *every_minute(100, 6000, FAILED, now)]
    write(service, *calls)
    since = moment((now - 6000) // 60 * 60)
    said = words_of(page(service, "/ui/upstreams"))
    assert f"gpt-5 · key-a has been down since {since}" in said, said[:1500]


async def test_an_operator_is_told_of_each_change(
    service: Service, at_noon: ControlService
) -> None:
    write(service, *some(40, 600, ANSWERED), *some(12, 180, FAILED))
    (down,) = [e for e in (await current_alerts(at_noon)).conditions if e.kind == "lane.down"]
    assert (down.subject, down.at) == ("openai · gpt-5 · key-a", (NOW - 180) // 60 * 60)
    assert down.data["failed"] == {"provider_error": 12}
    write(service, *some(12, 50, ANSWERED))
    later = replace(at_noon, now=lambda: NOW)
    kinds = [e.kind for e in (await current_alerts(later)).conditions]
    assert "lane.recovered" in kinds
    assert "lane.down" not in kinds


@pytest.mark.postgres_smoke
def test_calls_to_a_provider_that_hangs_are_said_while_they_last(service: Service) -> None:
    """The clock is moved on, not the test held up: the calls are in flight all the while."""
    over = threading.Event()
    service.provider.plays(Answer(body=(Wait(over), b"{}")))
    asked = {"model": "gpt-5", "messages": []}
    headers = {"authorization": "Bearer sk-x"}
    calling = [
        threading.Thread(
            target=partial(service.http.post, f"/r/r{n}/openai{CHAT}", json=asked, headers=headers)
        )
        for n in range(3)
    ]
    for each in calling:
        each.start()
    try:
        until(lambda: _open(service) == 3)
        soon, late = (lanes(service, time.time() + after_s) for after_s in (20.0, 40.0))
        assert [lane.health.waiting for lane in soon.values()] == [0]
        (lane,) = late.values()
        assert (lane.health.waiting, lane.health.word) == (3, "unknown")
    finally:
        over.set()
        for each in calling:
            each.join()


def test_a_call_waits_from_three_times_the_lane_s_p99_on() -> None:
    """One call in a hundred took 21 s, so that what is in flight for a minute is as usual."""
    place = {"upstream": "openai", "model": "gpt-5", "key_digest": "key-a"}
    took = [rows.AnsweredRow(
        **place, server=None, rollout_id="r", started_at=NOW - 900 + n,
        duration_s=21.0 if n % 50 == 0 else 2.0, answered_model="gpt-5", kind="inference",
    ) for n in range(100)]  # fmt: skip
    read = rows.LaneRows(
        since=NOW - 3600, counts=(), failed=(), failed_from=NOW - 3600, answered=took,
        open=(), overdue=(rows.OverdueRow(**place, started_at=NOW - 60),), series=(),
    )  # fmt: skip
    assert [lane.health.waiting for lane in lanes_of(read, NOW)] == []
    assert [lane.health.waiting for lane in lanes_of(read, NOW + 5)] == [1]


def _open(service: Service) -> int:
    with closing(Database(service.database)) as database:
        return database.read(statistics.in_flight).calls


# --- drifts ---


def answers(
    count: int, ago_s: float, *, every_s: float, batch: str, name: str, **facts: object
) -> list[Exchange]:
    """Streamed answers to one prompt after another, each of a rollout of its own."""
    like = replace(
        ANSWERED, role="agent", kind=Kind.INFERENCE, streamed=True, finish_reason="stop",
        output_seen=True, content_seen=True, tool_calls=None, output_limit=4096,
        weight_version=None, pending=None, unreadable_reason=None, inferred=None,
        written_call=None, output_reads_as=None,
        usage=Usage(input_total=900, output_total=200, source=UsageSource.PROVIDER),
    )  # fmt: skip
    return [
        replace(
            like,
            id=f"{name}-{n}",
            rollout_id=f"{batch}-{name}{n}",
            timing=Timing(started_at=NOW - ago_s + every_s * n, first_byte_s=0.5, duration_s=4.5),
            **facts,  # type: ignore[arg-type]
        )
        for n in range(count)
    ]


NOTHING = {"output_seen": False, "content_seen": False}


def registered(service: Service, *calls: Exchange) -> None:
    with closing(Database(service.database)) as database:
        names = dict.fromkeys(call.rollout_id for call in calls)
        every = [Registration(id=name, batch=name.partition("-")[0]) for name in names]
        asked = [PreparedRegistration(registration=each) for each in every]
        database.rollouts.register_all(asked, now=NOW - 1e6)
    write(service, *calls)


def a_week(batch: str) -> list[Exchange]:
    return answers(60, 6 * 86_400, every_s=7200, batch=batch, name="w")


async def test_a_lane_whose_answers_grow_empty_is_degraded_with_its_figure(
    service: Service, at_noon: ControlService
) -> None:
    grown = answers(30, 500, every_s=15, batch="b", name="n", **NOTHING)
    registered(service, *a_week("b"), *answers(20, 3000, every_s=60, batch="b", name="h"), *grown)
    (lane,) = (await status_report(at_noon)).items
    (drift,) = lane.health.drifts
    assert (lane.health.word, lane.health.cause) == ("degraded", "empty_or_refused")
    assert (drift.figure, drift.usual, drift.since) == (1.0, 0.0, NOW - 500)
    page = StatusReport.model_validate((await status_report(at_noon)).to_dict())
    assert page.items[0].drifts[0].sentence == (
        "100% of its answers are empty or refused, usually 0%"
    )
    (told,) = [e for e in (await current_alerts(at_noon)).conditions if e.kind == "lane.degraded"]
    assert told.data["drifts"][0]["figure"] == 1.0
    public = await public_status(at_noon)
    assert public["items"] == [
        {"upstream": "openai", "model": "gpt-5", "word": "degraded", "since": NOW - 500,
         "cause": "empty_or_refused"}
    ]  # fmt: skip


async def test_a_server_that_drifts_is_told_from_one_that_does_not(
    service: Service, at_noon: ControlService
) -> None:
    week = [replace(x, served_by=["one", "two"][n % 2]) for n, x in enumerate(a_week("b"))]
    more = answers(60, 5.5 * 86_400, every_s=7000, batch="b", name="m")
    more = [replace(x, served_by=["one", "two"][n % 2]) for n, x in enumerate(more)]
    sick = answers(12, 400, every_s=30, batch="b", name="s", served_by="two", **NOTHING)
    well = answers(12, 395, every_s=30, batch="b", name="t", served_by="one")
    registered(service, *week, *more, *sick, *well)
    found = {lane.place.server: lane.health for lane in (await status_report(at_noon)).items}
    assert (found["one"].word, found["two"].word) == ("healthy", "degraded")
    assert found["two"].drifts[0].figure == 1.0


async def test_one_agent_or_one_new_batch_is_no_drift(
    service: Service, at_noon: ControlService
) -> None:
    own = answers(30, 500, every_s=15, batch="b", name="n", finish_reason="length")
    own = [replace(call, rollout_id="b-one") for call in own]
    new = answers(30, 499, every_s=15, batch="new", name="n", **NOTHING)
    small = answers(30, 498, every_s=15, batch="b", name="s", finish_reason="length")
    small = [replace(call, output_limit=8) for call in small]
    registered(service, *a_week("b"), *own, *new, *small)
    (lane,) = (await status_report(at_noon)).items
    assert (lane.health.word, lane.health.drifts) == ("healthy", ())


async def test_a_rollout_that_falls_in_a_drift_has_a_finding_that_an_export_keeps(
    service: Service, at_noon: ControlService
) -> None:
    grown = answers(30, 500, every_s=15, batch="b", name="n", **NOTHING)
    before = answers(1, 2000, every_s=1, batch="b", name="before")
    during = answers(2, 100, every_s=1, batch="b", name="d")
    during = [replace(call, rollout_id="b-during") for call in during]
    registered(service, *a_week("b"), *before, *grown, *during)
    for name in ("b-before0", "b-during"):
        with closing(Database(service.database)) as database:
            database.rollouts.report(name, '{"status":"success"}', now=NOW - 70)
    early = await judge.verdict(at_noon, "b-before0")
    assert early["validity"] == []
    (finding,) = (await judge.verdict(at_noon, "b-during"))["validity"]
    assert (finding["check"], finding["level"], finding["calls"]) == ("lane_drifted", "info", 2)
    assert finding["sentence"] == (
        "2 of 2 answers came while openai · gpt-5 drifted: "
        "100% of its answers are empty or refused, usually 0%"
    )
    later = replace(at_noon, now=lambda: NOW + 9000, lane_drifts=VersionedCache(3))
    loaded = await run_in_thread(judge.load, later, "b-during")
    assert loaded.rollout.drifts[0].figure == 1.0, "it stands on what was known then"
    again = judge_export(exported(loaded.rollout))
    assert [each.check for each in again[0].validity] == ["lane_drifted"]


def judge_at(
    service: Service, control: ControlService, after_s: float, *names: str
) -> ControlService:
    """Report and judge rollouts at a time, by a process that has read no drifts before."""
    now = NOW + after_s
    there = replace(control, now=lambda: now, lane_drifts=VersionedCache(3))
    for name in names:
        with closing(Database(service.database)) as database:
            database.rollouts.report(name, '{"status":"success","rewards":{"r":1}}', now=now)
            database.closings.closed(name, now=now, gaps=0)
    return there


def kept(service: Service, name: str) -> tuple[list[str], dict[str, object], int]:
    """The findings on record, what else a verdict says, and events of it."""
    of = select(func.count()).where(events.c.rollout_id == name)
    with closing(Database(service.database)) as database:
        row = database.read(lambda c: c.execute(select(verdicts).filter_by(rollout_id=name)).one())
        told = database.read(lambda c: c.scalar(of.where(events.c.kind == "verdict_given")))
    found = json.loads(row.result)
    return [each["check"] for each in found["validity"]], found, told


def drifted(service: Service) -> int:
    """The number of verdicts that stand on a drift."""
    count = select(func.count()).where(verdicts.c.drifts.is_not(None))
    with closing(Database(service.database)) as database:
        return database.read(lambda c: c.scalar(count)) or 0


@pytest.mark.postgres_smoke
async def test_a_drift_told_late_reaches_verdicts_that_nobody_reads(
    on_both: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "DRIFTS_EVERY_S", 0.05)
    service = on_both(OUTCOME_GRACE_S="29")  # another start, with the loop as it is now
    assert service.app is not None
    control = service.app.control_plane().service
    after_s = time.time() - NOW
    grown = answers(30, 500 - after_s, every_s=15, batch="b", name="n", **NOTHING)
    week = answers(60, 6 * 86_400 - after_s, every_s=7200, batch="b", name="w")
    registered(service, *week, *grown)
    early = judge_at(service, control, after_s - 480, "b-n0")
    assert (await judge.verdict(early, "b-n0"))["validity"] == []

    def added() -> bool:
        control.lane_drifts.clear()  # what was read before the calls were written
        return drifted(service) == 1

    until(added)
    assert kept(service, "b-n0")[::2] == (["lane_drifted"], 1)


async def test_a_rollout_judged_before_its_drift_is_told_gets_the_finding_once(
    service: Service, at_noon: ControlService
) -> None:
    grown = answers(30, 500, every_s=15, batch="b", name="n", **NOTHING)
    registered(service, *a_week("b"), *answers(1, 900, every_s=1, batch="b", name="e"), *grown)
    early = judge_at(service, at_noon, -480, "b-n0", "b-e0")
    for name in ("b-n0", "b-e0"):
        assert (await judge.verdict(early, name))["validity"] == []
    told: list[object] = []
    late = replace(judge_at(service, at_noon, 0), on_final_verdict=told.append)
    (_, before, events) = kept(service, "b-n0")
    assert events == 1
    await judge.add_late_drifts(late)
    (checks, after, events) = kept(service, "b-n0")
    assert (checks, events, told) == (["lane_drifted"], 1, [])
    assert drifted(service) == 1, "the other one called before it drifted"
    assert [x["check"] for x in (await judge.verdict(late, "b-n0"))["validity"]] == ["lane_drifted"]
    said = {"validity", "validity_coverage"}
    assert {k: v for k, v in before.items() if k not in said} == {
        k: v for k, v in after.items() if k not in said
    }
    assert (await judge.result(late, "b-n0"))["validity"] == after["validity"]
    version = await at_noon.read(batch_version, "b")
    await judge.add_late_drifts(judge_at(service, at_noon, 70))
    assert await at_noon.read(batch_version, "b") == version, "nor does another process add it"


@pytest.mark.postgres_smoke
async def test_a_drift_that_is_over_is_so_in_the_verdicts_of_those_judged_while_it_lasted(
    service: Service, at_noon: ControlService
) -> None:
    grown = answers(30, 500, every_s=15, batch="b", name="n", **NOTHING)
    after = answers(120, -60, every_s=10, batch="b", name="z")
    registered(service, *a_week("b"), *grown, *after)
    lasts = judge_at(service, at_noon, 400, "b-n9", "b-z30")
    for name in ("b-n9", "b-z30"):
        (finding,) = (await judge.verdict(lasts, name))["validity"]
        assert finding["check"] == "lane_drifted"
    over = judge_at(service, at_noon, 1200)
    await judge.add_late_drifts(over)
    (drift,) = (await run_in_thread(judge.load, over, "b-n9")).rollout.drifts
    assert drift.until is not None
    assert len((await judge.verdict(over, "b-n9"))["validity"]) == 1
    assert (await judge.verdict(over, "b-z30"))["validity"] == [], "it called after the end"


async def test_a_verdict_judged_anew_long_after_keeps_its_drifts(
    service: Service, at_noon: ControlService
) -> None:
    grown = answers(30, 500, every_s=15, batch="b", name="n", **NOTHING)
    registered(service, *a_week("b"), *grown)
    then = judge_at(service, at_noon, 0, "b-n9")
    (finding,) = (await judge.verdict(then, "b-n9"))["validity"]
    with (
        closing(Database(service.database)) as database,
        database._connections.writing() as connection,
    ):
        have_judged_anew(connection, ["b-n9"])
    later = judge_at(service, at_noon, 90_000)
    assert (await judge.verdict(later, "b-n9"))["validity"] == [finding]
    assert kept(service, "b-n9")[0] == ["lane_drifted"]


async def ten_judged_before_their_drift_is_seen(
    service: Service, at_noon: ControlService
) -> ControlService:
    """Judge ten rollouts of a drift by one service, and return another that sees it."""
    grown = answers(30, 500, every_s=15, batch="b", name="n", finish_reason="length")
    registered(service, *a_week("b"), *grown)
    names = [call.rollout_id for call in grown[-10:]]
    early = judge_at(service, at_noon, 0, *names)
    early.lane_drifts.store("drifts", int(NOW // 60), {})  # it has not seen the drift yet
    for name in names:
        await judge.verdict(early, name)
    return judge_at(service, at_noon, 0)


@pytest.mark.slow
async def test_a_part_of_the_calls_is_looked_at_each_minute_where_there_are_many(
    service: Service, at_noon: ControlService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_LOOKED_AT", 6)
    there = await ten_judged_before_their_drift_is_seen(service, at_noon)
    added = []
    for after_s in (0, 60, 120):
        await judge.add_late_drifts(replace(there, now=partial(float, NOW + after_s)))
        added.append(drifted(service))
    assert added == [6, 10, 10]


@pytest.mark.slow
async def test_so_many_verdicts_are_amended_each_time_by_few_statements_each(
    service: Service, at_noon: ControlService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "MOST_AMENDED", 4)
    there = await ten_judged_before_their_drift_is_seen(service, at_noon)
    await status_report(there)
    asked: list[str] = []

    def counted(*executed: object) -> None:
        asked.append(str(executed[2]))

    event.listen(Engine, "after_cursor_execute", counted)
    added, statements = [], []
    try:
        for _ in range(4):
            asked.clear()
            await judge.add_late_drifts(there)
            statements.append(len(asked))
            added.append(drifted(service))
    finally:
        event.remove(Engine, "after_cursor_execute", counted)
    assert added == [4, 8, 10, 10]
    assert statements[3] <= 12, "nothing is looked at twice; the service has some of its own"
    assert max(statements) <= 28 + 2 * 4, "a lock and an update of each"


@pytest.mark.postgres_smoke
async def test_a_batch_says_when_its_lane_drifted_and_how_many_rollouts_fell_in_it(
    service: Service, at_noon: ControlService
) -> None:
    grown = answers(30, 500, every_s=15, batch="b", name="n", finish_reason="length")
    before = answers(1, 2000, every_s=1, batch="b", name="e")
    after = answers(120, -60, every_s=10, batch="b", name="z")
    registered(service, *a_week("b"), *before, *grown, *after)
    soon, over = (
        replace(at_noon, now=partial(float, NOW + after_s), lane_drifts=VersionedCache(3))
        for after_s in (60, 1200)
    )
    for asked, names in ((at_noon, ("b-e0", "b-n0")), (soon, ("b-n1",)), (over, ("b-n2",))):
        for name in names:
            with closing(Database(service.database)) as database:
                database.rollouts.report(name, '{"status":"success"}', now=NOW - 70)
            await judge.verdict(asked, name)
        lasts = [each.until is None for each in await batch_drifts(at_noon, "b")]
        assert lasts == [asked is not over]
    (found,) = await batch_drifts(at_noon, "b")
    assert found.until is not None
    assert found == BatchDrift(
        name="openai · gpt-5 · key-a", since=NOW - 500, until=found.until, rollouts=3,
        sentence="100% of its answers are cut at a limit, usually 0%",
    )  # fmt: skip
    said = words_of(page(service, "/ui/batches/b"))
    assert (
        f"openai · gpt-5 · key-a drifted from {moment(found.since)} to {moment(found.until)} : "
        "100% of its answers are cut at a limit, usually 0%: 3 of your "
    ) in said
    assert await batch_drifts(at_noon, "unknown") == []
