"""Anthropic's failures: an overload of its own, and streams with named events."""

from __future__ import annotations

from proxy.relay.fault_scripts import (
    SILENT,
    FaultedRequest,
    anthropic_breaking,
    anthropic_errors,
    anthropic_stream,
)

REQUEST = FaultedRequest(model="m", streamed=True)


def test_an_overload_has_anthropics_own_status() -> None:
    error = anthropic_errors("m")["overloaded"]
    assert error.status == 529
    assert error.body["error"]["type"] == "overloaded_error"


def test_a_silent_stream_stops_its_message() -> None:
    events = anthropic_stream(REQUEST, SILENT)
    assert events[0].startswith(b"event: message_start\n")
    assert events[-1].startswith(b"event: message_stop\n")


def test_a_stream_breaks_with_an_error_event() -> None:
    assert anthropic_breaking(REQUEST).startswith(b"event: error\n")
