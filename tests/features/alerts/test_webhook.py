"""Messages to the operator's webhook: signed, tried again, and sent by one of all processes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy.control.look import Condition, Conditions
from proxy.features.alerts.store import Alert, Alerts
from proxy.features.alerts.webhook import DELAYS_S, LOOK_EVERY_S, Webhook, body_of, signed
from proxy.store.database import Database
from tests.fakes.provider import Answer, Provider, Request, closed_port
from tests.features.alerts.test_webhook_settings import KEY, SECRET
from tests.proxy import inside
from tests.proxy.api.test_routes import Service
from tests.proxy.clocks import HandTurned
from tests.proxy.conftest import Services
from tests.proxy.control.test_batches import DEAD, play

DOWN = Condition(
    kind="upstream.failing", subject="openai", at=1_800_000_000.5, data={"upstream": "openai"}
)


class Watching:
    """Finds what a test says."""

    def __init__(self, *conditions: Condition) -> None:
        self.conditions = conditions
        self.looks = 0

    async def __call__(self) -> Conditions:
        self.looks += 1
        return Conditions(found=self.conditions, watched=frozenset({DOWN.kind}))


class Stage:
    """A database, a receiver, a clock, and as many processes as a test asks for."""

    def __init__(self, database: Database, client: httpx.AsyncClient, url: str) -> None:
        self.database = database
        self.client = client
        self.url = url
        self.watch: Any = Watching(DOWN)
        self.clock = HandTurned(1_800_000_100.0)

    async def turn(self, url: str | None = None) -> None:
        """A turn of some process."""
        with closing(Database(self.database.url)) as own:
            await self.process(own, url or self.url).turn(self.client)

    def process(self, database: Database, url: str, **sleeps: Any) -> Webhook:
        """One process that looks and posts."""
        return Webhook(
            Alerts(database.connections),
            database.deployment,
            look=self.watch,
            url=url,
            key=KEY,
            wall=self.clock,
            **sleeps,
        )

    def only(self) -> Alert:
        """The one alert that is kept."""
        (alert,) = Alerts(self.database.connections).known()
        return alert


@pytest.fixture
def receiver() -> Any:
    with Provider(lambda _: Answer(status=204)) as running:
        yield running


@pytest.fixture
async def stage(tmp_path: Path, receiver: Provider) -> AsyncIterator[Stage]:
    with closing(Database(str(tmp_path / "t.db"))) as database:
        database.prepare()
        async with httpx.AsyncClient() as client:
            yield Stage(database, client, f"{receiver.url}/hook?key=1")


def verified(request: Request) -> dict[str, Any]:
    """The message, if its signature is right: as a receiver's library checks it."""
    name, at = request.header("webhook-id"), request.header("webhook-timestamp")
    content = f"{name}.{at}.".encode() + request.body
    digest = hmac.new(KEY, content, hashlib.sha256).digest()
    assert request.header("webhook-signature") == "v1," + base64.b64encode(digest).decode()
    found: dict[str, Any] = json.loads(request.body)
    return found


