"""Answers that are a provider's error put in place of a model's words, and words about errors.

``error_texts.jsonl`` has both, written before the reader but for the last of each; none of the
sentences is from a corpus. ``cause`` is null of a model's own words.
"""

from __future__ import annotations

from pathlib import Path

from classifier.error_texts import LONGEST, reads_as
from classifier.verdicts import Subcategory
from tests.tables import each, lines

ROWS = lines(Path(__file__).with_name("error_texts.jsonl"))


def test_there_are_enough_of_both() -> None:
    errors = {row["text"] for row in ROWS if row["cause"]}
    words = {row["text"] for row in ROWS if not row["cause"]}
    assert len(errors) >= 40
    assert len(words) >= 60
    assert not errors & words


@each("row", ROWS, ids=lambda row: row["text"][:40])
def test_an_error_in_place_of_an_answer_is_read_and_a_models_own_words_are_not(
    row: dict[str, str | None],
) -> None:
    text, cause = row["text"], row["cause"]
    assert reads_as(text or "") == (None if cause is None else Subcategory(cause))


def test_what_is_long_is_no_error() -> None:
    error = "[API ERROR] HTTP 500: Internal Server Error."
    assert reads_as(f"{error}\n{' ' * LONGEST}\n") is not None
    assert reads_as(f"{error} {'Then the service went on. ' * 20}") is None
    assert reads_as(f"{error}\n\nI restarted the service and ran the tests again.") is None
