"""Attacks on a verdict that was given: calls and sockets that outlive their rollout."""

from __future__ import annotations

import contextlib

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.arena.arena import ENDED, PATIENCE_S
from tests.attack.claims import claim
from tests.attack.stage import CHAT, Stage, received
from tests.fakes import answers
from tests.fakes.provider import Hang
from tests.fakes.talker import create


@claim("a call in flight ends with its rollout, before the outcome is answered")
def call_in_flight_at_the_end(stage: Stage) -> None:
    rollout = stage.rollout()
    stage.provider.plays(answers.chat_stream().stopping_after(2, Hang()))
    with stage.connection() as connection:
        body = CHAT[:-1] + b',"stream":true}'
        connection.sendall(stage.head(rollout, f"Content-Length: {len(body)}") + body)
        assert connection.recv(100)
        result = stage.service.outcome(rollout.id, **ENDED)
        received(connection)  # returns when the service has closed it
    (call,) = stage.exchanges(rollout)
    assert call["ending"] == "closed_at_outcome", call
    assert (result["provisional"], result["late_calls"]) == (False, 0), result


@claim("connections opened before the outcome carry no call after it")
def connections_of_an_ended_rollout(stage: Stage) -> None:
    rollout = stage.rollout()
    call = stage.head(rollout, f"Content-Length: {len(CHAT)}") + CHAT
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(stage.connection()) for _ in range(5)]
        for connection in opened:
            connection.sendall(call)
            assert connection.recv(9) == b"HTTP/1.1 "
        stage.provider.wait_for(len(opened))
        before = stage.judged(rollout)
        for connection in opened:
            with contextlib.suppress(ConnectionError):
                connection.sendall(call.replace(b"Host: x", b"Host: x\r\nConnection: close"))
            received(connection)
    assert len(stage.provider.requests) == len(opened)
    assert stage.service.verdict(rollout.id) == before


@claim("an open WebSocket ends with its rollout and with its key")
def socket_of_a_revoked_key(stage: Stage) -> None:
    for ends in ("outcome", "key"):
        rollout = stage.rollout()
        stage.talker.ended.clear()
        url = f"{stage.service.url}{rollout.path}/xai/v1/responses".replace("http", "ws", 1)
        with connect(url, proxy=None, close_timeout=1) as agent:
            agent.send(create())
            agent.recv(PATIENCE_S)
            if ends == "outcome":
                stage.judged(rollout)
            else:
                answer = stage.service.http.post("/key/delete", json={"keys": [rollout.key]})
                assert answer.is_success
            assert _closes(agent), ends
        assert stage.talker.ended.wait(PATIENCE_S), ends


def _closes(agent: ClientConnection) -> bool:
    """Whether a socket is closed before a hundred more messages have passed."""
    try:
        for _ in range(100):
            agent.send(create())
            agent.recv(PATIENCE_S)
    except ConnectionClosed:
        return True
    return False
