"""Usage as the observer reads it, against labelled answers of real providers, if present."""

from __future__ import annotations

from typing import Any

import pytest

from tests.corpus_score import corpus_folder, heard_usage, score_usage, usage_rows

FOLDER = corpus_folder()

pytestmark = pytest.mark.skipif(
    FOLDER is None, reason="no corpus of labelled answers lies beside the project"
)


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    assert FOLDER is not None
    return usage_rows(FOLDER)


@pytest.mark.parametrize("size", [1 << 24, 1_000, 61])
def test_the_fields_of_usage_are_read_as_labelled(rows: list[dict[str, Any]], size: int) -> None:
    found = score_usage(rows, size)
    assert found.share >= 99.5, "\n".join(found.misses)


def test_no_healthy_answer_of_the_corpus_is_called_broken(rows: list[dict[str, Any]]) -> None:
    """What fails here holds an error in its body; none is cut, empty or misread."""
    heard = {row["id"]: heard_usage(row, 1_000) for row in rows}
    assert [name for name, exchange in heard.items() if exchange.unreadable_reason] == []
    causes = {name: exchange.cause for name, exchange in heard.items()}
    assert [n for n, cause in causes.items() if cause and cause.rule.startswith("flaw.")] == []
