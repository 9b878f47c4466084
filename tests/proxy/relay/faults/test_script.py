"""Server-sent events as the scripts write them."""

from __future__ import annotations

from proxy.relay.fault_scripts import data_event, named_event


def test_an_event_is_a_line_of_data() -> None:
    assert data_event({"a": 1}) == b'data: {"a": 1}\n\n'


def test_a_named_events_payload_has_its_name_as_its_type() -> None:
    assert named_event("ping", n=1) == b'event: ping\ndata: {"type": "ping", "n": 1}\n\n'
