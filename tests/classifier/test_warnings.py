"""Which warnings a verdict has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from classifier import judge
from classifier.records import Ending
from classifier.verdicts import Health
from tests.builders import calls, exchange, rollout
from tests.tables import each


@each(
    "text, said, warnings",
    [
        ("200", {}, ()),
        ("200 400+malformed", {}, ("ended_on_rejection",)),
        ("200 400", {}, ("ended_on_unexplained_rejection",)),
        ("200 400+malformed 400", {}, ("ended_on_unexplained_rejection",)),
        ("200 400 400+malformed", {}, ("ended_on_unexplained_rejection",)),
        ("200 429 400", {}, ("ended_on_unexplained_rejection",)),
        ("200 429 400+malformed", {}, ("ended_on_rejection",)),
        ("200 400+malformed 429", {}, ()),
        ("200 200 503+toolless", {}, ()),
        ("", {"status": "agent_error"}, ("error_before_any_call",)),
        ("200@o4", {"model": "o5"}, ("bound_model_not_seen",)),
        ("200@o4>o5-2026-01-31", {"model": "o5"}, ()),
        ("200@o4", {"model": "o5", "usage_channel": "none"}, ()),
        ("", {"model": "o5"}, ()),
        ("200 400 200", {}, ()),
        ("200 400+context_length", {}, ("ended_on_rejection", "context_length")),
        ("200 400+content_filter 200", {}, ("content_filter",)),
        ("400+content_filter", {"content_filter": "answer"}, ("content_filter", "refusals")),
        ("200 200+content_filter", {}, ("content_filter", "refusals", "usage_missing")),
        ("200+refusal 200", {}, ("refusals",)),
        ("200+length", {}, ("truncated_by_max_tokens",)),
        ("200 200+empty", {}, ("empty_answers",)),
        ("200 left", {}, ("left_by_agent",)),
        ("left", {}, ("calls_never_answered", "left_by_agent")),
        ("200+nousage", {}, ("usage_missing",)),
        ("200 200+queued", {}, ("usage_missing",)),
        ("200 200+queued 200+polled", {}, ("usage_missing",)),
        ("200 200+queued 200+fetched", {}, ()),
        ("200+unread", {}, ("usage_missing", "answers_unread")),
        ("200 lost", {}, ("calls_lost",)),
        ("200", {"gaps": 1}, ("calls_unrecorded",)),
        ("", {"unattributed_calls": 1}, ("calls_unattributed",)),
        ("200", {"unattributed_calls": 1}, ()),
        ("", {"unattributed_calls": 1, "total_tokens": 9}, ("calls_bypass_the_proxy",)),
        ("200 pending", {}, ("calls_in_flight",)),
        ("", {"total_tokens": 9}, ("calls_bypass_the_proxy",)),
        ("", {"total_tokens": 9, "usage_channel": "none"}, ()),
        ("200+tool@o5 503@o5 200+tool@o4", {"model": "o5"}, ("ended_on_failure",)),
    ],
)
def test_warnings_tell_what_does_not_decide(
    text: str, said: dict[str, Any], warnings: tuple[str, ...]
) -> None:
    assert judge(rollout(text, **said)).warnings == warnings


def test_an_agent_that_repeats_one_failing_request_is_warned_of() -> None:
    same = tuple(replace(x, request_digest="d") for x in calls("200+truncated*10"))
    assert "request_repeated" in judge(rollout(exchanges=same)).warnings
    assert "request_repeated" not in judge(rollout(exchanges=same[:9])).warnings
    assert "request_repeated" not in judge(rollout("200+truncated*10")).warnings


def test_injected_faults_show() -> None:
    drilled = rollout(exchanges=(exchange(503, injected=True), exchange(at=1.0)))
    assert judge(drilled).warnings == ("faults_injected",)


def test_calls_that_the_outcome_closed_show() -> None:
    closed = exchange(at=1.0, status=None, ending=Ending.CLOSED_AT_OUTCOME)
    left = replace(closed, ending=Ending.LEFT_BY_AGENT)
    for call, warning in ((closed, "closed_at_outcome"), (left, "left_by_agent")):
        verdict = judge(rollout(exchanges=(exchange(), call)))
        assert (verdict.health, verdict.warnings) == (Health.HEALTHY, (warning,))


def test_a_question_at_a_path_that_is_not_read_is_warned_of() -> None:
    record = rollout("200 200+other")
    *first, last = record.exchanges
    asked = replace(record, exchanges=(*first, replace(last, api="unread /v1/answers")))
    assert "questions_not_read" in judge(asked).warnings
    assert "questions_not_read" not in judge(record).warnings
