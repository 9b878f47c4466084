"""Admission of calls: which are claimed, which are refused, and what a drilled one meets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.inbound.asgi import CauseLog, Message
from proxy.relay.context import CallLimits, RequestNotices
from proxy.relay.relay import Relay
from proxy.routing.target import Target
from tests.fakes.relaying import Book, make_context
from tests.proxy.relay.calls import receiving
from truezero.models import Fault, FaultKind

CHAT = b"/r/r1/openai/v1/chat/completions"


async def answered(
    book: Book, *, path: bytes = CHAT, length: bytes = b"2", **rules: Any
) -> Message:
    """The head and body of a call's response, on a server without extensions."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    relay = Relay(make_context("http://127.0.0.1:9", book, **rules))
    scope = {
        "type": "http", "method": "POST", "raw_path": path, "query_string": b"",
        "headers": [(b"content-length", length)],
    }  # fmt: skip
    await relay(scope, receiving(b"{}"), send)
    body = b"".join(message.get("body", b"") for message in sent)
    return {**sent[0], "body": body}


class Drilled:
    """The access of a rollout whose every call meets a fault."""

    def __init__(self, kind: FaultKind) -> None:
        self._fault = Fault(kind=kind)

    def concerns(self, _: Target) -> bool:
        return True

    async def admit(self, _: Target) -> None:
        return None

    async def next_fault(self, _: Target, __: str) -> Fault:
        return self._fault


def test_the_paths_of_agents_are_claimed() -> None:
    relay = Relay(make_context("http://127.0.0.1:9", Book()))
    claimed = [relay.claims({"raw_path": path}) for path in (CHAT, b"/openai/v1/x", b"/rollouts")]
    assert claimed == [True, True, False]


@pytest.mark.parametrize(
    ("call", "status", "code"),
    [
        ({"path": b"/r/r1/nowhere/v1"}, 404, "unknown_upstream"),
        ({"length": b"101", "limits": CallLimits(body_bytes=100)}, 413, "body_too_large"),
        ({"proof_required": True}, 403, "unproven_rollout"),
    ],
)
async def test_a_refused_call_is_not_recorded(call: dict[str, Any], status: int, code: str) -> None:
    book, refusals = Book(), CauseLog("")
    response = await answered(book, notices=RequestNotices(refusals=refusals), **call)
    assert (response["status"], json.loads(response["body"])["code"]) == (status, code)
    assert book.exchanges == []
    assert refusals.counts == {code: 1}


async def test_a_drilled_call_is_recorded_as_injected() -> None:
    book = Book()
    response = await answered(book, access=Drilled("rate_limit"))
    assert response["status"] == 429
    assert book.only.injected


async def test_a_reset_that_the_server_cannot_play_is_a_refusal() -> None:
    response = await answered(Book(), access=Drilled("reset"))
    assert json.loads(response["body"])["code"] == "upstream_disconnected"
