"""A request whose body is still arriving: what is sent when, what holds it up, what ends it."""
# ruff: noqa: SLF001
# Private: a call's clock, turned by hand.

from __future__ import annotations

import asyncio
import time

import pytest

from classifier.records import Ending
from proxy.relay.call import RelayState
from proxy.relay.context import CallLimits
from tests.proxy.relay.byhand import CallByHand, call_by_hand, connection
from tests.proxy.relay.test_relayed_call import WHOLE, turns

PARTS = (b'{"model":"gpt-5",', b'"messages":', b"[]}")
LENGTH = sum(map(len, PARTS))
SIZED = b"%d" % LENGTH


def arriving(length: bytes = SIZED, **how: object) -> CallByHand:
    """A call of which the first part is here."""
    return call_by_hand(PARTS[0], length=length, more=True, **how)  # type: ignore[arg-type]


def comes(call: CallByHand, part: bytes, *, last: bool = False) -> None:
    """Let the agent send a part."""
    call.agent.on_body_part(part)
    if last:
        call.agent.on_body_end()
    call.agent.hand_on()


async def test_nothing_is_sent_before_the_first_part() -> None:
    call = call_by_hand(b"", length=SIZED, more=True)
    assert (call.to_provider.said(), call.book.opens) == (b"", [])
    comes(call, PARTS[0])
    assert call.to_provider.said().endswith(PARTS[0])
    assert len(call.book.opens) == 1


async def test_an_agent_is_read_no_further_than_its_provider_reads() -> None:
    call = arriving(b"")
    call.to_provider.said()
    call.provider.pause_writing()
    comes(call, b"x" * 100)
    assert call.to_provider.said() == b""
    assert call.agent.on_body_part(b"y" * 70_000) == 70_100, "by which the connection is held"
    call.flow.pause_reading()
    call.provider.resume_writing()
    assert call.to_provider.said() == b"%x\r\n" % 70_100 + b"x" * 100 + b"y" * 70_000 + b"\r\n"
    assert not call.flow.held


async def test_what_comes_while_connecting_is_sent_when_that_is_done() -> None:
    call = arriving(idle=False)
    await turns()
    comes(call, PARTS[1])
    fresh, line, _ = connection(reused=False)
    assert call.lines.opens is not None
    call.lines.opens.set_result(fresh)
    await turns()
    assert line.said().endswith(b"\r\n\r\n" + PARTS[0] + PARTS[1])
    comes(call, PARTS[2], last=True)
    assert line.said() == PARTS[2]


@pytest.mark.parametrize("after", [1, 2, 3])
async def test_a_connection_gone_stale_is_replaced_and_the_body_sent_from_its_start(
    after: int,
) -> None:
    call = arriving()
    for number in range(1, after):
        comes(call, PARTS[number], last=number == 2)
    sent = call.to_provider.said()
    call.provider.connection_lost(None)
    await turns()
    for number in range(after, 3):
        comes(call, PARTS[number], last=number == 2)
    fresh, line, _ = connection(reused=False)
    assert call.lines.opens is not None
    call.lines.opens.set_result(fresh)
    await turns()
    assert line.said() == sent + b"".join(PARTS[after:])
    fresh.data_received(WHOLE)
    call.book.commit()
    assert call.to_agent.said().endswith(b"{}")


async def test_too_much_is_not_kept() -> None:
    call = arriving(b"")
    comes(call, bytes(5_000_000))
    call.provider.connection_lost(None)
    assert call.only.ending is Ending.CUT_UPSTREAM


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "in parts"])
async def test_an_early_answer_ends_the_sending(*, whole: bool) -> None:
    call = arriving()
    call.to_provider.said()
    call.says(WHOLE if whole else WHOLE[:-1])
    comes(call, PARTS[1])
    assert call.to_provider.said() == b""
    if not whole:
        call.book.opened_now()
        call.says(WHOLE[-1:])
    assert call.to_provider.aborted, "the rest of a request cannot follow"
    call.book.commit()
    assert call.to_agent.said().endswith(b"{}")
    assert (call.only.ending, call.only.request_bytes) == (Ending.COMPLETE, len(PARTS[0]))
    assert call.only.held


