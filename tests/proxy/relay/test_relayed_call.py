"""A call without a task, step by step: what passes when, what is on record, what is cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from classifier.records import Ending
from proxy.relay.context import CallLimits
from tests.fakes import answers
from tests.proxy.relay.byhand import ASKED, GONE, STREAMED, CallByHand, call_by_hand, connection

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


async def test_what_comes_behind_the_last_event_is_recorded_too() -> None:
    call = streaming(call_by_hand(STREAMED))
    call.says(framed(DONE))
    call.book.commit()
    call.to_agent.said()
    call.says(framed(b": bye\n\n") + END)
    assert call.to_agent.said() == framed(b": bye\n\n")
    call.book.commit()
    assert (call.to_agent.said(), call.over) == (END, True)
    assert [each.response_bytes for each in call.book.exchanges] == [
        len(WORD + DONE), len(WORD + DONE) + 7,
    ]  # fmt: skip


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


async def test_an_empty_chunked_body_is_one() -> None:
    call = call_by_hand()
    call.says(SSE + END)
    call.book.opened_now()
    assert call.to_agent.said().endswith(b"chunked\r\n\r\n")
    call.book.commit()
    assert (call.to_agent.said(), call.over) == (END, True)


async def test_a_body_without_a_length_ends_with_its_connection() -> None:
    call = call_by_hand()
    call.says(b"HTTP/1.1 200 OK\r\n\r\nab")
    call.book.opened_now()
    call.provider.eof_received()
    assert call.to_agent.said().endswith(b"\r\n\r\n2\r\nab\r\n")
    call.book.commit()
    assert (call.to_agent.said(), call.only.ending) == (END, Ending.COMPLETE)


async def test_interim_answers_are_skipped() -> None:
    call = call_by_hand()
    call.says(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n", WHOLE)
    call.book.commit()
    assert b"link" not in (sent := call.to_agent.said())
    assert sent.startswith(b"HTTP/1.1 200 ")


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


async def test_parts_that_came_before_a_failure_are_passed_on_before_it() -> None:
    call = streaming(call_by_hand(STREAMED), durable=False)
    call.provider.connection_lost(OSError())
    call.book.opened_now()
    assert call.to_agent.said().endswith(framed(WORD))
    call.book.commit()
    assert call.to_agent.closed
    assert call.only.ending is Ending.CUT_UPSTREAM


# --- the agent ---------------------------------------------------------------------------------


async def test_an_agent_that_leaves_cuts_the_call() -> None:
    for call in (call_by_hand(), streaming(call_by_hand(STREAMED))):
        call.agent.leave()
        assert (call.to_provider.aborted, call.only.ending) == (True, Ending.LEFT_BY_AGENT)
        assert not call.over  # before it is on record
        call.book.commit()
        assert (call.over, call.answered) == (True, [])


DRAINED = CallLimits(drain_s=3600, drain_bytes=100)


async def test_an_answer_is_read_on_for_its_usage_without_its_agent() -> None:
    call = call_by_hand(limits=DRAINED)
    call.agent.leave()
    call.says(WHOLE)
    assert (call.only.ending, call.only.response_bytes) == (Ending.LEFT_BY_AGENT, 2)
    call.book.commit()
    assert (call.to_agent.said(), call.over) == (b"", True)


async def test_a_stream_is_read_on_to_its_last_event() -> None:
    call = streaming(call_by_hand(STREAMED, limits=CallLimits(drain_s=3600)))
    call.to_agent.said()
    call.agent.leave()
    call.says(framed(WORD), framed(DONE))
    call.book.commit()
    assert (call.to_agent.said(), call.over, call.to_provider.aborted) == (b"", True, True)
    assert (call.only.ending, call.only.response_bytes) == (
        Ending.LEFT_BY_AGENT, len(WORD + WORD + DONE),
    )  # fmt: skip


async def test_no_more_is_read_on_than_is_allowed() -> None:
    call = streaming(call_by_hand(STREAMED, limits=DRAINED))
    call.agent.leave()
    call.says(framed(WORD))
    assert not call.to_provider.aborted
    call.says(framed(WORD))
    assert (call.to_provider.aborted, call.only.ending) == (True, Ending.LEFT_BY_AGENT)


async def test_the_body_of_an_error_is_read_on_by_default() -> None:
    call = call_by_hand()
    call.says(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 38\r\n\r\n")
    call.book.opened_now()
    call.agent.leave()
    call.says(b'{"error":{"code":"insufficient_quota"}}'[:38])
    call.book.commit()
    assert (call.only.ending, call.only.status) == (Ending.LEFT_BY_AGENT, 429)
    assert call.only.cause is not None


async def test_an_agent_that_leaves_while_its_last_event_is_recorded_has_had_it() -> None:
    call = streaming(call_by_hand(STREAMED, limits=DRAINED))
    call.says(framed(DONE))
    call.agent.leave()
    assert (call.to_provider.aborted, call.over) == (True, False)
    call.book.commit()
    assert (call.only.ending, call.over) == (Ending.COMPLETE, True)


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


async def test_a_connection_that_went_stale_is_replaced_once() -> None:
    call = call_by_hand()
    first = call.to_provider.said()
    call.provider.connection_lost(None)
    fresh, line, _ = connection(reused=False)
    await turns()
    assert call.lines.opens is not None
    call.lines.opens.set_result(fresh)
    await turns()
    assert line.said() == first
    fresh.connection_lost(OSError())
    assert call.only.ending is Ending.CUT_UPSTREAM


async def test_a_call_connects_where_no_connection_is_idle() -> None:
    call = call_by_hand(idle=False)
    fresh, line, kept = connection(reused=False)
    await turns()
    assert call.lines.opens is not None
    call.lines.opens.set_result(fresh)
    await turns()
    assert line.said().startswith(b"POST /v1/chat/completions ")
    fresh.data_received(WHOLE)
    call.book.commit()
    assert call.to_agent.said().endswith(b"\r\n\r\n{}")
    assert (kept, call.over) == ([fresh], True)


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
