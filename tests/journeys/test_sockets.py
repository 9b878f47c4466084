"""Agents that talk over a socket: counted as over HTTP, and sent to HTTP where there is none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.sync.server import ServerConnection

from tests.fakes.talker import (
    RESPONSES,
    Talker,
    create,
    event,
    realtime,
)
from tests.journeys.service import Service

PATIENCE_S = 300.0


@contextmanager
def agent(
    service: Service, rollout: str, path: str = "/v1/responses"
) -> Iterator[ClientConnection]:
    url = service.base(rollout, "openai").replace("http://", "ws://") + path
    with connect(url, proxy=None, close_timeout=1) as socket:
        yield socket


@pytest.fixture(scope="module")
def talker() -> Iterator[Talker]:
    with Talker() as running:
        yield running


@pytest.fixture(scope="module")
def talking(talker: Talker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("talking"), talker.url) as running:
        yield running


def calls(service: Service, rollout: str) -> list[dict[str, Any]]:
    return [one for one in service.exchanges(rollout) if one["api"] != "websocket"]


@pytest.mark.slow
def test_openais_own_client_speaks_realtime_through_the_proxy(
    talking: Service, talker: Talker, rollout: str
) -> None:
    def speak(end: ServerConnection) -> None:
        end.send(event("session.created", event_id="e0", session={"model": "gpt-realtime"}))
        for _ in end:
            for message in realtime():
                end.send(message)

    talker.script = speak
    import openai

    client = openai.OpenAI(api_key="k", base_url=talking.base(rollout, "openai") + "/v1")
    with client.realtime.connect(model="gpt-realtime") as connection:
        connection.response.create()
        kinds = []
        while "response.done" not in kinds:
            kinds.append(connection.recv().type)
    (call,) = calls(talking, rollout)
    assert (call["api"], call["model"]) == ("openai.realtime", "gpt-realtime")
    assert (call["input_tokens"], call["cached_input_tokens"]) == (31, 8)
    assert talking.verdict(rollout)["health"] == "healthy"


@pytest.mark.slow
def test_a_service_that_stops_lets_the_response_under_way_end(
    talker: Talker, tmp_path: Path, rollout: str
) -> None:
    stopped = threading.Event()

    def pause(end: ServerConnection) -> None:
        end.recv()
        for message in RESPONSES[:6]:
            end.send(message)
        stopped.wait(PATIENCE_S)
        for message in RESPONSES[6:]:
            end.send(message)
        end.recv()

    talker.script = pause
    with Service(tmp_path, talker.url) as service:
        with agent(service, rollout) as socket:
            socket.send(create())
            got = [socket.recv(timeout=PATIENCE_S) for _ in range(6)]
            ending = threading.Thread(target=service.stop)
            ending.start()
            with pytest.raises(TimeoutError):
                socket.recv(timeout=0.5)
            stopped.set()
            got += [socket.recv(timeout=PATIENCE_S) for _ in RESPONSES[6:]]
            assert got == RESPONSES
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv(timeout=PATIENCE_S)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1001
            ending.join(PATIENCE_S)
        service.start()
        (call,) = calls(service, rollout)
    assert (call["ending"], call["output_tokens"]) == ("complete", 5)


@pytest.mark.slow
def test_a_service_that_is_killed_has_lost_the_response_under_way(
    talker: Talker, tmp_path: Path, rollout: str
) -> None:
    def half(end: ServerConnection) -> None:
        end.recv()
        for message in RESPONSES[:6]:
            end.send(message)
        end.recv()

    talker.script = half
    with Service(tmp_path, talker.url) as service:
        with agent(service, rollout) as socket:
            socket.send(create())
            for _ in range(6):
                socket.recv(timeout=PATIENCE_S)
            service.kill()
        service.start()
        (call,) = calls(service, rollout)
        assert call["ending"] == "lost"
        assert service.verdict(rollout)["health"] == "undecided"
