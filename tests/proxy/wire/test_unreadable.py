"""The exception for a response that cannot be read."""

from __future__ import annotations

import pytest

from proxy.wire.framing import NdjsonFeeder, Unreadable


def test_its_text_is_a_reason_without_content() -> None:
    with pytest.raises(Unreadable) as caught:
        NdjsonFeeder(8).feed(b"secret secret")
    assert "over 8 bytes" in str(caught.value)
    assert "secret" not in str(caught.value)
