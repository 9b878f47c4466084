"""Which format is chosen, and that each encodes part by part."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from proxy.api.lists import CSV, FORMATS, LINES, Row, accepted, encoded
from truezero.models import RolloutItem

BARE: Row = {
    "id": "r1", "batch": None, "task": None, "attempt": None, "model": None, "upstream": None,
    "created_at": 1.5, "registered": True, "health": None, "subcategory": None,
    "fingerprint": None, "provisional": None,
}  # fmt: skip


def row(**facts: Any) -> Row:
    return RolloutItem.model_validate({**BARE, **facts}).model_dump()


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, None),
        ("*/*", None),
        ("application/json", None),
        ("text/html,application/xhtml+xml,*/*;q=0.8", None),
        ("image/png", None),
        (CSV, CSV),
        ("Text/CSV; charset=utf-8", CSV),
        (f"application/json;q=0.5, {LINES}", LINES),
        (f"{CSV};q=0.2, {LINES};q=0.9, application/json;q=0.3", LINES),
        (f"{CSV}, application/json", CSV),
        (f"{CSV};q=0, */*", None),
        (f"{CSV};q=x", None),
        (f"text/markdown, text/html, {CSV};q=0.5", CSV),
        ("text/markdown, text/html, */*", None),
    ],
)
def test_the_format_is_the_one_that_is_preferred(accept: str | None, expected: str | None) -> None:
    found = accepted(accept)
    assert (found and found.media_type) == expected


async def parts_of(name: str, *parts: list[Row]) -> list[bytes]:
    async def given() -> AsyncIterator[list[Row]]:
        for part in parts:
            yield part

    return [part async for part in await encoded(FORMATS[name], given())]


@pytest.mark.parametrize("name", list(FORMATS))
async def test_each_part_is_written_when_it_comes(name: str) -> None:
    written = await parts_of(name, [row(id="a")], [row(id="b"), row(id="c")])
    assert len(written) == 2
    assert all(written)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@a", "\tx", "\rx", "\n=x"])
async def test_no_text_of_a_csv_begins_a_formula(text: str) -> None:
    (whole,) = await parts_of(CSV, [row(task=text, reward=-0.5)])
    assert f"'{text}" in whole.decode()
    assert ",-0.5," in whole.decode(), "a number is one"
