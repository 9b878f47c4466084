"""Answers of reasoning only."""

from __future__ import annotations

from classifier.records import Usage
from classifier.validity.answers import REASONING_ATE_BUDGET
from tests.classifier.validity.judged import call, coverage, found, level, record

WHOLE = call("200+tool")


def test_a_limit_that_reasoning_used_up_is_found() -> None:
    for text, facts, expected in (
        ("200+reasoned", {}, "suspect"),
        ("200+thought", {"output": 512}, "suspect"),  # hidden: only counted
        ("200+thought", {"reasoning_tokens": 512, "output": 512}, "suspect"),
        ("200+thought", {"output": 0}, None),  # nothing came at all
        ("200+reasoned", {"output_limit": 16}, "suspect"),
        ("200+reasoned", {"output_limit": 1}, None),  # a probe
        ("200", {"reasoning_tokens": 512}, None),  # text came too
        ("200+tool", {"reasoning_tokens": 512}, None),
        ("200+unread", {}, None),
        ("200+side+reasoned", {}, None),
    ):
        judged = record([WHOLE, call(text, **{"finish_reason": "length", **facts})])
        assert level(REASONING_ATE_BUDGET, judged) == expected, (text, facts)


def test_reasoning_that_ended_by_itself_is_another_matter() -> None:
    for reason in ("stop", "refusal", None):
        judged = record([WHOLE, call("200+reasoned", finish_reason=reason)])
        assert level(REASONING_ATE_BUDGET, judged) is None, reason


def test_the_finding_tells_how_much_went_into_it() -> None:
    eaten = call("200+thought", finish_reason="MAX_TOKENS", output=8192, output_limit=8192)
    finding = found(REASONING_ATE_BUDGET, record([eaten, WHOLE, eaten]))
    assert finding is not None
    assert finding.sentence == (
        "reasoning used up the limit of 2 of 3 answers before any text or tool call, the last one "
        "after 8,192 tokens"
    )
    assert finding.evidence == ("x0", "x2")
    assert finding.about == {"output_tokens": 8192, "limit": 8192}
    silent = call("200+reasoned", finish_reason="length", usage=Usage())
    finding = found(REASONING_ATE_BUDGET, record([silent]))
    assert finding is not None
    assert finding.sentence.endswith("before any text or tool call")


def test_answers_that_could_not_be_read_are_not_covered() -> None:
    unread = call("200", output_seen=None)
    assert coverage(REASONING_ATE_BUDGET, record([WHOLE, unread])) == (1, 2)
    assert coverage(REASONING_ATE_BUDGET, record([call("429")])) is None
