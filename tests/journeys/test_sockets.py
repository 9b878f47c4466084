"""Agents that talk over a socket: counted as over HTTP, and sent to HTTP where there is none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.sync.server import ServerConnection

from tests.fakes import answers
from tests.fakes.provider import Provider
from tests.fakes.talker import (
    RESPONSES,
    RESPONSES_TOOLS,
    Talker,
    answering,
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


def test_two_turns_on_a_socket_are_two_exchanges_and_healthy(
    talking: Service, talker: Talker, rollout: str
) -> None:
    talker.script = answering(RESPONSES_TOOLS, RESPONSES)
    with agent(talking, rollout) as socket:
        for messages in (RESPONSES_TOOLS, RESPONSES):
            socket.send(create())
            assert [socket.recv(timeout=PATIENCE_S) for _ in messages] == messages
        # the agent has its last message, so all of it can be read
        first, second = calls(talking, rollout)
    assert (first["tool_calls"], second["tool_calls"]) == (1, 0)
    assert (second["input_tokens"], second["output_tokens"]) == (31, 5)
    assert (second["status"], second["usage_source"]) == (200, "provider")
    verdict = talking.verdict(rollout)
    assert (verdict["health"], verdict["total_requests"]) == ("healthy", 2)
    assert verdict["output_tokens"] == 10


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


def test_a_dead_account_on_a_socket_is_an_api_error(
    talking: Service, talker: Talker, rollout: str
) -> None:
    error = {"type": "insufficient_quota", "code": "insufficient_quota", "message": "no"}
    talker.script = answering([event("error", status=429, error=error)])
    with agent(talking, rollout) as socket:
        socket.send(create())
        socket.recv(timeout=PATIENCE_S)
    verdict = talking.verdict(rollout)
    assert (verdict["health"], verdict["fingerprint"]) == ("api_error", "quota:429")


def test_a_refused_key_is_an_api_error_where_nothing_else_was_tried(
    talking: Service, talker: Talker, rollout: str
) -> None:
    refused = answers.FAILURES[answers.Api.RESPONSES][answers.Fault.AUTH]
    talker.refuses(refused.status, refused.content)
    try:
        with pytest.raises(InvalidStatus), agent(talking, rollout):
            pass
    finally:
        talker.refusal = None
    verdict = talking.verdict(rollout)
    assert (verdict["health"], verdict["fingerprint"]) == ("api_error", "auth:401")


def test_an_agent_sent_to_http_is_healthy(
    service: Service, provider: Provider, rollout: str
) -> None:
    provider.plays(answers.whole({"detail": "Method Not Allowed"}, 405), answers.healthy)
    with pytest.raises(InvalidStatus) as refused, agent(service, rollout):
        pass
    assert refused.value.response.status_code == 426  # what Codex falls back on at once
    ask = httpx.post(
        service.base(rollout, "openai") + "/v1/responses", json={"model": "gpt-5", "input": "hi"}
    )
    assert ask.status_code == 200
    upgrade, call = service.exchanges(rollout)
    assert (upgrade["status"], call["status"]) == (405, 200)
    verdict = service.verdict(rollout)
    assert (verdict["health"], verdict["total_requests"]) == ("healthy", 1)
    assert (verdict["failed_requests"], verdict["doomed"]) == (0, False)


def test_a_socket_elsewhere_is_refused(service: Service, rollout: str) -> None:
    for path in (f"/r/{rollout}/nowhere/v1/responses", "/rollouts"):
        with pytest.raises(InvalidStatus) as refused:
            connect(service.url.replace("http", "ws") + path, proxy=None).__enter__()
        assert refused.value.response.status_code in (403, 404)


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


@pytest.mark.slow
def test_no_path_and_no_message_is_in_the_log(talker: Talker, tmp_path: Path, rollout: str) -> None:
    talker.script = answering(RESPONSES)
    with Service(tmp_path, talker.url, LOG_LEVEL="debug") as service:
        with agent(service, rollout, "/v1/responses?key=sk-secret") as socket:
            socket.send(create(instructions="sk-secret"))
            assert [socket.recv(timeout=PATIENCE_S) for _ in RESPONSES] == RESPONSES
        assert "sk-secret" not in service.log()
        assert "zero is true" not in service.log()
