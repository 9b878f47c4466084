"""What a verdict says beside its health: counts, names, doom, lost time, warnings."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier import EVIDENCE, Health, Policy, RolloutRecord, judge
from classifier.codec import decode_exchange, encode_exchange
from classifier.logical_calls import calls_of, counted
from classifier.records import ExecutionStatus, LimitReached, Neighbours
from classifier.verdicts import RoleVerdict
from tests.builders import STARTED, calls, exchange, limit_reached, rollout
from tests.tables import each

# ── the sentence and the names ───────────────────────────────────────────────


def test_the_cause_carries_the_providers_code_else_our_reason() -> None:
    coded = calls("429+quota")[0]
    assert coded.cause is not None
    coded = replace(coded, cause=replace(coded.cause, code="insufficient_quota"))
    assert judge(rollout(exchanges=(coded,))).cause == "v1:quota:openai:429:insufficient_quota"
    assert judge(rollout("200+truncated")).cause == "v1:provider_error:openai:200:truncated"


# ── counts ───────────────────────────────────────────────────────────────────


def test_the_same_request_sent_anew_is_a_call_of_its_own() -> None:
    once = calls("429")[0]
    anew = replace(exchange(200, at=1.0), request_digest=once.request_digest)
    assert len(calls_of(counted((once, anew)))) == 2


def test_a_retry_of_another_request_is_no_attempt_of_this_one() -> None:
    other = replace(exchange(200, at=1.0), request_digest="else", sdk_retry=1)
    assert len(calls_of(counted((*calls("429"), other)))) == 2


def test_a_call_ends_with_its_last_attempt() -> None:
    first, between = exchange(503, request_digest="d"), exchange(200, at=1.0)
    again = exchange(503, at=2.0, request_digest="d", sdk_retry=1)
    verdict = judge(rollout(exchanges=(first, between, again)))
    assert (verdict.rule, verdict.total_requests) == ("interrupted", 2)


# ── properties ───────────────────────────────────────────────────────────────

WORDS = [
    "200", "200+tool", "200+empty", "200+nousage", "200+unread", "200+truncated",
    "200+text+truncated", "200+side", "401", "402", "404", "429", "429+quota", "503", "400",
    "400+context_length", "net", "timeout", "left", "left+text", "lost", "pending", "401+side",
    "200+judge", "429+judge", "404+probe", "200@o4", "503@o4", "400+malformed", "200+thought",
    "503+toolless", "200+toolless+small", "401+small", "200+queued", "200+polled", "200+fetched",
    "503+polled", "200+media", "401+embed", "200%azure", "503%azure", "200+read", "200+garbled",
    "200+tool+read", "200+blank", "200+unseen", "200+garbled+side", "200+media+garbled",
    "200+media+read", "404", "400+lost_state", "503+other", "200+shaped%azure",
]  # fmt: skip
SEQUENCES = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)


def crowded(text: str, seed: int) -> RolloutRecord:
    """Make the same calls overlap: starts and durations are drawn anew."""
    drawn = random.Random(seed)
    placed = tuple(
        replace(
            x,
            timing=replace(
                x.timing,
                started_at=STARTED + drawn.randrange(4),
                duration_s=None if x.ending is None else float(drawn.randrange(4)),
            ),
        )
        for x in calls(text)
    )
    return rollout(exchanges=placed)


@given(SEQUENCES, st.integers(0, 99), st.randoms(use_true_random=False))
def test_the_order_in_which_records_arrive_changes_nothing(
    text: str, seed: int, shuffled: random.Random
) -> None:
    seen = crowded(text, seed)
    arrived = list(seen.exchanges)
    shuffled.shuffle(arrived)
    assert judge(replace(seen, exchanges=tuple(arrived))) == judge(seen)


SEVERITY = {
    Health.HEALTHY: 0,
    Health.NOT_JUDGED: 0,
    Health.UNDECIDED: 1,
    Health.SUSPECTED_API_ERROR: 2,
    Health.API_ERROR: 3,
}


@given(SEQUENCES)
def test_a_success_behind_everything_never_makes_it_worse(text: str) -> None:
    before = judge(rollout(text))
    after = judge(rollout(text, "200+tool"))
    assert SEVERITY[after.health] <= SEVERITY[before.health]


@given(SEQUENCES)
def test_a_last_answer_of_the_main_model_is_never_an_api_error(text: str) -> None:
    verdict = judge(rollout(text, "200+tool", model="gpt-5"))
    assert verdict.health is not Health.API_ERROR
    assert verdict.doomed is False


@given(SEQUENCES, st.integers(0, 99))
def test_an_export_is_judged_as_the_live_rollout_was(text: str, seed: int) -> None:
    seen = crowded(text, seed)
    read = tuple(decode_exchange(encode_exchange(x)) for x in seen.exchanges)
    assert judge(replace(seen, exchanges=read)) == judge(seen)


@given(SEQUENCES)
def test_counts_never_contradict_each_other(text: str) -> None:
    verdict = judge(rollout(text))
    counted_calls = (verdict.recovered_requests, verdict.failed_requests, verdict.total_requests)
    assert tuple(sorted(counted_calls)) == counted_calls
    assert sum(verdict.status_counts.values()) >= verdict.failed_requests
    if verdict.rule == "all_failed":
        assert (verdict.recovered_requests, verdict.scoreable) == (0, "no")


@given(SEQUENCES, st.sampled_from([None, {"reward": 0.0}, {"reward": 1.0}]))
def test_rewards_never_decide(text: str, rewards: dict[str, float] | None) -> None:
    with_rewards, without = (judge(rollout(text, rewards=each)) for each in (rewards, None))
    beside: dict[str, Any] = {"validity": (), "validity_coverage": {}}  # `unearned` reads rewards
    assert replace(with_rewards, **beside) == replace(without, **beside)


@given(SEQUENCES)
def test_judging_again_says_the_same(text: str) -> None:
    seen = rollout(text)
    assert judge(seen, policy=EVIDENCE) == judge(seen)


SKIPPED = "skipped: breaker open on auth:401 after 5 rollouts in a row"


@pytest.mark.parametrize(
    "said",
    [
        {"prompts_executed": 0, "status": ExecutionStatus.SETUP_FAILED},
        {"status": ExecutionStatus.UNKNOWN_EXECUTION_ERROR, "error": "not admitted"},
        {"prompts_executed": 1},
    ],
    ids=["the service's own outcome", "a runner's error", "a runner that does not know"],
)
def test_a_rollout_that_no_breaker_admitted_is_skipped(said: dict[str, Any]) -> None:
    verdict = judge(replace(rollout("", **said), skipped=SKIPPED))
    assert (verdict.health, verdict.error) == (Health.NOT_JUDGED, SKIPPED)
    assert verdict.retry.reason == (
        "skipped: fix the cause, register again after truezero breaker reset b1"
    )
    assert verdict.sentence == (
        f"does not count: {SKIPPED.removeprefix('skipped: ')}; mend the cause, then register "
        "it again"
    )


def test_a_skipped_rollout_that_ran_all_the_same_is_judged_by_its_calls() -> None:
    verdict = judge(replace(rollout("200"), skipped=SKIPPED))
    assert (verdict.health, verdict.error) == (Health.HEALTHY, None)


# --- budgets -------------------------------------------------------------------------------------


OWN = limit_reached("rollout", own=100, callers=1)


@each(
    "reached, said, scoreable",
    [
        # its own limit counts as `max_steps` does
        (OWN, {}, "yes"),
        (OWN, {"budget": "score"}, "yes"),
        (OWN, {"budget": "exclude"}, "no"),
        (OWN, {"budget": "exclude", "agents": "untrusted"}, "yes"),
        # a batch's that others spent too always excludes
        (limit_reached(), {}, "no"),
        (limit_reached(), {"budget": "score"}, "no"),
        (limit_reached(), {"agents": "untrusted"}, "no"),
        (limit_reached(own=90, callers=2), {}, "no"),
        # what it spent alone is its own doing
        (limit_reached(own=100, callers=1), {}, "yes"),
        (limit_reached(own=100, callers=1), {"budget": "exclude"}, "no"),
        # an untrusted agent that spends more than its share is not rid of its zero by that
        (limit_reached(own=12, callers=9), {"agents": "untrusted"}, "yes"),
        (limit_reached(own=90, callers=2), {"agents": "untrusted"}, "yes"),
        (limit_reached(own=90, callers=2), {"agents": "untrusted", "budget": "exclude"}, "yes"),
        (None, {"budget": "exclude"}, "yes"),
    ],
)
def test_a_spent_limit_excludes_only_what_others_spent_or_the_policy_leaves_out(
    reached: LimitReached | None, said: dict[str, Any], scoreable: str
) -> None:
    verdict = judge(rollout("200+tool*9", limit_reached=reached, **said))
    assert (verdict.health, verdict.scoreable) == (Health.HEALTHY, scoreable)
    assert verdict.excluded_by == (("budget",) if scoreable == "no" else ())
    assert verdict.subcategory is None
    if scoreable == "no":
        assert verdict.retry.reason == "a limit was spent: raise it, then run it again"


def test_the_services_policy_says_if_a_spent_limit_is_scored_where_a_batch_does_not() -> None:
    spent, exclude = rollout("200+tool*9", limit_reached=OWN), Policy(budget="exclude")
    assert judge(spent, policy=exclude).excluded_by == ("budget",)
    assert judge(replace(spent, budget="score"), policy=exclude).excluded_by == ()


@each("said", [{}, {"status": "agent_error", "error": "Error code: 403"}])
def test_a_rollout_whose_batch_had_nothing_left_is_not_judged(said: dict[str, Any]) -> None:
    verdict = judge(rollout("", limit_reached=limit_reached(own=0), **said))
    assert (verdict.health, verdict.scoreable) == (Health.NOT_JUDGED, "no")
    assert verdict.excluded_by == ("budget",)
    assert verdict.error == "budget: the batch's limit of 100 calls was spent"
    assert judge(rollout("")).rule == "zero_signal"


def test_failures_decide_before_a_spent_limit_does() -> None:
    verdict = judge(rollout("401*2", limit_reached=limit_reached()))
    assert (verdict.health, verdict.excluded_by) == (Health.API_ERROR, ())


# --- content filters ----------------------------------------------------------------------------

FILTERED = "400+content_filter"


def test_an_outage_that_others_saw_does_not_make_a_filter_the_providers() -> None:
    seen = rollout(FILTERED, agents="untrusted")
    near = {"x0": Neighbours(alike=3)}
    verdict = judge(replace(seen, neighbours=near))
    assert (verdict.scoreable, verdict.attributed_to) == ("yes", "agent")


# --- Roles other than the agent have small verdicts of their own ----------------------------------


def roles(text: str, **said: Any) -> dict[str, RoleVerdict]:
    return judge(rollout(text, **said)).roles


def test_what_is_known_of_the_agent_does_not_count() -> None:
    # Another model than the registered one; and no prompt of the agent's was executed.
    assert roles("200 200+judge@gpt-4o", model="gpt-5")["judge"].health is Health.HEALTHY
    record = rollout("200+judge")
    assert record.outcome is not None
    unprompted = replace(record, outcome=replace(record.outcome, prompts_executed=0))
    verdict = judge(unprompted)
    assert verdict.health is Health.NOT_JUDGED
    assert verdict.roles["judge"].health is Health.HEALTHY


# --- What is suspected, what the sentence says was seen, and what proves it -----------------------


def test_what_the_proxy_refused_to_pass_on_is_said() -> None:
    why = "the provider states several lengths of one answer"
    failed = replace(calls("net")[0], unreadable_reason=why)
    verdict = judge(rollout(exchanges=(failed,)))
    assert verdict.error is not None
    assert why in verdict.error
    assert "answers_unread" in verdict.warnings
