"""A response that is written at once: its order on the wire, its room, an agent that is gone."""

from __future__ import annotations

import asyncio

import pytest

from proxy.inbound.response import AgentResponse, FlowControl
from tests.proxy.relay.byhand import Line

FOUR = [(b"content-length", b"4")]


def response(*, keep_alive: bool = True) -> tuple[AgentResponse, Line, FlowControl, list[int]]:
    line, answered = Line(), list[int]()
    flow = FlowControl(line, asyncio.new_event_loop())
    flow.loop.close()
    agent = AgentResponse(flow, lambda: answered.append(1), bodiless=False, keep_alive=keep_alive)
    return agent, line, flow, answered


def test_a_head_parts_and_an_end_make_a_response() -> None:
    agent, line, _, answered = response()
    agent.start(200, [])
    assert agent.begun
    assert agent.pass_on(b"ab")
    assert (agent.complete, answered) == (False, [])
    agent.finish()
    assert line.sent == b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
    assert (agent.complete, answered, line.closed) == (True, [1], False)


def test_a_whole_response_is_one_write_and_may_end_its_connection() -> None:
    agent, line, _, answered = response(keep_alive=False)
    agent.send_now(200, FOUR, b"text")
    assert line.sent == b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\ntext"
    assert (answered, line.closed) == ([1], True)


def test_a_body_shorter_than_its_length_has_no_end() -> None:
    agent, _, _, answered = response()
    agent.start(200, FOUR)
    agent.pass_on(b"te")
    with pytest.raises(RuntimeError):
        agent.finish()
    assert (agent.complete, answered) == (False, [])


def test_nothing_is_written_to_an_agent_that_is_gone() -> None:
    agent, line, _, answered = response()
    left: list[int] = []
    agent.watch(lambda: left.append(1))
    agent.leave()
    agent.leave()
    agent.start(200, [])
    assert not agent.pass_on(b"ab")
    agent.finish()
    agent.send_now(200, FOUR, b"text")
    assert (left, line.sent, answered) == ([1], b"", [])
    agent.watch(lambda: left.append(2))
    assert left == [1, 2]


def test_who_waits_for_room_is_called_once() -> None:
    agent, _, flow, _ = response()
    flow.write_paused = True
    assert agent.paused
    assert not agent.pass_on(b"ab")
    called: list[int] = []
    agent.on_writable(lambda: called.append(1))
    flow.resume_writing()
    flow.resume_writing()
    agent.on_writable(lambda: called.append(2))
    agent.on_writable(None)
    flow.resume_writing()
    assert (called, agent.paused) == ([1], False)


def test_breaking_off_answers_500_or_cuts() -> None:
    agent, line, _, _ = response()
    agent.fail()
    assert line.sent.startswith(b"HTTP/1.1 500 ")
    assert line.closed
    agent, line, _, _ = response()
    agent.start(200, FOUR)
    line.said()
    agent.fail()
    assert (line.sent, line.closed) == (b"", True)
