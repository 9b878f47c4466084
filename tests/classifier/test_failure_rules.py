"""Failures that the wire proves: what they are named after, and what proves them."""

from __future__ import annotations

from classifier import judge
from tests.builders import rollout


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
