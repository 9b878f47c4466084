"""The health of lanes from recorded calls: their lane, and what is counted of them."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy import select

from classifier.records import Cause, Ending, Exchange, KeySource, Timing
from classifier.verdicts import Subcategory
from proxy.control.health import (
    NamedLane,
    batch_episodes,
    lanes_of,
    public_status,
    read_lanes,
    status_report,
)
from proxy.control.queries import Service as ControlService
from proxy.control_plane import conditions
from proxy.store import statistics
from proxy.store.database import Database
from proxy.store.lane_minutes import LaneRows, OpenRow, OverdueRow
from proxy.store.tables import lane_minutes as lane_minutes_table
from tests.fakes.provider import Answer, Wait
from tests.opcodes import opcodes
from tests.proxy.api.test_routes import CHAT, Service
from tests.proxy.store.records import FULL
from tests.proxy.store.records import write as written
from tests.proxy.web.test_pages import page
from tests.proxy.web.test_pages import words as words_of
from tests.statements import statements
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
def at_noon(control: ControlService) -> ControlService:
    return replace(control, now=lambda: NOW)


def write(service: Service, *calls: Exchange) -> None:
    with closing(Database(service.database)) as database:
        written(database, *calls)


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


def apart(calls: list[Exchange]) -> list[Exchange]:
    """The same calls, each of a rollout of its own."""
    return [replace(each, rollout_id=f"{each.served_by}-{n}") for n, each in enumerate(calls)]


def every_minute(count: int, ago_s: float, like: Exchange, now: float = NOW) -> list[Exchange]:
    return [
        replace(call, timing=Timing(started_at=now - ago_s + 60.0 * n, duration_s=1.0))
        for n, call in enumerate(some(count, ago_s, like))
    ]


def lanes(service: Service, now: float = NOW) -> dict[str, NamedLane]:
    with closing(Database(service.database)) as database:
        return {lane.name: lane for lane in read_lanes(database, now)}


def words(service: Service) -> dict[str, str]:
    return {name: lane.health.word.value for name, lane in lanes(service).items()}


def test_a_call_that_failed_belongs_to_the_model_that_it_asked_for(service: Service) -> None:
    """Answers name the dated model; failures name none."""
    write(service, *some(40, 600, ANSWERED), *some(12, 60, FAILED))
    (lane,) = lanes(service).values()
    assert lane.name == "openai · gpt-5 · key-a"
    assert lane.health.word == "down"
    assert (lane.health.cause, lane.failed) == ("provider_error", {"provider_error": 12})


def test_a_lane_keeps_its_numbers_while_another_is_called(service: Service) -> None:
    """Contradiction 1: beyond a sample's size only the lane called last was listed."""

    def calls(count: int, ago_s: float, key: str, failed: int) -> list[Exchange]:
        return [
            replace(
                FAILED if n % (count // (failed or count + 1) or count) == 0 and n else ANSWERED,
                id=f"{key}-{n}", rollout_id=f"r{n % 40}", key_digest=key,
                key_source=KeySource.OPERATOR,
                timing=Timing(started_at=NOW - ago_s + n * 0.01, duration_s=1.0),
            )
            for n in range(count)
        ]  # fmt: skip

    first = calls(1300, 120.0, "key-a", 109)
    failures = sum(each.cause is not None for each in first)
    write(service, *first)
    before = lanes(service)["openai · gpt-5 · key-a"]
    write(service, *calls(900, 59.0, "key-b", 0))
    found = lanes(service)
    assert {name: (lane.calls, sum(lane.failed.values())) for name, lane in found.items()} == {
        "openai · gpt-5 · key-a": (1300, failures),
        "openai · gpt-5 · key-b": (900, 0),
    }
    assert found["openai · gpt-5 · key-a"] == before, "nothing flips"


def test_a_lane_that_only_an_agent_names_is_listed_without_a_word(service: Service) -> None:
    auth = Cause(subcategory=Subcategory.AUTH, transient=False, rule="status.401")
    dead = replace(
        FAILED, status=401, cause=auth, key_digest="key-x", key_source=KeySource.AGENT,
        model="made-up",
    )  # fmt: skip
    write(service, *some(4, 60, dead))
    (lane,) = lanes(service).values()
    assert (lane.health.word, lane.calls, lane.failed) == ("unknown", 4, {"auth": 4})
    assert lane.reason is not None and lane.reason.startswith("only agents named it")
    write(service, *some(20, 61, dead))
    assert words(service) == {"openai · made-up · key-x": "unknown"}
    service.http.post("/rollouts", json={"id": "named", "model": "openai/Made-Up"})
    with closing(Database(service.database)) as database:
        registered = database.rollouts.row("named")
    assert registered is not None
    late = registered["created_at"]
    write(service, *(
        replace(each, timing=Timing(started_at=each.timing.started_at - NOW + late, duration_s=1.0))
        for each in some(20, 61, replace(dead, id="late"))
    ))  # fmt: skip
    found = lanes(service, late)
    assert found["openai · made-up · key-x"].health.word == "down"


def test_a_server_has_a_word_where_answers_tell_several_apart(service: Service) -> None:
    write(service, *apart(some(20, 60, ANSWERED, served_by="one")))
    assert words(service) == {"openai · gpt-5 · key-a": "healthy"}
    write(service, *apart(some(12, 61, FAILED, served_by="two")))
    assert words(service) == {
        "openai · gpt-5 · key-a": "degraded",
        "openai · gpt-5 · key-a · one": "healthy",
        "openai · gpt-5 · key-a · two": "down",
    }


async def test_few_rows_are_read_however_many_there_are(
    service: Service, at_noon: ControlService
) -> None:
    write(service, *some(1500, 3500, ANSWERED), *some(1300, 3500, FAILED))
    with statements(at_noon.database) as asked:
        report = await status_report(at_noon)
        of_lanes = [each for each, _ in asked if "FROM lane_minutes" in each]
        assert 0 < len(of_lanes) <= 4, "whatever the service's own rounds ask meanwhile"
        assert not [each for each, _ in asked if "FROM exchanges" in each]
        assert await status_report(at_noon) is report, "for two seconds"


async def test_drifts_are_null_for_one_release(service: Service, at_noon: ControlService) -> None:
    write(service, *some(20, 60, ANSWERED))
    told = (await status_report(at_noon)).to_dict()
    StatusReport.model_validate(told)
    assert [lane["drifts"] for lane in told["items"]] == [None]


@pytest.mark.slow
def test_what_has_not_changed_takes_few_instructions(service: Service) -> None:
    write(service, *some(1500, 3500, ANSWERED), *some(1300, 3500, FAILED))
    with closing(Database(service.database)) as database:
        taken, rows = [], []
        for key in ("key-a", "key-b"):
            write(service, *some(1500, 3500, ANSWERED, key_digest=key))
            assert read_lanes(database, NOW)
            query = select(lane_minutes_table.c.minute)
            rows.append(len(database.read(lambda c: c.execute(query).all())))  # noqa: B023
            taken.append(opcodes(lambda: read_lanes(database, NOW)))
    assert rows[1] - rows[0] >= 50
    assert taken[1] - taken[0] <= 600 * (rows[1] - rows[0]), (taken, rows)


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
             "answered_at": None, "cause": None}
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


