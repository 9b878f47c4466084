"""OpenAI's failures: statuses, terminal events, and usage only where it was asked for."""

from __future__ import annotations

import json

import pytest

from proxy.relay.fault_scripts import (
    SILENT,
    FaultedRequest,
    chat_errors,
    chat_stream,
    responses_breaking,
    responses_errors,
    responses_stream,
)


def test_an_unknown_model_is_404_in_chat_and_400_in_responses() -> None:
    statuses = [errors("m")["model_not_found"].status for errors in (chat_errors, responses_errors)]
    assert statuses == [404, 400]


@pytest.mark.parametrize("usage", [True, False])
def test_a_silent_chat_stream_is_complete(usage: bool) -> None:
    request = FaultedRequest(model="m", streamed=True, usage=usage)
    *events, done = chat_stream(request, SILENT)
    assert done == b"data: [DONE]\n\n"
    payloads = [json.loads(event.removeprefix(b"data: ")) for event in events]
    assert any(payload.get("usage") for payload in payloads) is usage


def test_a_silent_responses_stream_ends_with_completed() -> None:
    request = FaultedRequest(model="m", streamed=True)
    assert responses_stream(request, SILENT)[-1].startswith(b"event: response.completed\n")
    assert responses_breaking(request).startswith(b"event: response.failed\n")
