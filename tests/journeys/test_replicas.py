"""Three services on one PostgreSQL: whichever is asked, it knows what any of them saw."""

from __future__ import annotations

import itertools
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Hang, Provider
from tests.journeys.service import Service
from tests.journeys.test_durability import ASK, CHAT, PATIENCE_S, Agent
from tests.postgres import Server

pytestmark = pytest.mark.slow  # a cluster

_HTTP = httpx.Client(verify=False, timeout=PATIENCE_S)  # for plain HTTP, by any thread
DOWN = answers.FAILURES[Api.CHAT][Fault.PROVIDER_ERROR]


@pytest.fixture(scope="module")
def home(
    _provider: Provider, postgres_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Service]]:
    with ExitStack() as stack:
        url = stack.enter_context(postgres_server.database(prepared=False))
        settings = {"DATABASE_URL": url, "GRACE_S": "1"}
        folders = [tmp_path_factory.mktemp(name) for name in "abc"]
        services = [Service(folder, _provider.url, **settings) for folder in folders]
        starting = [threading.Thread(target=service.start) for service in services]
        for thread in starting:  # all of them at once bring the schema up to date
            thread.start()
        for thread in starting:
            thread.join()
        for service in services:
            stack.callback(service.stop)
        yield services


@pytest.fixture
def replicas(home: list[Service], provider: Provider) -> list[Service]:
    return home


def call(service: Service, rollout: str, key: str = "sk-1") -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"}
    url = service.base(rollout, "openai") + CHAT
    return _HTTP.post(url, json=ASK, headers=headers)


def test_a_verdict_is_exact_at_every_replica_after_every_call(
    replicas: list[Service], provider: Provider, rollout: str
) -> None:
    failed = 0
    for number, service in enumerate(itertools.islice(itertools.cycle(replicas), 24), start=1):
        failing = number % 3 == 0
        provider.plays(DOWN if failing else answers.healthy)
        failed += failing
        assert call(service, rollout).status_code == (503 if failing else 200)
        for asked in replicas:
            verdict = asked.verdict(rollout)
            assert (verdict["total_requests"], verdict["failed_requests"]) == (number, failed)


def test_a_call_in_flight_elsewhere_keeps_a_verdict_unsettled(
    replicas: list[Service], provider: Provider, rollout: str
) -> None:
    provider.plays(answers.chat_stream().stopping_after(1, Hang()))
    agent = Agent(replicas[0], rollout)
    assert agent.heard.wait(PATIENCE_S)
    began = time.monotonic()
    verdict = replicas[1].verdict(rollout, wait="settled", timeout_s="1")
    assert time.monotonic() - began >= 1  # it did wait, for all that it was told to
    (exchange,) = replicas[2].exchanges(rollout)
    assert exchange["ending"] is None
    assert verdict["total_requests"] == 1


def test_a_key_revoked_at_one_opens_nothing_anywhere(
    replicas: list[Service], provider: Provider, rollout: str
) -> None:
    key = str(replicas[0].register(id=rollout)["key"])

    def opened(service: Service) -> int:
        asked = {"authorization": f"Bearer {key}"}
        url = f"{service.url}/openai{CHAT}"
        return httpx.post(url, json=ASK, headers=asked).status_code

    assert [opened(service) for service in replicas] == [200] * 3
    httpx.post(f"{replicas[0].url}/key/delete", json={"keys": [key]}).raise_for_status()
    assert [opened(service) for service in replicas] == [403] * 3


def test_events_of_all_replicas_come_to_a_stream_open_at_one(
    replicas: list[Service], provider: Provider
) -> None:
    heard: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    url = f"{replicas[1].url}/batches/live/events"
    alive = threading.Event()
    listener = threading.Thread(target=_listen, args=(url, heard.put, alive), daemon=True)
    listener.start()
    for place, service in enumerate(replicas):
        service.register(id=f"live-{place}", batch="live")
    assert alive.wait(PATIENCE_S)
    provider.plays(DOWN)
    for place, service in enumerate(replicas):
        call(service, f"live-{place}")
        assert heard.get(timeout=PATIENCE_S)["rollout_id"] == f"live-{place}"


def _listen(url: str, tell: Callable[[dict[str, Any]], None], alive: threading.Event) -> None:
    """Tell of each event; ``alive`` is set with the first sign of life, from which on they come."""
    with httpx.stream("GET", url, timeout=PATIENCE_S) as answer:
        for line in answer.iter_lines():
            alive.set()
            if line.startswith("data:"):
                tell(json.loads(line.removeprefix("data:")))


def decided(service: Service, rollout: str) -> dict[str, Any]:
    """A verdict once every service had the time to write what it had kept."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := service.verdict(rollout))["health"] == "undecided":
        assert time.monotonic() < deadline, "it stays undecided"
        time.sleep(0.1)
    return found


@pytest.mark.postgres_smoke
@pytest.mark.promise
def test_what_it_could_not_write_survives_a_kill_while_postgresql_is_gone(
    provider: Provider, postgres_server: Server, tmp_path: Path
) -> None:
    with (
        postgres_server.database() as url,
        Service(tmp_path, provider.url, DATABASE_URL=url) as service,
    ):
        assert call(service, "done").is_success
        postgres_server.kill()
        for _ in range(5):
            assert call(service, "done").is_success
        provider.plays(answers.chat_stream().stopping_after(1, Hang()))
        assert Agent(service, "under-way").heard.wait(PATIENCE_S)
        service.kill()
        assert list(tmp_path.glob("truezero-spill/*.spill"))
        postgres_server.start()
        service.start()
        assert [each["ending"] for each in service.exchanges("done")] == ["complete"] * 6
        assert decided(service, "done")["health"] == "healthy"
        assert [each["ending"] for each in service.exchanges("under-way")] == ["lost"]
        assert service.verdict("under-way")["health"] == "undecided"
        assert not list(tmp_path.glob("truezero-spill/*.spill"))
    postgres_server.settle()  # other tests use it too, and their verdicts are to be stored
