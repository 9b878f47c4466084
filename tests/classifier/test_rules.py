"""What a verdict says beside its health: counts, names, doom, lost time, warnings."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier import EVIDENCE, Health, Layer, Policy, RolloutRecord, Subcategory, judge
from classifier.codec import decode_exchange, encode_exchange
from classifier.logical_calls import calls_of, counted
from classifier.records import ExecutionStatus, LimitReached, Neighbours
from classifier.verdicts import RoleVerdict
from tests.builders import STARTED, calls, exchange, limit_reached, rollout
from tests.tables import each

# ── the sentence and the names ───────────────────────────────────────────────


def test_a_dead_account_is_said_in_one_sentence() -> None:
    verdict = judge(rollout("429+quota*4"))
    assert verdict.error == "api_error [quota, permanent]: HTTP 429 on 4 of 4 calls"
    assert verdict.fingerprint == "quota:429"
    assert verdict.cause == "v1:quota:openai:429:-"
    assert verdict.lane == "openai/gpt-5/key-3f9a"
    assert verdict.layer is Layer.PROXY_PROVEN
    assert verdict.transient is False


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("429*3 500", "api_error [rate_limit, transient]: HTTP 429 and 500 on 4 of 4 calls"),
        ("net*2", "api_error [provider_error, transient]: no answer on 2 of 2 calls"),
        ("net 503", "api_error [provider_error, transient]: HTTP 503 or no answer on 2 of 2 calls"),
        ("200+quota", "api_error [quota, permanent]: an error inside HTTP 200 on 1 of 1 call"),
        ("200*7 429*3", "api_error [rate_limit, transient]: HTTP 429 on the last 3 of 10 calls"),
        ("200+side 401*2", "api_error [auth, permanent]: HTTP 401 on 2 of 2 calls to gpt-5"),
        ("401 left", "api_error [auth, permanent]: HTTP 401 on 1 of 2 calls"),
    ],
)  # fmt: skip
def test_the_sentence_counts_the_calls_that_decided(text: str, sentence: str) -> None:
    assert judge(rollout(text)).error == sentence


@each(
    "text, way",
    [
        ("200+truncated*2", "HTTP 200 cut midway on 2 of 2 calls"),
        ("200+empty_body", "HTTP 200 with an empty body on 1 of 1 call"),
        ("200+html_body", "HTTP 200 with a web page as its body on 1 of 1 call"),
        ("200+foreign_body", "HTTP 200 with a body that is none of its API's on 1 of 1 call"),
        ("200+stalled", "HTTP 200 that fell silent on 1 of 1 call"),
        ("stalled", "no answer on 1 of 1 call"),
        ("net 200+truncated 503*2", "HTTP 503 or HTTP 200 cut midway or no answer on 4 of 4 calls"),
        ("200+quota 429+rate_limit*2", "HTTP 429 or an error inside HTTP 200 on 3 of 3 calls"),
    ],
)  # fmt: skip
def test_the_sentence_says_how_a_200_failed(text: str, way: str) -> None:
    error = judge(rollout(text)).error
    assert error is not None
    assert error.partition("]: ")[2] == way


def test_a_timeout_that_failures_filled_says_so() -> None:
    verdict = judge(rollout("529*6", status="task_timeout"))
    assert verdict.error == (
        "api_error [provider_error, transient]: HTTP 529 on 6 of 6 calls, until the task timed out"
    )


def test_the_cause_carries_the_providers_code_else_our_reason() -> None:
    coded = calls("429+quota")[0]
    assert coded.cause is not None
    coded = replace(coded, cause=replace(coded.cause, code="insufficient_quota"))
    assert judge(rollout(exchanges=(coded,))).cause == "v1:quota:openai:429:insufficient_quota"
    assert judge(rollout("200+truncated")).cause == "v1:provider_error:openai:200:truncated"


def test_a_row_of_the_cause_table_may_call_a_quota_transient() -> None:
    assert judge(rollout("402+transient*2")).transient is True
    assert judge(rollout("402*2")).transient is False


def test_the_failing_lane_is_named_not_the_one_that_answered() -> None:
    assert judge(rollout("401#aaaa 401#bbbb")).lane == "openai/gpt-5/key-bbbb"
    assert judge(rollout("200+side 404")).lane == "openai/gpt-5/key-3f9a"


# ── counts ───────────────────────────────────────────────────────────────────


def test_a_429_that_later_succeeds_is_recovered() -> None:
    verdict = judge(rollout("429 429 200"))
    counts = (verdict.total_requests, verdict.failed_requests, verdict.recovered_requests)
    assert (verdict.health, counts) == (Health.HEALTHY, (3, 2, 2))
    assert verdict.status_counts == {"429": 2}


def test_a_success_of_another_model_recovers_nothing() -> None:
    assert judge(rollout("200+tool 503+side 200+tool")).recovered_requests == 0


def test_an_sdks_retries_are_one_call_and_every_answer_is_counted() -> None:
    verdict = judge(rollout("429 429^1 200^2 200"))
    counts = (verdict.total_requests, verdict.failed_requests, verdict.recovered_requests)
    assert counts == (2, 1, 1)
    assert verdict.status_counts == {"429": 2}


def test_the_same_request_sent_anew_is_a_call_of_its_own() -> None:
    once = calls("429")[0]
    anew = replace(exchange(200, at=1.0), request_digest=once.request_digest)
    assert len(calls_of(counted((once, anew)))) == 2


def test_a_retry_of_another_request_is_no_attempt_of_this_one() -> None:
    other = replace(exchange(200, at=1.0), request_digest="else", sdk_retry=1)
    assert len(calls_of(counted((*calls("429"), other)))) == 2


def test_other_roles_and_kinds_add_nothing() -> None:
    verdict = judge(rollout("200+tool 200+judge 200+embed 429+judge 404+probe"))
    assert (verdict.total_requests, verdict.total_tokens, verdict.status_counts) == (1, 30, {})


def test_a_retry_with_the_same_number_is_another_call() -> None:
    assert judge(rollout("429 429^1 429^1")).total_requests == 2


def test_a_call_ends_with_its_last_attempt() -> None:
    first, between = exchange(503, request_digest="d"), exchange(200, at=1.0)
    again = exchange(503, at=2.0, request_digest="d", sdk_retry=1)
    verdict = judge(rollout(exchanges=(first, between, again)))
    assert (verdict.rule, verdict.total_requests) == ("interrupted", 2)


def test_a_redirect_is_no_answer() -> None:
    verdict = judge(rollout("302+empty"))  # as recorded before it had a state
    assert (verdict.health, verdict.scoreable) == (Health.UNDECIDED, "unknown")
    verdict = judge(rollout("302+garbled"))
    assert (verdict.rule, verdict.scoreable) == ("unread_answers", "no")
    verdict = judge(rollout("302+garbled 200+tool+read"))
    assert (verdict.rule, verdict.scoreable) == ("healthy", "yes")
    for text in ("200+tool+read 302+garbled", "200+tool+read 503 302+garbled"):
        verdict = judge(rollout(text))
        assert (verdict.scoreable == "yes", verdict.rule == "healthy") == (False, "503" not in text)
    said = judge(rollout("200+tool+read 302+garbled")).warnings
    assert "ended_on_unread_answers" in said


# ── doomed ───────────────────────────────────────────────────────────────────


@each(
    "text, doomed",
    [
        ("401", False),
        ("401*2", True),
        ("401 401 pending", True),
        ("401 pending", False),
        ("404*2", True),
        ("400*2", True),
        ("429+quota*2", True),
        ("429 429^1", False),
        ("429+quota 429+quota^1", True),
        ("429*9", False),
        ("503*9", False),
        ("net*9", False),
        ("401 403", False),
        ("401 503 401", True),
        ("200 401", False),
        ("200 401*2", True),
        ("200 402*2", True),
        ("200 404*2", False),
        ("200 400*5", False),
        ("401*2 200", False),
        ("401*2 200 401", False),
        ("200+side 401*2", True),
        ("200 401+side*4", False),
        ("200 401+judge*4", False),
        ("402+transient*4", False),
        ("", False),
    ],
)
def test_a_rollout_is_doomed_by_the_second_equal_permanent_failure(text: str, doomed: bool) -> None:
    assert judge(rollout(text, running=True)).doomed is doomed
    assert judge(rollout(text)).doomed is doomed


def test_how_many_failures_doom_is_policy() -> None:
    three = rollout("401*3", running=True)
    assert judge(three, policy=Policy(doomed_after=3)).doomed is True
    assert judge(three, policy=Policy(doomed_after=4)).doomed is False
    assert judge(three, policy=Policy(doomed_after=0)).doomed is False


# ── scoreable, provisional ───────────────────────────────────────────────────


@each(
    "text, said, scoreable",
    [
        ("200", {}, "yes"),
        ("401", {}, "no"),
        ("", {}, "no"),
        ("lost", {}, "unknown"),
        ("", {"prompts_executed": 0}, "no"),
        ("302+empty", {}, "unknown"),
        ("left", {}, "no"),
        ("302+empty@o5 200@o4", {"model": "o5"}, "unknown"),
        ("302+empty@o5 200@o4", {"model": "o6"}, "yes"),
        ("200+tool 400", {}, "unknown"),
        ("200+tool 400 200", {}, "yes"),
        ("200+tool 400+malformed", {}, "yes"),
        ("200+media", {}, "yes"),
        ("401+media", {"error": "no picture"}, "unknown"),
        ("", {"status": "agent_error"}, "no"),
        ("", {"usage_channel": "none"}, "yes"),
        ("", {"total_tokens": 9}, "yes"),
        ("200*9", {"termination_reason": "max_steps"}, "yes"),
    ],
)
def test_a_zero_counts_only_where_a_model_was_reached(
    text: str, said: dict[str, Any], scoreable: str
) -> None:
    assert judge(rollout(text, **said)).scoreable == scoreable


def test_whether_running_out_of_steps_is_scored_is_policy() -> None:
    ran_out = rollout("200*9", termination_reason="max_steps")
    assert judge(ran_out).scoreable == "yes"
    assert judge(ran_out, policy=Policy(max_steps="exclude")).scoreable == "no"
    stopped = rollout("200*9")
    assert judge(stopped, policy=Policy(max_steps="exclude")).scoreable == "yes"


def test_a_rollout_whose_runner_was_stopped_is_no_measurement() -> None:
    verdict = judge(rollout("200*2", status="cancelled"))
    assert (verdict.health, verdict.scoreable) == (Health.HEALTHY, "no")
    assert (verdict.excluded_by, verdict.retry.eligible) == (("cancelled",), False)
    assert verdict.sentence == (
        "does not count: its runner was stopped before the end (cancelled); run it again"
    )
    assert judge(rollout("200*2", status="cancelled", agents="untrusted")).scoreable == "no"
    early = judge(rollout("", status="cancelled", error="KeyboardInterrupt"))
    assert (early.health, early.excluded_by) == (Health.NOT_JUDGED, ("cancelled",))
    assert early.sentence == verdict.sentence, "not that the agent made no call before its error"
    failed = judge(rollout("401*2", status="cancelled"))
    assert (failed.health, failed.excluded_by) == (Health.API_ERROR, ())


def test_a_verdict_is_provisional_until_reported_and_settled() -> None:
    assert judge(rollout("200", running=True)).provisional is True
    assert judge(rollout("200 pending")).provisional is True
    assert judge(rollout("200")).provisional is False


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


@each(
    "text, said, expected",
    [
        # a request: a failure, unless the batch's policy says that it is the answer
        (FILTERED, {}, ("api_error", "no", "operator")),
        (FILTERED, {"content_filter": "failure"}, ("api_error", "no", "operator")),
        (FILTERED, {"content_filter": "answer"}, ("healthy", "yes", None)),
        # an answer: always an answer
        ("200+content_filter", {}, ("healthy", "yes", None)),
        ("200+content_filter", {"content_filter": "failure"}, ("healthy", "yes", None)),
        ("200+text+content_filter", {}, ("healthy", "yes", None)),
        # after an answer it is the agent's own doing, as each rejection with a reason
        (f"200+tool {FILTERED}", {}, ("healthy", "yes", None)),
        (f"200+tool {FILTERED}", {"content_filter": "answer"}, ("healthy", "yes", None)),
        # an untrusted agent's: it wrote what was filtered
        (FILTERED, {"agents": "untrusted"}, ("healthy", "yes", "agent")),
        (f"{FILTERED}*9", {"agents": "untrusted"}, ("healthy", "yes", "agent")),
        (FILTERED, {"agents": "untrusted", "content_filter": "answer"}, ("healthy", "yes", None)),
        # what failed after a filter that answered did fail
        (f"{FILTERED} 401*2", {"content_filter": "answer"}, ("api_error", "no", "operator")),
    ],
)
def test_a_content_filter_has_one_meaning(
    text: str, said: dict[str, Any], expected: tuple[str, str, str | None]
) -> None:
    verdict = judge(rollout(text, **said))
    found = (verdict.health.value, verdict.scoreable, verdict.attributed_to)
    assert found == expected
    assert "content_filter" in verdict.warnings


def test_the_services_policy_says_what_a_filter_is_where_a_batch_does_not() -> None:
    service = Policy(content_filter="answer")
    assert judge(rollout(FILTERED), policy=service).scoreable == "yes"
    assert judge(rollout(FILTERED, content_filter="failure"), policy=service).scoreable == "no"


def test_a_filter_is_a_refusal_and_no_failed_call() -> None:
    verdict = judge(rollout(f"200+tool {FILTERED}*2", content_filter="answer"))
    assert (verdict.total_requests, verdict.failed_requests, verdict.status_counts) == (3, 0, {})
    assert verdict.warnings == ("content_filter", "refusals")
    assert verdict.retry.eligible is False


def test_an_outage_that_others_saw_does_not_make_a_filter_the_providers() -> None:
    seen = rollout(FILTERED, agents="untrusted")
    near = {"x0": Neighbours(alike=3)}
    verdict = judge(replace(seen, neighbours=near))
    assert (verdict.scoreable, verdict.attributed_to) == ("yes", "agent")


# --- Failures that the wire proves: what they are named after, and what proves them ---------------


def test_the_strongest_cause_names_an_interruption_and_all_of_it_is_evidence() -> None:
    verdict = judge(rollout("200+tool 429+quota 503*5 400+malformed"))
    assert (verdict.rule, verdict.fingerprint, verdict.transient) == (
        "interrupted",
        "quota:429",
        False,
    )
    assert verdict.error == (
        "api_error [quota, permanent]: HTTP 429 and 503 on the last 7 of 8 calls"
    )
    assert verdict.evidence == ("x1", "x2", "x3", "x4", "x5", "x6")
    assert verdict.retry.eligible is False


def test_a_wait_is_that_of_the_failure_that_names_it() -> None:
    verdict = judge(rollout("200+tool 429~7 400+malformed"))
    assert (verdict.subcategory, verdict.provider_wait_s) == ("rate_limit", 7.0)


def test_a_call_in_flight_may_still_recover() -> None:
    assert judge(rollout("200+tool 503*2 pending")).rule == "healthy"


def test_all_failed_says_no_more_than_what_was_bound() -> None:
    assert judge(rollout("401@a 503@b*2", model="b")).evidence == ("x1", "x2")
    assert judge(rollout("401@a 503@b*2")).evidence == ("x0", "x1", "x2")


def test_a_background_response_that_failed_is_its_calls_failure() -> None:
    verdict = judge(rollout("200+queued 200+polled 200+fetched+quota"))
    assert (verdict.rule, verdict.subcategory, verdict.total_requests) == ("all_failed", "quota", 1)
    assert verdict.lane == "openai/gpt-5/key-3f9a"


def test_calls_that_registration_leaves_out_are_still_counted() -> None:
    verdict = judge(rollout("401@a*5 503@b", model="b"))
    assert (verdict.total_requests, verdict.failed_requests) == (6, 6)
    assert verdict.status_counts == {"401": 5, "503": 1}


# --- Roles other than the agent have small verdicts of their own ----------------------------------


def roles(text: str, **said: Any) -> dict[str, RoleVerdict]:
    return judge(rollout(text, **said)).roles


def test_each_role_is_judged_by_its_own_calls() -> None:
    for text, health, rule, subcategory, failed in (
        ("200+tool 200+judge", Health.HEALTHY, "healthy", None, 0),
        ("200+tool 401+judge*3", Health.API_ERROR, "all_failed", Subcategory.AUTH, 3),
        ("200 200+judge 429+quota+judge", Health.API_ERROR, "interrupted", Subcategory.QUOTA, 1),
        ("200 429+judge 200+judge", Health.HEALTHY, "healthy", None, 1),
        ("401 200+judge", Health.HEALTHY, "healthy", None, 0),
        ("200 200+empty+judge", Health.SUSPECTED_API_ERROR, "empty_answers", None, 0),
        ("200 net+judge", Health.API_ERROR, "all_failed", Subcategory.PROVIDER_ERROR, 1),
        ("200 lost+judge", Health.UNDECIDED, "undecided", None, 0),
    ):
        (verdict,) = roles(text).values()
        found = (verdict.health, verdict.rule, verdict.subcategory, verdict.failed_requests)
        assert found == (health, rule, subcategory, failed), text


def test_a_judge_whose_request_was_filtered_has_not_judged() -> None:
    for content_filter in ("failure", "answer"):
        (found,) = roles("200 400+content_filter+judge", content_filter=content_filter).values()
        assert (found.rule, found.failed_requests) == ("all_failed", 1), content_filter


def test_a_judges_failure_is_not_the_agents_and_an_agents_not_the_judges() -> None:
    dead_judge = judge(rollout("200+tool 401+judge"))
    assert (dead_judge.health, dead_judge.total_requests) == (Health.HEALTHY, 1)
    assert dead_judge.roles["judge"].error == "HTTP 401 on 1 of 1 call"
    assert dead_judge.roles["judge"].cause == "v1:auth:openai:401:-"
    dead_agent = judge(rollout("401 200+judge"))
    assert dead_agent.health is Health.API_ERROR
    assert dead_agent.roles["judge"].health is Health.HEALTHY


def test_what_is_known_of_the_agent_does_not_count() -> None:
    # Another model than the registered one; and no prompt of the agent's was executed.
    assert roles("200 200+judge@gpt-4o", model="gpt-5")["judge"].health is Health.HEALTHY
    record = rollout("200+judge")
    assert record.outcome is not None
    unprompted = replace(record, outcome=replace(record.outcome, prompts_executed=0))
    verdict = judge(unprompted)
    assert verdict.health is Health.NOT_JUDGED
    assert verdict.roles["judge"].health is Health.HEALTHY


def test_without_calls_of_its_own_a_role_has_no_verdict() -> None:
    assert roles("200") == {}
    assert roles("200 200+judge+embed") == {}


def test_while_it_runs_a_role_is_undecided_until_its_first_answer() -> None:
    assert roles("200 pending+judge", running=True)["judge"].health is Health.UNDECIDED


# --- What is suspected, what the sentence says was seen, and what proves it -----------------------

NOTHING = "suspected_api_error: a prompt was executed, yet no "


def test_no_call_is_said_to_be_missing_where_calls_were() -> None:
    for text, sentence in (
        ("", "call, token or tool call was seen"),
        ("200+embed*5", "inference call, token or tool call was seen, only 5 embedding"),
        ("200+judge", "inference call, token or tool call was seen, only 1 judge"),
        (
            "401+media*3 200+probe",
            "inference call, token or tool call was seen, only 3 activity (3 failed), 1 probe",
        ),
        ("401+embed 200+embed",
         "inference call, token or tool call was seen, only 2 embedding (1 failed)"),
    ):  # fmt: skip
        verdict = judge(rollout(text))
        assert (verdict.rule, verdict.error) == ("zero_signal", NOTHING + sentence), text


def test_what_draws_or_speaks_is_activity_only_when_it_came() -> None:
    for text, rule in (
        ("200+media", "healthy"),
        ("401+media", "zero_signal"),
        ("left+media", "zero_signal"),
        ("302+media", "zero_signal"),
        ("200+other", "zero_signal"),
        ("200+media+judge", "zero_signal"),
        ("200+fetched", "healthy"),
        ("200+polled", "zero_signal"),
    ):
        assert judge(rollout(text)).rule == rule, text


def test_empty_answers_are_counted_over_the_main_lane() -> None:
    verdict = judge(rollout("200+side 429 200+thought*2"))
    assert verdict.error == ("suspected_api_error: 2 answered of 3 calls, none carried any output")
    assert verdict.evidence == ("x2", "x3")
    assert verdict.fingerprint == "suspected:empty_answers"


def test_half_a_text_is_an_output() -> None:
    assert judge(rollout("200+text+truncated 200+empty")).rule != "empty_answers"


def test_never_answered_names_each_call_that_was_given_up() -> None:
    verdict = judge(rollout("200+side left*2"))
    assert verdict.error == (
        "suspected_api_error: the agent gave up each of its 2 calls before an answer came"
    )
    assert (verdict.rule, verdict.evidence) == ("never_answered", ("x1", "x2"))
    assert (verdict.fingerprint, verdict.retry.eligible) == ("suspected:never_answered", False)
    only = judge(rollout("200+side left"))
    assert only.error == (
        "suspected_api_error: the agent gave up its only call before an answer came"
    )


def test_never_answered_waits_for_the_outcome_and_for_calls_in_flight() -> None:
    assert judge(rollout("left*2", running=True)).rule == "undecided"
    assert judge(rollout("left*2 pending")).rule == "undecided"
    assert judge(rollout("left*2 302+empty")).rule == "undecided"


def test_another_model_with_tools_may_have_done_the_work() -> None:
    assert judge(rollout("left@a*5 200+tool@b")).rule == "healthy"
    assert judge(rollout("200+tool@b left@a*5")).rule == "never_answered"
    assert judge(rollout("left@a*5 200+tool@b", model="a")).rule == "never_answered"
    assert judge(rollout("200+empty@a*5 200+tool@b")).rule == "healthy"
    assert judge(rollout("200+empty@a*5 200+tool@b", model="a")).rule == "empty_answers"


def test_a_background_response_is_pending_until_the_outcome() -> None:
    running = judge(rollout("200+queued 200+polled", running=True))
    assert (running.rule, running.provisional) == ("undecided", True)
    over = judge(rollout("200+queued 200+polled"))
    assert (over.rule, over.provisional) == ("never_answered", False)


def test_a_background_response_is_read_once_however_often_it_is_fetched() -> None:
    verdict = judge(rollout("200+queued 200+polled 200+fetched*3"))
    assert (verdict.rule, verdict.total_requests, verdict.total_tokens) == ("healthy", 1, 30)


def test_the_same_rejection_twice_is_suspected_and_two_different_ones_are_unknown() -> None:
    twice = judge(rollout("200+tool 400 422 400"))
    assert twice.error == (
        "suspected_api_error: HTTP 400 without a reason on 2 of the last 3 calls, "
        "and no answer after them"
    )
    assert (twice.rule, twice.evidence) == ("unexplained_rejections", ("x1", "x3"))
    once = judge(rollout("200+tool 400 422"))
    assert (once.rule, once.scoreable) == ("healthy", "unknown")


def test_an_explained_rejection_behind_them_does_not_explain_them() -> None:
    verdict = judge(rollout("200+tool 400*2 400+malformed"))
    assert (verdict.rule, verdict.evidence) == ("unexplained_rejections", ("x1", "x2"))


def test_an_agent_on_its_own_subscription_is_never_suspected() -> None:
    for text in ("", "left*2", "200+thought", "200+tool 400*2"):
        verdict = judge(rollout(text, usage_channel="none"))
        assert (verdict.rule, verdict.scoreable) == ("healthy", "yes"), text


def test_what_the_proxy_refused_to_pass_on_is_said() -> None:
    why = "the provider states several lengths of one answer"
    failed = replace(calls("net")[0], unreadable_reason=why)
    verdict = judge(rollout(exchanges=(failed,)))
    assert verdict.error is not None
    assert why in verdict.error
    assert "answers_unread" in verdict.warnings
