"""A call without a task, step by step: what passes when, what is on record, what is cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from classifier.records import Ending
from proxy.relay.context import CallLimits
from tests.fakes import answers
from tests.proxy.relay.byhand import ASKED, GONE, STREAMED, CallByHand, call_by_hand

WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
WORD = answers.data({"choices": [{"index": 0, "delta": {"content": "word"}}]})
DONE = b"data: [DONE]\n\n"
END = b"0\r\n\r\n"


def framed(part: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(part), part)


def streaming(call: CallByHand, *, durable: bool = True) -> CallByHand:
    """The call with the head of its stream at the provider's side, and a word."""
    call.says(SSE)
    if durable:
        call.book.opened_now()
    call.says(framed(WORD))
    return call


async def test_a_whole_answer_is_sent_when_it_is_on_record() -> None:
    call = call_by_hand()
    assert call.to_provider.said() == (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: provider\r\ncontent-length: %d\r\n\r\n%b"
        % (len(ASKED), ASKED)
    )
    call.says(WHOLE[:40], WHOLE[40:])
    assert call.to_agent.said() == b""
    assert (call.only.ending, call.only.status, call.only.response_bytes) == ("complete", 200, 2)
    call.book.commit()
    assert call.to_agent.said() == (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n"
        b"x-truezero-exchange: x1\r\n\r\n{}"
    )
    assert (call.answered, call.over) == ([True], True)


async def test_a_body_in_parts_is_passed_on_in_parts() -> None:
    call = call_by_hand()
    call.says(WHOLE[:-2] + b"{")
    assert (call.to_agent.said(), call.book.starts_flushed) == (b"", True)
    call.book.opened_now()
    assert call.to_agent.said().endswith(b"\r\n\r\n{")
    call.says(b"}")  # the last byte of the stated length waits
    assert call.to_agent.said() == b""
    call.book.commit()
    assert (call.to_agent.said(), call.answered, call.over) == (b"}", [True], True)
    assert call.only.ending is Ending.COMPLETE


async def test_a_streams_chunks_pass_at_once_and_its_last_event_waits() -> None:
    call = streaming(call_by_hand(STREAMED))
    assert call.to_agent.said().endswith(b"transfer-encoding: chunked\r\n\r\n" + framed(WORD))
    call.says(framed(WORD))
    assert call.to_agent.said() == framed(WORD)
    call.says(framed(DONE))
    assert call.to_agent.said() == b""
    call.says(END)
    assert call.to_agent.said() == b""
    call.book.commit()
    assert (call.to_agent.said(), call.answered, call.over) == (framed(DONE) + END, [True], True)
    assert (call.only.ending, call.only.streamed) == (Ending.COMPLETE, True)


async def test_nothing_of_a_stream_is_sent_before_it_is_on_record_that_it_began() -> None:
    call = streaming(call_by_hand(STREAMED), durable=False)
    call.says(framed(WORD))
    assert (call.to_agent.said(), call.book.starts_flushed) == (b"", True)
    call.book.opened_now()
    assert call.to_agent.said().endswith(b"\r\n\r\n" + framed(WORD + WORD))


