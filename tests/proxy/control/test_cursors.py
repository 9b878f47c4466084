"""Cursors are read back as they were made; whatever else is handed in is refused."""

from __future__ import annotations

import base64

import pytest

from proxy.control import queries

DEEP = base64.urlsafe_b64encode(b"[" * 12_000).decode()


@pytest.mark.parametrize("text", ["", "x", "é", "bm8gSlNPTg==", "a" * 5, DEEP, DEEP * 9])
def test_what_is_no_cursor_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        queries.decode_cursor(text)


@pytest.mark.parametrize("value", [None, "1", [1], 1e300, float("nan"), float("-inf"), 10**400])
def test_a_number_is_one_that_a_database_holds(value: object) -> None:
    assert (queries.cursor_number(1.7e9), queries.cursor_whole(3)) == (1.7e9, 3)
    for read in (queries.cursor_number, queries.cursor_whole):
        with pytest.raises(ValueError, match="not a number"):
            read(value)


@pytest.mark.parametrize("value", [None, 1, "a\x00b", ["a"], "\ud800", "a\udfff"])
def test_a_name_is_text_without_a_null_character(value: object) -> None:
    assert queries.cursor_name("a b") == "a b"
    with pytest.raises(ValueError, match="not a name"):
        queries.cursor_name(value)
