"""Event streams line by line, and when a broken one is given up."""

from __future__ import annotations

import httpx
import pytest

from truezero.sdk.errors import ServiceError
from truezero.sdk.events import Event, Events


def test_events_are_read_line_by_line_and_resume_after_the_last() -> None:
    events = Events("b/1", after=None)
    assert (events.path, events.params) == ("/batches/b%2F1/events", {})
    lines = ["id: 7", "event: verdict_given", 'data: {"rollout_id": "r"}', ""]
    (event,) = filter(None, map(events.line, lines))
    assert event == Event(id=7, kind="verdict_given", data={"rollout_id": "r"})
    assert events.params == {"after": 7}
    assert events.line(": heartbeat") == Event(id=7, kind="alive", data={})
    assert list(filter(None, map(events.line, ["id: 9", ""]))) == []
    assert events.params == {"after": 9}


def test_signs_of_life_are_no_events_and_half_an_event_is_none() -> None:
    reader = Events("b", None)
    found = [reader.line(line) for line in (": alive", "", "id: 3", "event: x", "data: {}", "")]
    assert [event and event.kind for event in found] == ["alive", None, None, None, None, "x"]
    assert reader.params == {"after": 3}


def test_a_stream_is_given_up_after_five_broken_connections_in_a_row() -> None:
    events = Events("b", after=None)
    for _ in range(4):
        events.lost("http://truezero.test", httpx.ReadError("gone"))
    events.line(": heartbeat")
    for _ in range(4):
        events.lost("http://truezero.test", httpx.ReadError("gone"))
    with pytest.raises(ServiceError, match="ReadError"):
        events.lost("http://truezero.test", httpx.ReadError("gone"))
