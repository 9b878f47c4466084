"""Since when a lane fails, to the second, on every surface: never the edge of a minute or a window.

It is the time of the first failed call after the last answered one. Where that is longer ago than
anything is kept, it is unknown, and said to be.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pytest

from classifier.records import Cause, Exchange, KeySource, Timing
from classifier.verdicts import Subcategory
from proxy.control.health import batch_episodes, read_lanes
from proxy.control.queries import Service as ControlService
from proxy.control_plane import conditions
from proxy.features.alerts.store import Alert
from proxy.features.alerts.webhook import body_of
from proxy.store import lane_minutes
from proxy.store.database import Database
from proxy.store.lane_minutes import delete_before
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_health import ANSWERED, FAILED, write
from tests.proxy.web.test_pages import page
from tests.proxy.web.test_pages import words as words_of

DAY_S = 86_400.0


def at(like: Exchange, *times: float, rollouts: int = 5, **facts: object) -> list[Exchange]:
    """Calls of some rollouts that each make one at each time, a twentieth of a second apart."""
    return [
        replace(
            like,
            id=f"{like.cause is None:d}{n}-{start:.0f}-{facts.get('key_digest', '')}",
            rollout_id=f"r{n}",
            timing=Timing(started_at=start + n * 0.05, duration_s=0.5),
            **facts,  # type: ignore[arg-type]
        )
        for start in times
        for n in range(rollouts)
    ]


def named(service: Service) -> None:
    """Name the lane's model in a registration: without, agents alone would have named it."""
    service.http.post("/rollouts", json={"id": "named", "model": "gpt-5"}).raise_for_status()


class Told(NamedTuple):
    since: float | None
    answered_at: float | None


def lane(service: Service, now: float) -> Told:
    with closing(Database(service.database)) as database:
        (found,) = read_lanes(database, now)
    assert found.health.word == "down"
    return Told(found.health.since, found.health.answered_at)


class Outage(NamedTuple):
    """Its minute's begin, last answer and first failed call after it, which is in no edge."""

    minute: float
    answered_at: float
    since: float


@pytest.fixture
def outage(service: Service) -> Outage:
    """An outage that began within a minute, in which failures came before the last answer too."""
    minute = time.time() // 60 * 60 - 240
    write(
        service,
        *at(ANSWERED, *(minute - 600 + 10 * n for n in range(50))),
        *at(FAILED, minute + 5),
        *at(ANSWERED, minute + 10),
        *at(FAILED, minute + 20, minute + 30, minute + 50),
        *at(FAILED, *(minute + 60 + 10 * n for n in range(10))),
    )
    for n in range(5):
        service.http.post("/rollouts", json={"id": f"r{n}", "batch": "b"})
        outcome = {"status": "agent_error"}
        service.http.post(f"/rollouts/r{n}/outcome", json=outcome).raise_for_status()
    return Outage(minute, minute + 10.2, minute + 20)


def test_status_and_upstreams_say_it_to_the_second(service: Service, outage: Outage) -> None:
    (told,) = service.get("/status")["items"]
    (short,) = service.get("/status?public=1")["items"]
    (item,) = service.get("/upstreams")["items"]
    each = [
        (told, "since"), (short, "since"), (item, "failing_since"),
        (item["models"][0], "failing_since"), (item["keys"][0], "failing_since"),
    ]  # fmt: skip
    for where, name in each:
        assert int(where[name]) == outage.since, (where, outage.minute)
        assert where["answered_at"] == outage.answered_at, where


async def test_alerts_and_their_messages_say_it_to_the_second(
    service: Service, outage: Outage, control: ControlService
) -> None:
    later = replace(control, now=partial(float, outage.minute + 235))
    found = {each.kind: each for each in (await conditions(later)).found}
    for kind, name in (("lane.down", "since"), ("upstream.failing", "failing_since")):
        data = found[kind].data
        assert (int(data[name]), data["answered_at"]) == (outage.since, outage.answered_at)
        assert int(found[kind].at) == outage.since
        alert = Alert(
            id="a", kind=kind, subject="openai", at=found[kind].at, data=data, due_at=None
        )
        assert json.loads(body_of(alert))["data"][name] == data[name]


