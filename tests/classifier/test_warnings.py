"""Which warnings a verdict has."""

from __future__ import annotations

from dataclasses import replace

from classifier import judge
from classifier.records import Ending
from classifier.verdicts import Health
from tests.builders import calls, exchange, rollout


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
