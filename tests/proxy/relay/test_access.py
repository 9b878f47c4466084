"""Admission of calls: which are claimed, which are refused, and what a drilled one meets."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from proxy.inbound.asgi import RefusalCounter
from proxy.relay.context import CallLimits, RefusedRequests
from proxy.relay.relay import Relay
from proxy.routing.target import Target
from tests.fakes.relaying import Book, make_context
from tests.proxy.relay.byhand import STREAMED, CallByHand, call_by_hand
from truezero.models import Fault

CHAT = b"/r/r1/openai/v1/chat/completions"


class Drilled:
    """The access of a rollout whose every call meets a fault."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    def concerns(self, _: Target) -> bool:
        return True

    def admit_cached(self, _: Target) -> bool:
        return False

    async def admit(self, _: Target) -> None:
        return None

    async def next_fault(self, _: Target, __: str) -> Fault:
        return self._fault


async def ended(call: CallByHand) -> bytes:
    """What the agent of a call was sent, once it is recorded."""
    async with asyncio.timeout(60):
        while not call.book.exchanges:
            await asyncio.sleep(0)
            call.book.opened_now()
    call.book.commit()
    return call.to_agent.said()


def test_the_paths_of_agents_are_claimed() -> None:
    relay = Relay(make_context("http://127.0.0.1:9", Book()))
    claimed = [relay.claims(path) for path in (CHAT, b"/openai/v1/x", b"/rollouts")]
    assert claimed == [True, True, False]


@pytest.mark.parametrize(
    ("call", "status", "code"),
    [
        ({"path": b"/r/r1/nowhere/v1"}, 404, "unknown_upstream"),
        (
            {"body": b"", "more": True, "length": b"101", "limits": CallLimits(body_bytes=100)},
            413,
            "body_too_large",
        ),
        ({"proof_required": True}, 403, "unproven_rollout"),
    ],
)
async def test_a_refused_call_is_not_recorded(call: dict[str, Any], status: int, code: str) -> None:
    refusals = RefusalCounter("")
    refused = call_by_hand(refused=RefusedRequests(calls=refusals), **call)
    head, _, body = refused.to_agent.said().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert json.loads(body)["code"] == code
    assert refused.book.exchanges == []
    assert refusals.counts == {code: 1}


async def test_a_drilled_call_is_recorded_as_injected() -> None:
    call = call_by_hand(access=Drilled(Fault(kind="rate_limit")))
    said = await ended(call)
    assert said.startswith(b"HTTP/1.1 429 ")
    assert call.only.injected
    assert call.only.status == 429


async def test_a_fault_that_nobody_reads_is_held_up_as_a_provider_is() -> None:
    call = call_by_hand(STREAMED, access=Drilled(Fault(kind="truncate_prompt")))
    call.flow.write_paused = True
    for _turn in range(50):
        await asyncio.sleep(0)
    call.book.opened_now()
    assert (call.to_agent.said(), call.book.exchanges) == (b"", [])
    call.flow.resume_writing()
    said = await ended(call)
    assert said.startswith(b"HTTP/1.1 200 ")
    assert said.endswith(b"0\r\n\r\n")
