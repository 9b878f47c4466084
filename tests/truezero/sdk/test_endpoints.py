"""Requests of each endpoint, page by page where a list has pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from truezero import models
from truezero.sdk import endpoints
from truezero.sdk.outcomes import DeliveryTerms
from truezero.sdk.steps import AskTerms, Request, Story


def first(story: Story[object]) -> Request[object]:
    request = next(story)
    assert isinstance(request, Request)
    return request


def reported(story: Story[object]) -> Request[object]:
    """The request of an outcome, of a client that keeps none."""
    assert isinstance(next(story), AskTerms)
    terms = DeliveryTerms(
        url="http://x", folder=Path(), patience_s=0, timeout_s=1, clock=lambda: 0.0, keeps=False
    )
    request = story.send(terms)
    assert isinstance(request, Request)
    return request


def test_ids_are_encoded_and_absent_parameters_left_out() -> None:
    assert first(endpoints.result("a/b c")).path == "/rollouts/a%2Fb%20c/result"
    reset = first(endpoints.reset_breaker("b"))
    assert (reset.method, reset.path, reset.params) == ("POST", "/batches/b/breaker/reset", {})
    lane = first(endpoints.reset_breaker("b", lane="l"))
    assert lane.params == {"lane": "l"}


def test_registrations_beyond_the_most_of_one_call_are_made_in_several() -> None:
    story = endpoints.register_many([{"id": f"r{n}"} for n in range(10_001)])
    asked = next(story)
    assert isinstance(asked, Request)
    assert asked.body is not None
    assert len(asked.body["rollouts"]) == 10_000
    item = {"status": 429, "rollout": None, "problem": None}
    further = story.send(asked.read({"items": [item] * 10_000}))
    assert isinstance(further, Request)
    assert further.body == {"rollouts": [{"id": "r10000"}]}
    with pytest.raises(StopIteration) as end:
        story.send(further.read({"items": [item]}))
    assert len(end.value.value) == 10_001
    with pytest.raises(StopIteration):
        next(endpoints.register_many([]))


def test_groups_are_asked_for_page_by_page() -> None:
    story = endpoints.groups("b", method="rloo", settled=True)
    asked = next(story)
    assert isinstance(asked, Request)
    wanted = {"method": "rloo", "min_valid": 2, "settled": "true", "limit": 1000}
    assert (asked.path, asked.params) == ("/batches/b/groups", wanted)
    further = story.send(asked.read({"items": [], "ended": False, "next": "t9"}))
    assert isinstance(further, Request)
    assert further.params == {**wanted, "after": "t9"}
    with pytest.raises(StopIteration):
        story.send(further.read({"items": [], "ended": True, "next": None}))


def test_an_outcome_is_a_success_unless_it_says_otherwise() -> None:
    assert reported(endpoints.report("r")).body == {"status": "success"}
    failed = reported(endpoints.report("r", status="agent_error", error="e"))
    assert failed.body == {"status": "agent_error", "error": "e"}


def test_a_comparison_is_asked_for_page_by_page() -> None:
    side = {
        "batch": "a", "total": 1, "scoreable": 1, "scored": 1, "coverage": 1.0,
        "score_effective": 1.0, "score_ci": None,
    }  # fmt: skip
    score = {"score": 1.0, "measured": 1, "repeats": 1, "rollout_ids": ["r"]}

    def page(task: str, following: str | None) -> dict[str, object]:
        change = {"task": task, "change": "unchanged", "difference": 0.0, "a": score, "b": score}
        unknown = dict.fromkeys(("score_a", "score_b", "difference", "difference_ci"))
        return {
            "a": side, "b": side, "compared": 1, **unknown, "counts": {"unchanged": 2},
            "without_task": 0, "tasks": [change], "next": following,
        }  # fmt: skip

    story = endpoints.compare("x/y", "b")
    asked = next(story)
    assert isinstance(asked, Request)
    assert (asked.path, asked.params) == ("/compare", {"a": "x/y", "b": "b", "limit": 10_000})
    further = story.send(asked.read(page("t1", "t1")))
    assert isinstance(further, Request)
    assert further.params == {**asked.params, "after": "t1"}
    with pytest.raises(StopIteration) as ended:
        story.send(further.read(page("t2", None)))
    assert [each.task for each in ended.value.value.tasks] == ["t1", "t2"]


def test_what_to_run_again_is_asked_for_page_by_page() -> None:
    def group(cause: str, count: int, *names: str) -> dict[str, object]:
        items = [
            {"task": name, "repeat": None, "rollout_id": name, "attempt": 1, "after_s": None}
            for name in names
        ]
        return {"cause": cause, "fix": None, "count": count, "items": items}

    def page(following: str | None, *groups: dict[str, object]) -> dict[str, object]:
        none: dict[str, object] = {"count": 0, "groups": []}
        kinds: dict[str, object] = dict.fromkeys(models.RERUN_NAMES, none)
        kinds["transient"] = {"count": 9, "groups": groups}
        return {"batch": "a/b", "running": 4, **kinds, "next": following}

    story = endpoints.rerun("a/b")
    asked = next(story)
    assert isinstance(asked, Request)
    assert (asked.path, asked.params) == ("/batches/a%2Fb/rerun", {"limit": 1000})
    further = story.send(asked.read(page("n", group("c", 5, "t1"), group("gone", 1))))
    assert isinstance(further, Request)
    assert further.params == {"limit": 1000, "after": "n"}
    last = page(None, group("new", 1, "t4"), group("c", 5, "t2", "t3"))
    with pytest.raises(StopIteration) as ended:
        story.send(further.read(last))
    found = ended.value.value
    told = [(each.cause, each.count, [item.task for item in each.items])
            for each in found.transient.groups]  # fmt: skip
    assert told == [("c", 3, ["t1", "t2", "t3"]), ("new", 1, ["t4"])]
    assert (found.transient.count, found.fix_first.count, found.running) == (4, 0, 4)
    assert found.next is None


def test_usage_is_asked_for_by_batch() -> None:
    usage = first(endpoints.usage("b", by=("role", "task")))
    assert (usage.path, usage.params) == ("/batches/b/usage", {"by": "role,task"})
