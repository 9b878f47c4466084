from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from proxy.inbound.response import AgentResponse, FlowControl, ResponseFraming
from tests.proxy.relay.byhand import Line
from tests.tables import each

# --------------------------------------------------------------------------------------------------
# A response that is written at once: its order on the wire, its room, an agent that is gone

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


# --- Responses as bytes: a head, then a body by length or in chunks -------------------------------


def framing(*, bodiless: bool = False, keep_alive: bool = True) -> ResponseFraming:
    return ResponseFraming(bodiless=bodiless, keep_alive=keep_alive)


def test_a_body_of_known_length_is_written_as_it_is() -> None:
    response = framing()
    assert response.head(200, [(b"content-length", b"3")]) == (
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n"
    )
    assert [response.part(b"ab", True), response.part(b"c", False)] == [b"ab", b"c"]


def test_a_body_of_unknown_length_is_chunked() -> None:
    response = framing()
    assert response.head(200, []).endswith(b"\r\ntransfer-encoding: chunked\r\n\r\n")
    parts = [response.part(b"ab", True), response.part(b"", True), response.part(b"c", False)]
    assert parts == [b"2\r\nab\r\n", b"", b"1\r\nc\r\n0\r\n\r\n"]


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_a_body_is_not_chunked(status: int) -> None:
    assert b"transfer-encoding" not in framing().head(status, [])


def test_a_head_request_gets_the_length_and_no_body() -> None:
    response = framing(bodiless=True)
    assert b"content-length: 3" in response.head(200, [(b"content-length", b"3")])
    assert response.part(b"abc", False) == b""


def test_a_connection_that_ends_says_so() -> None:
    assert b"\r\nconnection: close\r\n" in framing(keep_alive=False).head(204, [])
    response = framing()
    response.head(204, [(b"connection", b"Close")])
    assert not response.keep_alive


@pytest.mark.parametrize("body", [b"ab", b"abcd"], ids=["shorter", "longer"])
def test_a_body_that_breaks_its_length_is_not_written(body: bytes) -> None:
    response = framing()
    response.head(200, [(b"content-length", b"3")])
    with pytest.raises(RuntimeError, match="than its content-length"):
        response.part(body, False)


@each(
    "header",
    [(b"x-a", b"b\r\nx-smuggled: 1"), (b"x-a\r\nx-b", b"c"), (b"x-a", b"b\nc"), (b"x-a", b"b\rc")],
)
def test_a_line_break_in_a_header_is_not_written(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(RuntimeError, match="line break"):
        framing().head(200, [header])


# --- Pauses of a connection's two directions ------------------------------------------------------


class Transport:
    """Counts pauses."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")


def flow_control() -> tuple[FlowControl, Transport]:
    transport: Any = Transport()
    return FlowControl(cast(asyncio.Transport, transport), asyncio.get_running_loop()), transport


async def test_reading_pauses_and_resumes_once_each() -> None:
    flow, transport = flow_control()
    flow.resume_reading()
    flow.pause_reading()
    flow.pause_reading()
    flow.resume_reading()
    flow.resume_reading()
    assert transport.calls == ["pause", "resume"]


async def test_everyone_who_waits_for_room_is_woken() -> None:
    flow, _ = flow_control()
    flow.write_paused = True
    waiting = [asyncio.create_task(flow.drain()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.wait(waiting[:1])
    assert not any(task.done() for task in waiting[1:])
    flow.resume_writing()
    await asyncio.gather(*waiting[1:])
    assert not flow.write_paused
