"""Tokens that the runner reports and its calls did not have."""

from __future__ import annotations

from typing import Any

from classifier.validity.surroundings import USAGE_MISMATCH
from tests.classifier.validity.judged import call, coverage, found, level, record

CALL = call(input=4_000, output=100, cached_input_tokens=3_000)
CALLS = [CALL] * 4  # 16,000 of input, 12,000 of it cached, 400 of output


def test_a_count_that_fits_no_reading_is_suspect() -> None:
    for reported, expected in (
        (16_400, None),
        (16_000, None),  # input only
        (4_400, None),  # fresh input
        (5_600, None),  # cached input at a tenth
        (400, None),  # output only
        (4_100, None),  # the last call
        (32_800, None),  # twice as much
        (8_200, None),  # half as much
        (28_400, None),  # cached input counted twice
        (57_000, "suspect"),
        (10, "suspect"),
        (49, "suspect"),
        (110, "suspect"),  # no runner counts the output of the last call only
        (1_000_000, "suspect"),
        (0, None),
        (None, None),
    ):
        assert level(USAGE_MISMATCH, record(CALLS, total_tokens=reported)) == expected, reported


def test_a_runner_may_leave_side_calls_and_reasoning_out_or_count_a_judges() -> None:
    side = call("200+side", input=90_000, output=500)
    for calls, reported in (
        ([*CALLS, *[side] * 4], 16_400),
        ([*CALLS, *[side] * 4], 378_400),
        ([call(input=100, output=9_000, reasoning_tokens=8_900)], 200),
        ([CALL, call("200+judge", input=90_000, output=500)], 94_600),
        ([CALL, call("200+embed", input=90_000, output=0)], 94_100),
        ([CALL, call("429"), call("net")], 4_100),
    ):
        assert level(USAGE_MISMATCH, record(calls, total_tokens=reported)) is None, reported
        assert level(USAGE_MISMATCH, record(calls, total_tokens=2_000_000)) == "suspect", reported


def test_unknown_counts_are_not_compared() -> None:
    half: list[dict[str, Any]] = [
        {"input": None, "output": 100}, {"input": 100, "output": None, "output_tokens": None},
    ]  # fmt: skip
    for facts in half:
        judged = record([*CALLS, call(**facts)], total_tokens=10)
        assert found(USAGE_MISMATCH, judged) is None, facts
        assert coverage(USAGE_MISMATCH, judged) == (4, 5), facts
    for text in ("200+tool+nousage", "left", "pending", "200+media"):
        assert level(USAGE_MISMATCH, record([*CALLS, call(text)], total_tokens=10)) is None, text
    judges = record([*CALLS, call("200+judge+nousage")], total_tokens=10)
    assert level(USAGE_MISMATCH, judges) is None
    assert level(USAGE_MISMATCH, record(CALLS, total_tokens=10, gaps=1)) is None
    queued = [*CALLS, call("200+queued"), call("200+polled")]
    assert (
        level(USAGE_MISMATCH, record(queued, total_tokens=10)) == "suspect"
    )  # those cost nothing yet


def test_counts_that_say_nothing_of_the_cache_leave_room_for_it() -> None:
    silent = [call(input=4_000 + at, output=100) for at in range(10)]
    for reported, expected in (
        (10_000, None), (4_200, None), (80_000, None), (499, "suspect"), (90_000, "suspect"),
    ):  # fmt: skip
        assert level(USAGE_MISMATCH, record(silent, total_tokens=reported)) == expected, reported
    stating = [call(input=4_000 + at, output=100, cached_input_tokens=0) for at in range(10)]
    assert level(USAGE_MISMATCH, record(stating, total_tokens=10_000)) == "suspect"
    ollama = [call(input=400, output=100, api="ollama.chat")] * 3
    assert level(USAGE_MISMATCH, record(ollama, total_tokens=90_000)) is None
    assert coverage(USAGE_MISMATCH, record(ollama, total_tokens=90_000)) == (0, 3)


def test_it_is_about_rollouts_with_calls_and_a_count() -> None:
    assert coverage(USAGE_MISMATCH, record(CALLS)) is None
    assert coverage(USAGE_MISMATCH, record([], total_tokens=10)) is None
    assert coverage(USAGE_MISMATCH, record(CALLS, total_tokens=10, usage_channel="none")) is None
    assert coverage(USAGE_MISMATCH, record(CALLS, running=True)) is None
    assert coverage(USAGE_MISMATCH, record([call("429")], total_tokens=10)) is None


def test_the_finding_tells_both_counts() -> None:
    finding = found(USAGE_MISMATCH, record(CALLS, total_tokens=10))
    assert finding is not None
    assert finding.sentence == (
        "the runner reports 10 tokens; its calls had 16,400 (16,000 of input, 400 of output)"
    )
    assert finding.evidence == ("x0", "x1", "x2", "x3")
    assert finding.about == {"reported": 10, "input": 16_000, "output": 400}