@pytest.mark.parametrize(
    ("head", "sent"),
    [
        (b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n", b"HTTP/1.1 204 No Content\r\n"),
        (b"HTTP/1.1 304 Not Modified\r\n\r\n", b"HTTP/1.1 304 Not Modified\r\n"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n",
        ),
    ],
)
async def test_a_head_without_a_body_waits_for_the_commit(head: bytes, sent: bytes) -> None:
    call = call_by_hand()
    call.says(head)
    assert call.to_agent.said() == b""
    call.book.commit()
    assert call.to_agent.said() == sent + b"x-truezero-exchange: x1\r\n\r\n"
    assert (call.only.ending, call.answered, call.over) == (Ending.COMPLETE, [True], True)


FAILURES: dict[str, tuple[Callable[[CallByHand], None], Ending, bytes]] = {
    "closed": (lambda call: call.provider.eof_received(), Ending.CUT_UPSTREAM, b"502"),
    "reset": (lambda call: call.provider.connection_lost(OSError()), Ending.CUT_UPSTREAM, b"502"),
    "no http": (lambda call: call.says(b"\x00\xff\r\n\r\n"), Ending.CUT_UPSTREAM, b"502"),
    "strange status": (
        lambda call: call.says(b"HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n"),
        Ending.CUT_UPSTREAM,
        b"502",
    ),
    "a status below 100": (
        lambda call: call.says(b"HTTP/1.1 099 Odd\r\ncontent-length: 0\r\n\r\n"),
        Ending.CUT_UPSTREAM,
        b"502",
    ),
    "a rollout that ended": (
        lambda call: next(iter(call.tasks)).close(), Ending.CLOSED_AT_OUTCOME, b"403",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
async def test_a_call_without_an_answer_is_refused_when_it_is_on_record(name: str) -> None:
    call = call_by_hand()
    call.provider.head_bytes = 1  # so that it is not taken for stale
    fails, ending, status = FAILURES[name]
    fails(call)
    assert (call.to_agent.said(), call.only.ending) == (b"", ending)
    call.book.commit()
    told = call.to_agent.said()
    assert told.startswith(b"HTTP/1.1 " + status)
    assert b"x-truezero-exchange: x1\r\n" in told
    assert (call.answered, call.over, call.to_provider.aborted) == (
        [True], True, "status" not in name,
    )  # fmt: skip
    assert sum(call.context.refused.calls.counts.values()) == 1


@pytest.mark.parametrize("name", ["closed", "reset", "a rollout that ended"])
async def test_an_answer_that_breaks_off_is_cut_when_that_is_on_record(name: str) -> None:
    call = streaming(call_by_hand(STREAMED))
    call.to_agent.said()
    fails, ending, _ = FAILURES[name]
    fails(call)
    assert (call.to_agent.closed, call.only.ending) == (False, ending)
    call.book.commit()
    assert (call.to_agent.said(), call.to_agent.closed, call.over) == (b"", True, True)
    assert call.to_provider.aborted


# --- the agent ---------------------------------------------------------------------------------


DRAINED = CallLimits(drain_s=3600, drain_bytes=100)


async def test_an_agent_that_leaves_before_the_commit_of_a_whole_answer_gets_nothing() -> None:
    call = call_by_hand()
    call.says(WHOLE)
    call.agent.leave()
    call.book.commit()
    assert (call.to_agent.said(), call.over, call.only.ending) == (b"", True, Ending.COMPLETE)


async def test_a_slow_agent_holds_its_provider_up() -> None:
    call = streaming(call_by_hand(STREAMED))
    call.to_agent.said()
    call.flow.write_paused = True
    big = answers.data({"choices": [{"index": 0, "delta": {"content": "x" * 40_000}}]})
    call.says(framed(big))
    assert not call.to_provider.reading_paused
    call.says(framed(big))
    assert (call.to_agent.said(), call.to_provider.reading_paused) == (b"", True)
    call.flow.resume_writing()
    assert (call.to_agent.said(), call.to_provider.reading_paused) == (framed(big + big), False)
    call.says(framed(DONE), END)
    call.book.commit()
    assert call.to_agent.said() == framed(DONE) + END
    assert (call.only.response_bytes, call.over) == (len(WORD + big + big + DONE), True)


async def test_an_agent_that_leaves_without_reading_lets_the_rest_be_read_on() -> None:
    call = streaming(call_by_hand(STREAMED, limits=DRAINED))
    call.flow.write_paused = True
    call.says(framed(WORD))
    call.agent.leave()
    call.flow.resume_writing()  # as a connection that is lost does
    call.says(framed(DONE))
    call.book.commit()
    assert (call.over, call.only.response_bytes) == (True, len(WORD + WORD + DONE))


@pytest.mark.parametrize("ends", ["whole", "stream", "refused"])
async def test_what_is_left_to_be_said_waits_for_room(ends: str) -> None:
    call = call_by_hand(STREAMED, paused=True)
    if ends == "whole":
        call.says(WHOLE)
    elif ends == "stream":
        streaming(call)
        assert call.to_agent.said() == b""
    else:
        call.provider.head_bytes = 1
        call.provider.eof_received()
    call.book.commit()
    assert (call.to_agent.said(), call.over) == (b"", False)
    call.flow.resume_writing()
    assert call.to_agent.said().startswith(b"HTTP/1.1 ")
    assert call.over is (ends != "stream")


# --- the provider's connections ----------------------------------------------------------------


async def test_a_provider_that_cannot_be_reached_was_never_connected() -> None:
    call = call_by_hand(idle=False)
    await turns()
    assert call.lines.opens is not None
    call.lines.opens.set_exception(GONE)
    await turns()
    call.book.commit()
    assert call.to_agent.said().startswith(b"HTTP/1.1 502 ")
    assert call.over


async def test_an_agent_that_leaves_stops_the_connecting() -> None:
    call = call_by_hand(idle=False)
    await turns()
    call.agent.leave()
    await turns()
    assert call.lines.opens is not None
    assert call.lines.opens.cancelled()
    assert call.only.ending is Ending.LEFT_BY_AGENT


async def turns() -> None:
    """Let the event loop go round a few times."""
    for _turn in range(4):
        await asyncio.sleep(0)
