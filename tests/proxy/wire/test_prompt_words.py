from __future__ import annotations

import base64
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.request import prompt_words

PROSE = "the river runs along the old wall and turns where nobody has built since the war "


def body(text: str) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()


@pytest.mark.parametrize("size", [9_000, 40_000, 400_000])
def test_prose_is_counted_nearly_whole_and_never_over(size: int) -> None:
    text = PROSE * (size // len(PROSE))
    words = prompt_words(body(text))
    assert words is not None
    assert 0.6 * len(text.split()) < words <= 1.02 * len(text.split())


NOTHING = {
    "base64": base64.b64encode(random.Random(1).randbytes(20_000)).decode(),
    "hex": random.Random(1).randbytes(10_000).hex(),
    "blanks": " " * 20_000,
    "blanks between words": ("word" + " " * 30) * 1_000,
    "a rule": "=====" * 4_000,
    "lines": "word\n" * 4_000,
    "another script": "слово за словом идут они " * 800,
    "escaped script": json.dumps("слово за словом идут они " * 800),
    "numbers": "12 34 56 78 " * 2_000,
    "one word": "x" * 20_000,
    "json": json.dumps([{"id": n, "ok": True} for n in range(1_000)], separators=(",", ":")),
}


@pytest.mark.parametrize("name", NOTHING)
def test_what_is_no_prose_counts_next_to_nothing(name: str) -> None:
    words = prompt_words(body(NOTHING[name]))
    assert words is not None
    assert words < len(NOTHING[name]) / 40


def test_prose_beside_a_blob_counts_by_its_share() -> None:
    text = PROSE * 250
    words = prompt_words(body(text + NOTHING["base64"]))
    assert words is not None
    assert words <= 1.2 * len(text.split())


def test_a_short_body_is_not_looked_at() -> None:
    assert prompt_words(PROSE.encode() * 100) is None
    assert prompt_words(PROSE.encode() * 102) is not None


@given(st.binary(max_size=64), st.integers(0, 200))
def test_any_bytes_have_no_more_words_than_pairs_of_bytes(piece: bytes, times: int) -> None:
    found = prompt_words(piece * times * 3)
    assert found is None or 0 <= found <= len(piece) * times * 3 / 2
