"""A table that is one test hides no case behind another, and each row says where it is from."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from tests.tables import each, sources


def test_each_case_that_fails_is_told_and_all_are_run() -> None:
    ran = []

    @each("number, word", [(1, "one"), (2, "two"), (3, "three")], ids=lambda case: case[1])
    def odd(number: int, word: str) -> None:
        ran.append(word)
        assert number == 2, word

    with pytest.raises(ExceptionGroup, match=r"2 of 3 cases: .*\[one\]; .*\[three\]") as raised:
        odd()
    assert ran == ["one", "two", "three"]
    assert [str(error).partition("\n")[0] for error in raised.value.exceptions] == ["one", "three"]


async def test_each_case_of_a_coroutine_is_awaited() -> None:
    ran = []

    @each("number", [1, 2, 3])
    async def odd(number: int) -> None:
        await asyncio.sleep(0)
        ran.append(number)
        assert number == 2

    with pytest.raises(ExceptionGroup, match=r"2 of 3 cases: .*\[1\]; .*\[3\]"):
        await odd()
    assert ran == [1, 2, 3]


def test_fixtures_are_asked_for_and_given_to_each_case() -> None:
    given = []

    @each("number", [1, 2])
    def noted(number: int, fixture: str) -> None:
        given.append((number, fixture))

    assert list(inspect.signature(noted).parameters) == ["fixture"]
    noted(fixture="f")
    assert given == [(1, "f"), (2, "f")]


def test_a_table_without_cases_is_no_test() -> None:
    with pytest.raises(ValueError, match="no cases of number"):
        each("number", [])


def test_each_row_of_each_table_has_a_source() -> None:
    assert len(sources()) > 7_000
    assert [place for place, source in sources() if not source.strip()] == []
