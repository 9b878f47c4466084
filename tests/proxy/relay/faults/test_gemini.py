"""Gemini's failures: how long to wait is in the body, and a stream may be a JSON array."""

from __future__ import annotations

import json

from proxy.relay.fault_scripts import (
    SILENT,
    WAIT_S,
    FaultedRequest,
    gemini_begun,
    gemini_errors,
    gemini_stream,
)


def test_a_rate_limit_says_in_its_details_how_long_to_wait() -> None:
    details = gemini_errors("m")["rate_limit"].body["error"]["details"]
    assert {"retryDelay": f"{WAIT_S}s"}.items() <= details[-1].items()


def test_a_stream_without_sse_is_a_json_array() -> None:
    request = FaultedRequest(model="m", streamed=True, framed=False)
    assert isinstance(json.loads(b"".join(gemini_stream(request, SILENT))), list)


def test_a_stream_with_sse_is_made_of_data_events() -> None:
    request = FaultedRequest(model="m", streamed=True)
    assert all(event.startswith(b"data: ") for event in gemini_begun(request))
