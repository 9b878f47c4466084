"""The record of a rollout: three facts of the runner's and the verdict beside them."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from classifier import (
    ExecutionStatus,
    Health,
    Outcome,
    OutcomeError,
    Result,
    RolloutRecord,
    TerminationReason,
    judge,
    result,
    validate,
)
from classifier.batches import reward_of
from classifier.codec import encode_result
from classifier.diagnostics import ApiErrorInfo, SuspectedApiErrorInfo
from tests.builders import outcome, rollout
from tests.tables import each, lines


def judged(rollout: RolloutRecord) -> Result:
    return result(rollout, judge(rollout))


@each("row", lines(Path(__file__).with_name("results.jsonl")), ids=lambda row: row["fact"])
def test_a_result_holds_the_facts_apart(row: dict[str, Any]) -> None:
    encoded = encode_result(judged(rollout(row["calls"], **row["said"])))
    assert {name: encoded[name] for name in row["result"]} == row["result"]


def test_the_one_number_that_is_stored_counts_as_the_rewards_do() -> None:
    told: dict[str, Any] = {"rewards": {"reward": 0.0}, "eval": {"score": 0.0}}
    for text, number in (
        ("200+tool", 0.0),
        ("200+tool 400", 0.0),
        ("200+tool 401+judge*2", None),
        ("401*3", None),
    ):
        assert reward_of(judged(rollout(text, **told))) == number, text
        assert reward_of(judged(rollout(text, **told | {"rewards": None}))) == number, text


@each("status, text", list(product(ExecutionStatus, ["200+tool", "401*3", "200 503", ""])))
def test_no_fact_is_derived_from_another(status: ExecutionStatus, text: str) -> None:
    seen = rollout(text, status=status.value, rewards={"reward": 1.0})
    record = judged(seen)
    assert record.status is status
    assert (record.termination_reason is None) is (status is not ExecutionStatus.SUCCESS)
    assert (record.rewards is None) is (record.scoreable == "no")
    assert (record.error is None) is not (record.scoreable == "no")
    assert (record.error_category is None) is not record.health.unhealthy


def test_a_failure_is_found_in_its_own_field() -> None:
    failed, suspected = judged(rollout("401*4")), judged(rollout())
    assert [type(d) for d in failed.diagnostics] == [ApiErrorInfo]
    assert [type(d) for d in suspected.diagnostics] == [SuspectedApiErrorInfo]
    assert judged(rollout("200")).diagnostics == ()
    info = encode_result(failed)["api_error_info"]
    assert isinstance(info, dict)
    assert info["status_counts"] == {"401": 4}
    assert info["evidence"] == ["x0", "x1", "x2", "x3"]
    assert (info["subcategory"], info["transient"], info["fingerprint"]) == (
        "auth",
        False,
        "auth:401",
    )


def test_before_the_outcome_a_result_says_nothing_for_the_runner() -> None:
    record = judged(rollout("401", running=True))
    assert (record.status, record.termination_reason, record.rewards) == (None, None, None)
    assert (record.health, record.provisional) == (Health.API_ERROR, True)


def test_a_reason_to_stop_is_dropped_where_the_status_leaves_none() -> None:
    told = outcome("task_timeout", termination_reason="agent_stop")
    seen = rollout("200", outcome=told)
    assert judged(seen).termination_reason is None


def test_a_reason_to_stop_belongs_to_success_only() -> None:
    for status in ExecutionStatus:
        told = Outcome(status=status, termination_reason=TerminationReason.AGENT_STOP)
        if status is ExecutionStatus.SUCCESS:
            assert validate(told) is told
            continue
        with pytest.raises(OutcomeError, match="termination_reason") as caught:
            validate(told)
        assert caught.value.field == "termination_reason"


@each(
    "field, value",
    [
        ("prompts_executed", -1),
        ("tool_calls", -1),
        ("total_tokens", -5),
        ("rewards", {"reward": float("nan")}),
        ("rewards", {"a": 1.0, "b": float("inf")}),
    ],
)
def test_a_count_below_zero_or_a_reward_that_is_none_is_refused(field: str, value: object) -> None:
    told: dict[str, Any] = {field: value}
    with pytest.raises(OutcomeError) as caught:
        validate(outcome(**told))
    assert caught.value.field == field
    assert isinstance(caught.value, ValueError)


# What each verdict's page says of the reward, and a rollout that has the verdict.
_EXAMPLES = {
    "healthy": [rollout("200")],
    "api_error": [rollout("401*2")],
    "suspected_api_error": [rollout("")],
    "not_judged": [
        rollout("401", prompts_executed=0), rollout("", error="exit code 127"),
        rollout("", status="agent_error"),
    ],
    "undecided": [rollout("200 lost")],
}  # fmt: skip


def test_the_page_of_verdicts_and_the_result_say_the_same_of_the_reward() -> None:
    page = Path(__file__).parents[2] / "docs" / "concepts" / "verdicts.md"
    head = page.read_text("utf-8").partition("| `health` |")[2].partition("\n\n")[0]
    rows = [[cell.strip(" `") for cell in line.split("|")[1:4]] for line in head.splitlines()[2:]]
    assert [name for name, _, _ in rows] == list(_EXAMPLES)
    for health, _, reward in rows:
        for played in _EXAMPLES[health]:
            told = result(played, judge(played))
            assert told.health == health
            assert (told.rewards is None) is (reward == "null"), health
            assert reward != "null" or told.error, "a reward that is taken away says why"
