"""Roles other than the agent have small verdicts of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from classifier import Health, Subcategory, judge
from classifier.verdicts import RoleVerdict
from tests.builders import rollout


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
