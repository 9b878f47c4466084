"""The events of OpenAI's WebSocket APIs."""

from __future__ import annotations

import json

import pytest

from proxy.capture.websocket import (
    as_sse,
    close_error,
    error_headers,
    error_status,
    parse_message,
    response_id,
)
from proxy.wire.framing import SseEvent, SseFeeder


@pytest.mark.parametrize("message", [b'{"a":"b"}', b'{\r\n "a":\n "b"\r}'])
def test_a_message_is_one_event_whatever_its_line_breaks(message: bytes) -> None:
    (event,) = SseFeeder(1000).feed(as_sse(message))
    assert isinstance(event, SseEvent)
    assert json.loads(event.data) == {"a": "b"}


@pytest.mark.parametrize("message", [b"", b"[1]", b"{", b"null"])
def test_what_is_no_object_is_empty(message: bytes) -> None:
    assert parse_message(message) == {}


def test_a_response_is_named_by_the_event_or_inside_it() -> None:
    assert response_id({"response_id": "r1"}) == "r1"
    assert response_id({"response": {"id": "r2"}}) == "r2"
    assert response_id({"type": "session.created"}) is None


@pytest.mark.parametrize(
    ("event", "status"),
    [({"status": 429}, 429), ({"status_code": 503}, 503), ({"status": 200}, 200),
     ({"status": True}, 200), ({"status": "429"}, 200), ({}, 200)],
)  # fmt: skip
def test_an_error_event_states_its_status(event: dict[str, object], status: int) -> None:
    assert error_status(event) == status


def test_an_error_event_states_its_headers() -> None:
    event = {"headers": {"Retry-After": 7, "x": "y", "no": None}}
    assert list(error_headers(event)) == [(b"retry-after", b"7"), (b"x", b"y")]


@pytest.mark.parametrize("code", [None, 1000, 1001, 1005, 1006, 1012])
def test_a_normal_close_is_no_error(code: int | None) -> None:
    assert close_error(code, "bye") is None


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (3000, "invalid_request_error.invalid_api_key",
         {"type": "invalid_request_error", "code": "invalid_api_key"}),
        (1011, "keepalive timed out", {"message": "keepalive timed out"}),
        (1011, "", {"message": "closed: 1011"}),
    ],
)  # fmt: skip
def test_another_close_is_the_error_that_its_reason_names(
    code: int, reason: str, error: dict[str, str]
) -> None:
    assert json.loads(close_error(code, reason) or b"") == {"type": "error", "error": error}