def test_a_signature_is_as_the_standards_own_libraries_make_it() -> None:
    """The example of the reference implementation's tests."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    made = signed(
        b'{"test": 2432232314}', message_id="msg_p5jXN8AQM9LWM0D4loKWxJek", at=1614265330, key=key
    )
    assert made["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_message_has_type_time_and_data() -> None:
    alert = Alert(
        id="msg_1", kind=DOWN.kind, subject="openai", at=DOWN.at, data=DOWN.data, due_at=1.0
    )
    assert json.loads(body_of(alert)) == {
        "type": "upstream.failing",
        "timestamp": "2027-01-15T08:00:00.500Z",
        "data": {"upstream": "openai"},
    }


async def test_several_processes_send_one_message(stage: Stage, receiver: Provider) -> None:
    for _ in range(3):
        await stage.turn()
    assert stage.watch.looks == 1, "one of them has the turn"
    (request,) = receiver.requests
    assert (request.method, request.path) == ("POST", "/hook")
    assert verified(request)["data"] == {"upstream": "openai"}
    assert request.header("webhook-timestamp") == "1800000100"
    stage.clock.now += LOOK_EVERY_S
    await stage.turn()
    assert (stage.watch.looks, len(receiver.requests)) == (2, 1), "it was received"


def webhook_of(service: Service) -> Webhook | None:
    """The webhook that a running service looks and posts with, if it has one."""
    assert service.app is not None
    works = [getattr(each.run, "__self__", None) for each in inside.features(service.app)]
    return next((each for each in works if isinstance(each, Webhook)), None)


async def test_a_service_tells_of_its_open_breaker(services: Services, receiver: Provider) -> None:
    service = services(WEBHOOK_URL=receiver.url, WEBHOOK_SECRET=SECRET, BREAKER_THRESHOLD="1")
    play(service, "dead", DEAD, task="secret task")
    webhook = webhook_of(service)
    assert webhook is not None
    webhook._wall = lambda: time.time() + LOOK_EVERY_S  # the turn that its start took is over  # noqa: SLF001  its clock is turned by hand
    async with httpx.AsyncClient() as client:
        await webhook.turn(client)
    sent = {each["type"]: each["data"] for each in map(verified, receiver.requests)}
    assert sent.keys() == {"breaker.opened", "batch.unpublishable"}
    assert sent["breaker.opened"]["tripped_by"] == ["dead"]
    assert webhook_of(services(BREAKER_THRESHOLD="2")) is None


async def test_what_was_not_received_is_sent_again_with_its_id(
    stage: Stage, receiver: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    moved = {"location": f"{receiver.url}/elsewhere"}
    answers = iter(
        [Answer(status=500), Answer(status=302, headers=tuple(moved.items())), Answer(status=200)]
    )
    receiver.plays(lambda _: next(answers))
    waits = []
    with caplog.at_level(logging.INFO, logger="truezero"):
        for _ in range(3):
            await stage.turn()
            alert = stage.only()
            waits.append(None if alert.due_at is None else alert.due_at - stage.clock.now)
            stage.clock.now = alert.due_at or stage.clock.now
    assert waits == [DELAYS_S[0], DELAYS_S[1], None]
    assert len({request.header("webhook-id") for request in receiver.requests}) == 1
    assert {request.path for request in receiver.requests} == {"/hook"}
    times = [request.header("webhook-timestamp") for request in receiver.requests]
    assert times == ["1800000100", "1800000115", "1800000175"], "of the attempt"
    assert len({verified(request)["timestamp"] for request in receiver.requests}) == 1
    assert [record.getMessage() for record in caplog.records] == [
        "webhook: upstream.failing not delivered (HTTP 500)",
        "webhook: upstream.failing not delivered (HTTP 302)",
        "webhook: upstream.failing delivered",
    ]
    assert "hook?key" not in caplog.text


async def test_a_receiver_that_is_away_for_days_is_given_up(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = f"http://127.0.0.1:{closed_port()}/secret"
    for _ in range(len(DELAYS_S) + 1):
        await stage.turn(nowhere)
        alert = stage.only()
        stage.clock.now = alert.due_at or stage.clock.now
    assert (alert.due_at, alert.attempts) == (None, len(DELAYS_S) + 1)
    assert sum(DELAYS_S) > 86_400
    assert "given up after 9 attempts" in caplog.text
    assert "ConnectError" in caplog.text
    assert "secret" not in caplog.text


async def test_a_failed_look_does_not_end_those_to_come(stage: Stage, receiver: Provider) -> None:
    turns = 0

    async def sleep(_s: float) -> None:
        nonlocal turns
        turns += 1
        stage.clock.now += LOOK_EVERY_S
        if turns == 2:
            raise InterruptedError

    class Failing(Watching):
        async def __call__(self) -> Conditions:
            seen = await super().__call__()
            if self.looks == 1:
                raise ZeroDivisionError
            return seen

    stage.watch = Failing(DOWN)
    process = stage.process(stage.database, stage.url, sleep=sleep)
    with pytest.raises(InterruptedError):
        await process.run()
    assert len(receiver.requests) == 1
    assert replace(DOWN).kind == verified(receiver.requests[0])["type"]
