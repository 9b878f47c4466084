"""Complete responses as ASGI messages."""

from __future__ import annotations

import json

import pytest

from proxy.inbound.asgi import (
    HTTP,
    WEBSOCKET,
    Message,
    RefusalCounter,
    noting_refusals,
    send_refusal,
    send_response,
)
from proxy.routing.errors import Refusal


@pytest.mark.parametrize("to", [HTTP, WEBSOCKET])
async def test_a_refusal_is_a_problem_document(to: str) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await send_refusal(Refusal(404, "unknown_call", "no coffee"), send, to=to)
    start, body = sent
    assert (start["type"], body["type"]) == (f"{to}.response.start", f"{to}.response.body")
    assert start["status"] == 404
    assert (b"x-truezero-refusal", b"unknown_call") in start["headers"]
    assert json.loads(body["body"])["detail"] == "no coffee"
    assert not body["more_body"]


async def test_refusals_among_responses_are_noted_by_their_codes() -> None:
    sent: list[Message] = []
    log = RefusalCounter("")

    async def send(message: Message) -> None:
        sent.append(message)

    noting = noting_refusals(send, log)
    await send_refusal(Refusal(404, "unknown_call", "no coffee"), noting)
    await send_response(noting, 404, [(b"content-type", b"text/plain")], b"")
    assert log.counts == {"unknown_call": 1}
    assert [message.get("status") for message in sent] == [404, None, 404, None]