async def test_a_batch_is_told_when_an_outage_began_before_its_first_call(
    service: Service, control: ControlService
) -> None:
    minute = time.time() // 60 * 60 - 3000
    write(service, *at(ANSWERED, *(minute - 600 + 10 * n for n in range(59))))
    write(service, *at(FAILED, *(minute + 23 + 10 * n for n in range(200))))
    for n in range(5):
        service.http.post("/rollouts", json={"id": f"late{n}", "batch": "late"})
    began = [
        replace(each, id="l" + each.id, rollout_id="late" + each.rollout_id[1:])
        for each in at(FAILED, *(minute + 1203 + 10 * n for n in range(20)))
    ]
    write(service, *began)
    (found,) = await batch_episodes(control, "late")
    assert (found.since, found.answered_at) == (minute + 23, minute - 20 + 0.2)


def test_a_lane_that_was_never_called_before_fails_since_its_first_call(service: Service) -> None:
    """Contradiction 8: it was said to fail since before the service was started."""
    first = time.time() // 60 * 60 - 397
    named(service)
    write(service, *at(FAILED, *(first + 7 * n for n in range(50))))
    assert lane(service, first + 390) == (first, None)
    assert " none known " in words_of(page(service, "/ui/upstreams"))


@pytest.mark.parametrize(
    ("hours", "failures"), [(0.9, 5), (3, 18), (9, 54), (50, 300), pytest.param(4, 1, id="a pause")]
)
def test_it_goes_back_to_the_last_answer_however_long_ago(
    service: Service, hours: float, failures: int
) -> None:
    now = time.time() // 60 * 60
    began = now - hours * 3600 + 23
    failed = (began + 600 * n for n in range(failures))
    write(service, *at(ANSWERED, began - 500), *at(FAILED, *failed, now - 100, now - 40))
    assert lane(service, now) == (began, began - 500 + 0.2)


def test_it_is_unknown_where_the_minutes_before_are_deleted(service: Service) -> None:
    now = time.time() // 60 * 60
    limit = now - 2 * DAY_S
    named(service)
    failed = (now - 3 * DAY_S + 1800 * n for n in range(144))
    write(service, *at(FAILED, *failed, now - 100, now - 40))
    with closing(Database(service.database)) as database:
        database.change(delete_before, limit)
    assert lane(service, now) == (None, None)
    (told,) = service.get("/status")["items"]
    assert (told["word"], told["since"], told["answered_at"]) == ("down", None, None)
    (item,) = service.get("/upstreams")["items"]
    assert (item["failing"], item["failing_since"]) == (True, None)
    assert " down longer than is kept none known " in words_of(page(service, "/ui/upstreams"))


def test_it_is_known_where_an_answer_is_kept(service: Service) -> None:
    now = time.time() // 60 * 60
    limit = now - 2 * DAY_S
    write(service, *at(ANSWERED, limit - 700, limit + 100), *at(FAILED, limit + 130))
    write(service, *at(FAILED, now - 100, now - 40))
    with closing(Database(service.database)) as database:
        database.change(delete_before, limit)
    assert lane(service, now) == (limit + 130, limit + 100 + 0.2)


def test_it_is_unknown_of_a_lane_that_was_one_name_too_many(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_minutes, "UNKNOWN_NAMES", 2)
    now = time.time() // 60 * 60
    auth = Cause(subcategory=Subcategory.AUTH, transient=False, rule="status.401")
    own = replace(FAILED, status=401, cause=auth, key_source=KeySource.AGENT)

    def calls(times: Iterable[float], key: str) -> list[Exchange]:
        return at(own, *times, key_digest=key)

    both = [*calls([now - 300], "key-x"), *calls([now - 300], "key-y")]
    write(service, *both, *calls([now - 299, now - 200, now - 100, now - 40], "key-z"))
    named(service)
    with closing(Database(service.database)) as database:
        found = {each.place.key: each.health for each in read_lanes(database, now)}
    assert (found["key-z"].word, found["key-z"].since) == ("down", None)
    assert found[None].since is None, "several lanes are counted as one"
