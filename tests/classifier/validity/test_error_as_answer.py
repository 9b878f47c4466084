"""Errors in the place of answers."""

from __future__ import annotations

import pytest

from classifier.records import Exchange
from classifier.validity.answers import ERROR_AS_ANSWER
from classifier.verdicts import Subcategory
from tests.classifier.validity.judged import call, coverage, found, level, record

TEXT = call("200", output_digest="a1")
TOOL = call("200+tool", output_digest="b1")
ERROR = call("200", output_digest="c1", output_reads_as=Subcategory.PROVIDER_ERROR)
JUDGED = call("200+judge", output_reads_as=Subcategory.PROVIDER_ERROR)
SIDE = call("200+side", output_reads_as=Subcategory.RATE_LIMIT)


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([ERROR], "suspect"),
        ([ERROR, ERROR], "suspect"),
        ([TOOL, ERROR], "suspect"),
        ([ERROR, TOOL, ERROR], "suspect"),
        ([ERROR, TOOL, TEXT], None),  # the agent went on
        ([TOOL, TEXT], None),
        ([TOOL, TEXT, JUDGED], None),
        ([TOOL, TEXT, SIDE], None),
    ],
)
def test_errors_count_where_nothing_else_came_or_last(
    calls: list[Exchange], expected: str | None
) -> None:
    assert level(ERROR_AS_ANSWER, record(calls)) == expected


def test_the_finding_names_the_failures() -> None:
    limited = call("200", output_digest="d1", output_reads_as=Subcategory.RATE_LIMIT)
    finding = found(ERROR_AS_ANSWER, record([TOOL, limited, ERROR]))
    assert finding is not None
    assert finding.sentence == (
        "2 of 3 answers read as an error (provider_error, rate_limit) in place of a model's "
        "words, the last one among them"
    )
    assert finding.evidence == ("x1", "x2")
    assert finding.about == {"reads_as": ["provider_error", "rate_limit"]}
    finding = found(ERROR_AS_ANSWER, record([ERROR]))
    assert finding is not None
    assert finding.sentence == (
        "1 of 1 answer read as an error (provider_error) in place of a model's words, all of them"
    )


def test_answers_whose_text_was_not_seen_are_not_covered() -> None:
    assert coverage(ERROR_AS_ANSWER, record([call("200"), TOOL, call("200+tool"), TEXT])) == (3, 4)
    assert coverage(ERROR_AS_ANSWER, record([call("429")])) is None
