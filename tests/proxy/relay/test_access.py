"""Admission of calls: which are claimed, which are refused, and what a drilled one meets."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from proxy.inbound.asgi import RefusalCounter
from proxy.relay.context import CallLimits, RefusedRequests
from proxy.relay.relay import Relay
from tests.fakes.relaying import Book, make_context
from tests.proxy.relay.byhand import CallByHand, call_by_hand

CHAT = b"/r/r1/openai/v1/chat/completions"


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
