"""Answers that end at a limit of tokens."""

from __future__ import annotations

from typing import Any

from classifier.records import UsageSource
from classifier.validity.answers import OUTPUT_TRUNCATED
from tests.classifier.validity.judged import call, coverage, found, level, record

WHOLE = call("200+tool")
LAST = call("200")


def cut(text: str = "200", **facts: Any) -> Any:
    return call(text, **{"finish_reason": "length"} | facts)


def test_what_was_cut_says_how_much_it_matters() -> None:
    below: dict[str, Any] = {"output_limit": 4096, "output": 1800}
    for calls, expected in (
        ([WHOLE, LAST], None),
        ([cut(), WHOLE, LAST], "info"),
        ([WHOLE, cut()], "suspect"),
        ([cut("200+tool"), LAST], "suspect"),
        ([WHOLE, cut("200+side")], None),  # no answer of the model under test
        ([cut(**below), WHOLE, LAST], "invalid"),
        ([WHOLE, cut(**below)], "invalid"),
        ([WHOLE, call("429")], None),
        ([WHOLE, cut(), call("429")], "info"),  # the agent was cut off, by another cause
    ):
        assert level(OUTPUT_TRUNCATED, record(calls)) == expected, [x.finish_reason for x in calls]


def test_every_dialects_word_for_it_is_read() -> None:
    for reason in ("length", "max_tokens", "MAX_TOKENS", "model_length",
                   "incomplete:max_output_tokens"):  # fmt: skip
        assert level(OUTPUT_TRUNCATED, record([WHOLE, cut(finish_reason=reason)])) == "suspect", (
            reason
        )
    for reason in ("stop", "end_turn", "tool_calls", "STOP", "content_filter", "refusal"):
        assert level(OUTPUT_TRUNCATED, record([WHOLE, cut(finish_reason=reason)])) is None, reason


def test_a_cut_is_below_the_limit_only_where_the_counts_prove_it() -> None:
    for facts, expected in (
        ({"output_limit": 1000, "output": 940}, "invalid"),
        ({"output_limit": 1000, "output": 960}, "suspect"),  # Gemini ends a little earlier
        ({"output_limit": 1000, "output": 1000}, "suspect"),
        ({"output_limit": 1000, "output": 1400}, "suspect"),
        ({"output_limit": 50, "output": 40}, "suspect"),  # too near to say
        ({"output_limit": 1000, "output": None}, "suspect"),
        ({"output_limit": None, "output": 100}, "suspect"),
        # Reasoning that only the total counts.
        ({"output_limit": 1000, "output": 90, "input": 50, "total_tokens": 1050}, "suspect"),
        ({"output_limit": 1000, "output": 90, "input": 50, "total_tokens": 140}, "invalid"),
        # Counted before the answer was over.
        ({"output_limit": 1000, "output": 1}, "suspect"),
        ({"output_limit": 1000, "output": 90, "source": UsageSource.HEADER}, "suspect"),
    ):
        assert level(OUTPUT_TRUNCATED, record([WHOLE, cut(**facts)])) == expected, facts


def test_who_asks_for_a_few_tokens_gets_them() -> None:
    for limit, expected in ((1, "info"), (16, "info"), (17, "suspect")):
        one = record([cut(output_limit=limit, output=limit)])
        assert level(OUTPUT_TRUNCATED, one) == expected, limit


def test_an_unknown_limit_was_what_was_written() -> None:
    for written, expected in ((1, "info"), (16, "info"), (17, "suspect"), (None, "suspect")):
        assert level(OUTPUT_TRUNCATED, record([WHOLE, cut(output=written)])) == expected, written


def test_the_finding_tells_numbers_and_the_calls_that_matter() -> None:
    early = cut(output_limit=4096, output=1800)
    finding = found(OUTPUT_TRUNCATED, record([cut(), *[WHOLE] * 3, early, LAST]))
    assert finding is not None
    assert finding.sentence == (
        "2 of 6 answers ended at a limit of tokens, 1 of them below the limit that was asked for "
        "(1,800 of 4,096 tokens)"
    )
    assert (finding.calls, finding.of, finding.evidence) == (2, 6, ("x4",))
    assert finding.about == {"below_limit": 1, "last_or_tool_call": 0}


def test_only_answers_with_a_finish_reason_are_covered() -> None:
    assert coverage(OUTPUT_TRUNCATED, record([WHOLE, call("200", finish_reason=None)])) == (1, 2)
    assert coverage(OUTPUT_TRUNCATED, record([call("429")])) is None
    assert coverage(OUTPUT_TRUNCATED, record([WHOLE, call("200+side")])) == (1, 1)


def test_a_running_rollout_is_looked_at_too() -> None:
    assert level(OUTPUT_TRUNCATED, record([WHOLE, cut()], running=True)) == "suspect"
