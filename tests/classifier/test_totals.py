"""What the calls of a rollout add up to."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier import Usage, judge
from classifier.records import Ending, Kind
from classifier.totals import sum_known, tokens_known, using_tokens
from classifier.verdicts import Verdict
from tests.builders import STARTED, exchange, rollout
from tests.tables import each


def test_a_sum_is_to_be_of_all_calls_that_used_tokens() -> None:
    record = rollout("200 200+nousage 429 net left pending 200+judge 200+probe 200+truncated")
    heads = [(x.status, x.ending, tokens_known(x)) for x in using_tokens(record.exchanges)]
    assert heads == [
        (200, Ending.COMPLETE, True),
        (200, Ending.COMPLETE, False),
        (None, Ending.LEFT_BY_AGENT, False),
        (200, Ending.COMPLETE, False),
    ]
    background = rollout("200+queued 200+polled 200+fetched")
    assert [x.kind for x in using_tokens(background.exchanges)] == [Kind.CONTINUATION]


@each("text", ["200 200+queued", "200 200+queued 200+polled",
               "200 200+queued 404+fetched"])  # fmt: skip
def test_a_background_response_that_is_never_fetched_used_unknown_tokens(text: str) -> None:
    record = rollout(text)
    assert [tokens_known(x) for x in using_tokens(record.exchanges)] == [True, False]
    verdict = judge(record)
    assert (verdict.input_tokens, verdict.output_tokens, verdict.total_tokens) == (None,) * 3
    assert "usage_missing" in verdict.warnings


def test_tokens_are_known_by_both_sides_or_a_total() -> None:
    for usage, known in (
        (Usage(input_total=1, output_total=2), True),
        (Usage(input_tokens=1, output_tokens=2), True),
        (Usage(total_tokens=3), True),
        (Usage(input_total=1), False),
        (Usage(output_total=0), False),
        (Usage(), False),
    ):
        assert tokens_known(exchange(usage=usage)) is known, usage


def test_a_sum_that_no_reader_would_keep_is_unknown() -> None:
    claimed = Usage(input_tokens=2**53 - 1, output_tokens=1, cost_usd=1e308)
    verdict = judge(rollout(exchanges=tuple(exchange(usage=claimed, at=n) for n in range(1030))))
    assert (verdict.input_tokens, verdict.output_tokens) == (None, 1030)
    assert (verdict.total_tokens, verdict.cost_usd) == (None, None)
    assert sum_known([2**53, None]) == 2**53
    assert sum_known([0.1] * 10) == 1.0, "the same on every version of Python"
    for odd in (math.nan, math.inf, 2.0**54):
        assert sum_known([1.0, odd]) is None


# --- Seconds of waiting, of loss and of the agent's own add up to a rollout's wall time -----------


def verdict(text: str, *, began: float | None = 0.0, ended: float | None = 20.0) -> Verdict:
    record = replace(
        rollout(text),
        began_at=None if began is None else STARTED + began,
        ended_at=None if ended is None else STARTED + ended,
    )
    return judge(record)


_SPAN = st.tuples(st.integers(0, 50), st.integers(1, 20))


@given(st.lists(st.tuples(st.sampled_from(("200", "429", "500", "401")), _SPAN), max_size=8))
def test_they_add_up_whatever_overlaps(calls: list[tuple[str, tuple[int, int]]]) -> None:
    text = " ".join(f"{head}[{start}-{start + took}]" for head, (start, took) in calls)
    told = verdict(text, ended=60.0)
    assert told.provider_s is not None and told.lost_s is not None and told.agent_s is not None
    assert told.provider_s + told.lost_s + told.agent_s == pytest.approx(60.0)
    assert min(told.provider_s, told.lost_s, told.agent_s) >= 0.0
