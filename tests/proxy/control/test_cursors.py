"""Cursors are read back as they were made; whatever else is handed in is refused."""

from __future__ import annotations

import pytest

from proxy.control import cursors


def test_a_place_is_read_back() -> None:
    place = [1.5, "r é/1", "task", None]
    assert cursors.decode(cursors.encode(place)) == place


@pytest.mark.parametrize("text", ["", "x", "é", "bm8gSlNPTg==", "a" * 5])
def test_what_is_no_cursor_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        cursors.decode(text)


@pytest.mark.parametrize("value", [None, 1, "a\x00b", ["a"]])
def test_a_name_is_text_without_a_null_character(value: object) -> None:
    assert cursors.name("a b") == "a b"
    with pytest.raises(ValueError, match="not a name"):
        cursors.name(value)


def test_the_refusal_names_the_parameter() -> None:
    refusal = cursors.invalid()
    assert (refusal.status, refusal.code) == (422, "invalid")
    assert refusal.detail == "after: not a valid page cursor"
