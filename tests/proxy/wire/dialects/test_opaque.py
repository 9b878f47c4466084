"""The dialect of unknown formats."""

from __future__ import annotations

from proxy.wire.dialect import ResponseFacts
from proxy.wire.dialects.others import OPAQUE


def test_nothing_is_guessed() -> None:
    reading = ResponseFacts()
    OPAQUE.read(reading, {"usage": {"prompt_tokens": 1}, "choices": [{}]}, "message_stop")
    assert reading == ResponseFacts()
    assert OPAQUE.totals(reading) == (None, None)
    assert not OPAQUE.known
