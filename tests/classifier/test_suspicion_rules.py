"""What is suspected, what the sentence says was seen, and what proves it."""

from __future__ import annotations

from classifier import judge
from tests.builders import rollout

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
