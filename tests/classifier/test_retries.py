"""What is run again, and when."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier import Policy, advise, judge
from classifier.lane import Counted, wait_s
from classifier.records import Cause, RolloutRecord
from classifier.retries import LONGEST_WAIT_S, reset_command, with_advice
from classifier.verdicts import Subcategory, Verdict
from tests.builders import rollout
from tests.tables import each


def test_retries_run_out_and_never_start_over() -> None:
    verdict = judge(rollout("503"))
    eligible = [advise(verdict, attempt=n, rand=lambda: 1.0).eligible for n in range(5)]
    assert eligible == [True, True, False, False, False]
    assert judge(rollout("503", attempt=2)).retry.eligible is False
    assert judge(rollout("503", attempt=1)).retry.reason == "transient: retry 2 of 2"


def _in_band(rule: str, attempt: int) -> RolloutRecord:
    """A rollout whose calls all failed inside a 200, by a row of the table."""
    cause = Cause(subcategory=Subcategory.PROVIDER_ERROR, transient=True, rule=rule)
    record = rollout("200+truncated*2", attempt=attempt)
    calls = tuple(replace(call, cause=cause) for call in record.exchanges)
    return replace(record, exchanges=calls)


@given(st.floats(0, 1), st.integers(0, 9))
def test_the_wait_is_any_part_of_its_bound(drawn: float, attempt: int) -> None:
    many = Policy(max_retries=99)
    retry = advise(judge(rollout("503")), attempt=attempt, policy=many, rand=lambda: drawn)
    assert retry.after_s == pytest.approx(drawn * wait_s(attempt), abs=0.001)


def test_the_wait_is_never_less_than_the_provider_asks() -> None:
    verdict = judge(rollout("429~2 429~90"))
    assert verdict.provider_wait_s == 90
    assert advise(verdict, rand=lambda: 0.0).after_s == 90
    assert verdict.retry.after_s == 90
    assert advise(judge(rollout("429~0.2")), rand=lambda: 1.0).after_s == 1.0


@each("stated", [86_401.0, 1e18, math.inf])
def test_no_provider_makes_a_runner_wait_for_more_than_a_day(stated: float) -> None:
    verdict = replace(judge(rollout("503")), provider_wait_s=stated)
    retry = advise(verdict, rand=lambda: 0.0)
    assert (retry.eligible, retry.after_s) == (True, LONGEST_WAIT_S)
    used_up = advise(verdict, attempt=2, rand=lambda: 0.0)
    assert (used_up.eligible, used_up.after_s) == (False, LONGEST_WAIT_S)


def _rejected_for_now() -> Verdict:
    """A rejection that an operator's row calls transient."""
    cause = Cause(
        subcategory=Subcategory.REJECTED_REQUEST,
        transient=True,
        rule="operator",
        reason="malformed",
    )
    record = rollout("400*2")
    return judge(
        replace(record, exchanges=tuple(replace(x, cause=cause) for x in record.exchanges))
    )


def test_only_a_rejection_that_stays_the_same_is_deterministic() -> None:
    verdict, more = _rejected_for_now(), Policy(max_retries=9)
    assert (verdict.subcategory, verdict.transient) == (Subcategory.REJECTED_REQUEST, True)
    assert verdict.cause is not None
    twice = advise(verdict, attempt=1, policy=more, rand=lambda: 0, earlier=[verdict.cause])
    thrice = advise(verdict, attempt=2, policy=more, rand=lambda: 0, earlier=[verdict.cause] * 2)
    assert (twice.eligible, thrice.eligible) == (True, False)
    assert thrice.reason == "the same cause 3 times in a row: deterministic"
    never = Policy(max_retries=9, repetition=0)
    assert advise(
        verdict, attempt=5, policy=never, rand=lambda: 0, earlier=[verdict.cause] * 5
    ).eligible


@each("text", ["503*2", "500*2", "529*2", "429*2", "net*2", "200+truncated", "402+transient"])
def test_a_transient_cause_is_never_called_deterministic(text: str) -> None:
    verdict = judge(rollout(text))
    assert verdict.cause is not None
    for attempt in range(12):
        said = advise(
            verdict, attempt=attempt, policy=Policy(max_retries=9), rand=lambda: 0,
            earlier=[verdict.cause] * attempt,
        )  # fmt: skip
        assert "deterministic" not in said.reason
        assert said.eligible is (attempt < 9)


def test_an_attempt_on_a_lane_that_answers_nobody_does_not_count() -> None:
    verdict = judge(rollout("503*2"))
    down = advise(verdict, attempt=7, rand=lambda: 1.0, tries=Counted(0, last_counts=False))
    assert (down.eligible, down.after_s) == (True, 60.0)
    assert (
        down.reason == "transient: nothing on the lane is answered, so this attempt does not count"
    )
    back = advise(verdict, attempt=7, rand=lambda: 1.0, tries=Counted(2, last_counts=True))
    assert (back.eligible, back.reason) == (True, "transient: retry 2 of 2")
    used = advise(verdict, attempt=7, rand=lambda: 1.0, tries=Counted(3, last_counts=True))
    assert (used.eligible, used.reason) == (False, "transient, but all 2 retries are used")


@each("text", ["401*2", "402*2", "400*2", "", "200"])
def test_a_silent_lane_makes_nothing_else_eligible(text: str) -> None:
    verdict, silent = judge(rollout(text)), Counted(0, last_counts=False)
    assert not advise(verdict, attempt=3, rand=lambda: 1.0, tries=silent).eligible
    off = Policy(max_retries=0)
    assert not advise(judge(rollout("503")), policy=off, rand=lambda: 1.0, tries=silent).eligible


def test_what_is_run_again_once_counts_on_a_silent_lane_too() -> None:
    record, silent = _in_band("in_band.unnamed", 1), Counted(0, last_counts=False)
    assert not with_advice(judge(record), record, Policy(), (), silent).retry.eligible


def test_rollouts_that_fail_together_do_not_come_back_together() -> None:
    waits = [judge(rollout("503", id=f"r{n}")).retry.after_s for n in range(50)]
    assert len(set(waits)) > 40
    assert all(wait is not None and 0 <= wait <= 1.0 for wait in waits)
    assert judge(rollout("503", id="r7")).retry.after_s == waits[7]


def test_the_command_that_resets_a_breaker_is_one_whatever_the_batchs_name() -> None:
    assert reset_command("a b/c?d") == "truezero breaker reset 'a b/c?d'"
    assert reset_command(None) == "truezero breaker reset BATCH"