async def test_a_batch_is_told_of_its_own_keys_alone(
    service: Service, at_noon: ControlService
) -> None:
    for n in range(5):
        service.http.post("/rollouts", json={"id": f"r{n}", "batch": "b"})
    service.http.post("/rollouts", json={"id": "x", "batch": "other"})
    mine = [*some(40, 600, ANSWERED), *some(12, 180, FAILED)]
    theirs = [replace(each, id=f"x{n}", rollout_id="x") for n, each in enumerate(
        [*some(40, 600, ANSWERED, key_digest="key-b"), *some(12, 180, FAILED, key_digest="key-b")]
    )]  # fmt: skip
    write(service, *mine, *theirs)
    assert [each.name for each in await batch_episodes(at_noon, "b")] == ["openai · gpt-5 · key-a"]


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


async def test_an_operator_is_told_of_each_change(
    service: Service, at_noon: ControlService
) -> None:
    write(service, *some(40, 600, ANSWERED), *some(12, 180, FAILED))
    (down,) = [e for e in (await conditions(at_noon)).found if e.kind == "lane.down"]
    assert (down.subject, down.at) == ("openai · gpt-5 · key-a", NOW - 180)
    assert down.data["failed"] == {"provider_error": 12}
    write(service, *some(12, 50, ANSWERED))
    later = replace(at_noon, now=lambda: NOW)
    kinds = [e.kind for e in (await conditions(later)).found]
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
        assert (lane.open, lane.calls) == (3, 0)
        said = words_of(page(service, "/ui/upstreams"))
        assert "openai · gpt-5" in said, said
        assert " in flight " in said
        assert "1 key and model 0 of 0 3 " in said
    finally:
        over.set()
        for each in calling:
            each.join()


def test_a_call_waits_from_three_times_the_lane_s_p99_on() -> None:
    """One call in a hundred took 21 s, so that what is in flight for a minute is as usual."""
    read = LaneRows(
        tallies={}, overdue=[OverdueRow("openai", "gpt-5", "key-a", NOW - 60)],
        open=[OpenRow("openai", "gpt-5", "key-a", int(NOW // 60) - 1, 1, 1, NOW - 60)],
        p99_s={("openai", "gpt-5", "key-a"): 21.0},
    )  # fmt: skip
    assert [lane.health.waiting for lane in lanes_of(read, NOW)] == [0]
    assert [lane.health.waiting for lane in lanes_of(read, NOW + 5)] == [1]


def _open(service: Service) -> int:
    with closing(Database(service.database)) as database:
        return database.read(statistics.in_flight).calls
