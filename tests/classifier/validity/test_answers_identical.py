"""The same answer to prompts that grew."""

from __future__ import annotations

import pytest

from classifier.records import Exchange
from classifier.validity.answers import ANSWERS_IDENTICAL
from tests.classifier.validity.judged import call, coverage, found, level, record


def rollout_of(said: str, *sizes: int) -> list[Exchange]:
    """Answers by letter, small ones texts and capital ones tool calls; a dot was not seen."""
    sizes = sizes or tuple(range(1_000, 1_000 + 100 * len(said), 100))
    return [
        call(
            "200+tool" if letter.isupper() else "200",
            output_digest=None if letter == "." else letter * 32,
            request_bytes=size,
        )
        for letter, size in zip(said, sizes, strict=True)
    ]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("aaa", "suspect"),
        ("aa", None),
        ("abaca", "suspect"),  # texts, wherever they stand
        ("abab", None),
        ("AAA", "suspect"),
        ("ABAAA", "suspect"),
        ("ABACA", None),  # an agent that runs its tests again
        ("A.AA", "suspect"),  # nobody knows what was between
        ("aAa", None),
        ("...", None),
    ],
)
def test_three_answers_that_say_the_same(said: str, expected: str | None) -> None:
    assert level(ANSWERS_IDENTICAL, record(rollout_of(said))) == expected


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((900, 900, 900), None),  # one prompt, asked again
        ((900, 950, 950), None),
        ((900, 950, 950, 990), "suspect"),
        ((900, 950, 500), None),
        ((900, 500, 600, 700), "suspect"),
        ((900, 500, 600, 550), None),
    ],
)
def test_prompts_that_did_not_grow_may_well_get_one_answer(
    sizes: tuple[int, ...], expected: str | None
) -> None:
    assert level(ANSWERS_IDENTICAL, record(rollout_of("a" * len(sizes), *sizes))) == expected


def test_only_the_model_under_test_counts() -> None:
    for word in ("side", "judge"):
        others = [
            call(f"200+{word}", output_digest="f0", request_bytes=900 + at) for at in range(3)
        ]
        assert level(ANSWERS_IDENTICAL, record([*rollout_of("A"), *others])) is None, word


def test_the_finding_names_the_calls() -> None:
    finding = found(ANSWERS_IDENTICAL, record(rollout_of("aBaca")))
    assert finding is not None
    assert finding.sentence == "3 of 5 answers are the same text, though the prompt grew each time"
    assert finding.evidence == ("x0", "x2", "x4")
    finding = found(ANSWERS_IDENTICAL, record(rollout_of("BAAAA")))
    assert finding is not None
    assert finding.sentence == (
        "4 of 5 answers are the same tool call, though the prompt grew each time"
    )
    assert finding.about == {"answer": "tool call"}


def test_answers_without_a_digest_are_not_covered() -> None:
    assert coverage(ANSWERS_IDENTICAL, record(rollout_of("a..B"))) == (2, 4)
    assert coverage(ANSWERS_IDENTICAL, record([call("429")])) is None