async def test_an_agent_that_leaves_ends_the_call_whatever_would_be_read_on() -> None:
    call = arriving(limits=CallLimits(drain_s=3600))
    call.agent.leave()
    assert (call.only.ending, call.to_provider.aborted) == (Ending.LEFT_BY_AGENT, True)
    call.book.commit()
    assert (call.to_agent.said(), call.over) == (b"", True)


# --- time limits -------------------------------------------------------------------------------


@pytest.mark.parametrize("opened", [True, False])
async def test_one_byte_over_the_limit_is_too_much(*, opened: bool) -> None:
    limit = len(PARTS[0]) if opened else len(PARTS[0]) - 1
    call = arriving(b"", limits=CallLimits(body_bytes=limit))
    assert (call.book.exchanges == []) is opened
    (relayed,) = call.tasks
    if opened:
        comes(call, b"x")
    assert relayed.state is RelayState.REFUSING
    assert (call.only.ending, len(call.book.opens)) == (Ending.LEFT_BY_AGENT, int(opened))
    comes(call, b"x" * 100_000, last=True)
    call.book.commit()
    assert call.to_agent.said().startswith(b"HTTP/1.1 413 ")
    assert call.over


async def recorded(call: CallByHand) -> None:
    """Wait until a call has ended."""
    async with asyncio.timeout(60):
        while not call.book.exchanges:
            await asyncio.sleep(0.002)


async def test_a_provider_that_does_not_read_ends_the_call() -> None:
    for call in (
        arriving(limits=CallLimits(write_s=0.05)), call_by_hand(limits=CallLimits(write_s=0.05)),
    ):  # fmt: skip
        began = time.monotonic()
        call.provider.pause_writing()
        await recorded(call)
        assert time.monotonic() - began >= 0.04
        assert call.only.ending is Ending.TIMED_OUT
        call.book.commit()
        assert call.to_agent.said().startswith(b"HTTP/1.1 504 ")


async def test_a_provider_that_reads_on_in_time_does_not() -> None:
    call = arriving(limits=CallLimits(write_s=0.05))
    call.provider.pause_writing()
    call.provider.resume_writing()
    await asyncio.sleep(0.1)
    assert call.book.exchanges == []


async def test_silence_is_no_providers_that_is_not_waited_for() -> None:
    """The request is not all there; the agent does not read; a commit is under way."""
    limits = CallLimits(read_s=0.05)
    sends, waits, commits = (
        arriving(limits=limits),
        call_by_hand(limits=limits),
        call_by_hand(limits=limits),
    )
    waits.says(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{")
    waits.flow.write_paused = True
    waits.book.opened_now()
    commits.says(WHOLE)
    await asyncio.sleep(0.2)
    assert (sends.book.exchanges, waits.book.exchanges) == ([], [])
    assert commits.only.ending is Ending.COMPLETE
    waits.flow.resume_writing()
    await recorded(waits)
    assert waits.only.ending is Ending.TIMED_OUT


@pytest.mark.reaches_in
async def test_a_provider_that_is_heard_now_and_then_is_not_silent() -> None:
    call = call_by_hand(limits=CallLimits(read_s=30))
    (relayed,) = call.tasks
    call.says(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n")
    call.book.opened_now()
    later = relayed._clock() + 1_000
    for number in range(3):
        call.says(b"x")
        relayed._clock = lambda at=later + number * 29: at
        relayed._look_for_silence()
    assert call.book.exchanges == []
    relayed._clock = lambda: later + 2 * 29 + 31
    relayed._look_for_silence()
    assert call.only.ending is Ending.TIMED_OUT
