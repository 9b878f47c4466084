"""What the calls of a rollout add up to."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier import Usage, UsageSource, judge
from classifier.records import Ending, Kind
from classifier.totals import sum_known, tokens_known, using_tokens
from classifier.verdicts import Verdict
from tests.builders import STARTED, exchange, rollout


def test_normalised_totals_are_summed_where_the_providers_numbers_differ() -> None:
    cached = Usage(
        input_tokens=5, input_total=905, output_tokens=20, output_total=50,
        source=UsageSource.PROVIDER,
    )  # fmt: skip
    verdict = judge(rollout(exchanges=(exchange(usage=cached),)))
    assert (verdict.input_tokens, verdict.output_tokens, verdict.total_tokens) == (905, 50, 955)


def test_a_stated_total_is_used_where_the_sides_are_unknown() -> None:
    only_total = Usage(total_tokens=77, source=UsageSource.PROVIDER)
    verdict = judge(rollout(exchanges=(exchange(usage=only_total),)))
    assert (verdict.input_tokens, verdict.total_tokens) == (None, 77)


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


@pytest.mark.parametrize("text", ["200 200+queued", "200 200+queued 200+polled",
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


def test_cost_is_what_providers_state_and_none_where_none_does() -> None:
    priced = exchange(usage=Usage(cost_usd=0.25))
    assert judge(rollout(exchanges=(priced, exchange(at=1.0)))).cost_usd == 0.25
    assert judge(rollout("200")).cost_usd is None


def test_a_sum_that_no_reader_would_keep_is_unknown() -> None:
    claimed = Usage(input_tokens=2**53 - 1, output_tokens=1, cost_usd=1e308)
    verdict = judge(rollout(exchanges=tuple(exchange(usage=claimed, at=n) for n in range(1030))))
    assert (verdict.input_tokens, verdict.output_tokens) == (None, 1030)
    assert (verdict.total_tokens, verdict.cost_usd) == (None, None)
    assert sum_known([2**53, None]) == 2**53
    assert sum_known([0.1] * 10) == 1.0, "the same on every version of Python"
    for odd in (math.nan, math.inf, 2.0**54):
        assert sum_known([1.0, odd]) is None


def test_lost_time_is_failed_calls_and_the_waits_before_their_retries() -> None:
    failed = exchange(429, at=0.0, took=0.5)
    again = exchange(429, at=2.0, took=1.0)
    fine = exchange(200, at=7.0, took=30.0)
    verdict = judge(rollout(exchanges=(failed, again, fine)))
    assert verdict.lost_s == pytest.approx(7.0)


def test_waits_that_overlap_are_lost_once() -> None:
    one, other = exchange(503, at=0.0, took=10.0), exchange(503, at=5.0, took=10.0, id="y")
    assert judge(rollout(exchanges=(one, other))).lost_s == pytest.approx(15.0)


def test_what_the_agent_did_behind_its_last_failure_is_not_lost() -> None:
    late = exchange(200, at=500.0, model="gpt-5-mini", has_tools=False)
    assert judge(rollout(exchanges=(exchange(401, took=0.5), late))).lost_s == pytest.approx(0.5)


def test_lost_time_is_zero_without_failures_and_none_when_no_duration_is_known() -> None:
    assert judge(rollout("200*3")).lost_s == 0.0
    assert judge(rollout(exchanges=(exchange(401, took=None),))).lost_s is None


# --- Seconds of waiting, of loss and of the agent's own add up to a rollout's wall time -----------


def verdict(text: str, *, began: float | None = 0.0, ended: float | None = 20.0) -> Verdict:
    record = replace(
        rollout(text),
        began_at=None if began is None else STARTED + began,
        ended_at=None if ended is None else STARTED + ended,
    )
    return judge(record)


def test_a_moment_counts_once_answers_first_and_failures_then() -> None:
    for text, provider_s, lost_s, agent_s in (
        ("200[1-4]", 3.0, 0.0, 17.0),
        ("200[1-4] 200[3-6]", 5.0, 0.0, 15.0),
        ("429[1-2] 200[5-6]", 1.0, 4.0, 15.0),  # and the wait before the next try
        ("429[1-4] 200[2-6]", 4.0, 1.0, 15.0),
        ("401[1-3]", 0.0, 2.0, 18.0),
        ("left[1-9]", 8.0, 0.0, 12.0),
        ("200[1-4] 200+judge[5-9]", 3.0, 0.0, 17.0),
        ("", 0.0, 0.0, 20.0),
        ("200[15-30]", 5.0, 0.0, 15.0),  # it ended after the outcome
    ):
        told = verdict(text)
        found = (told.provider_s, told.lost_s, told.agent_s)
        assert found == pytest.approx((provider_s, lost_s, agent_s)), text


def test_what_is_not_known_is_null() -> None:
    running = verdict("200[1-4]", ended=None)
    assert (running.provider_s, running.lost_s, running.agent_s) == (3.0, 0.0, None)
    old = verdict("200[1-4]", began=None)
    assert (old.provider_s, old.agent_s) == (3.0, None)


_SPAN = st.tuples(st.integers(0, 50), st.integers(1, 20))


@given(st.lists(st.tuples(st.sampled_from(("200", "429", "500", "401")), _SPAN), max_size=8))
def test_they_add_up_whatever_overlaps(calls: list[tuple[str, tuple[int, int]]]) -> None:
    text = " ".join(f"{head}[{start}-{start + took}]" for head, (start, took) in calls)
    told = verdict(text, ended=60.0)
    assert told.provider_s is not None and told.lost_s is not None and told.agent_s is not None
    assert told.provider_s + told.lost_s + told.agent_s == pytest.approx(60.0)
    assert min(told.provider_s, told.lost_s, told.agent_s) >= 0.0
