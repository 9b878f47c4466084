"""Every verdict and call has a badge, and no two badges look alike."""

from __future__ import annotations

import pytest

from classifier.records import Ending
from classifier.repeat_counts import SKIPPED, UNJUDGED
from classifier.verdicts import OWN_FAILURES, Health, Level, Subcategory
from proxy.web import badges
from proxy.web.badges import CAUSES, HEALTHY, SUSPECTED


def test_every_class_of_verdicts_has_a_badge() -> None:
    classes = {
        *Subcategory, *Health, OWN_FAILURES, SKIPPED, UNJUDGED,
    } - {Health.API_ERROR}  # fmt: skip
    assert set(badges.CLASSES) == classes
    counted = badges.counted({"verdicts": {"healthy": 5, "auth": 2, "skipped": 1}})
    assert [(badge.label, count) for badge, count in counted] == [
        ("healthy", 5), ("auth", 2), ("skipped", 1),
    ]  # fmt: skip


def test_no_two_badges_share_a_name_or_a_shape() -> None:
    levels = badges.LEVELS.values()
    kinds = [
        HEALTHY, SUSPECTED, badges.OWN, badges.NOT_JUDGED, badges.UNDECIDED, badges.SKIPPED,
        badges.NOT_SCORED, badges.NEVER_STARTED, *CAUSES.values(), *levels,
    ]  # fmt: skip
    assert len({badge.name for badge in kinds}) == len(kinds)
    assert len({badge.shape for badge in kinds}) == len(kinds)


@pytest.mark.parametrize("cause", list(Subcategory))
def test_a_failed_rollout_and_a_failed_call_have_the_badge_of_their_cause(
    cause: Subcategory,
) -> None:
    badge = badges.of_cause(cause.value)
    row = {"health": Health.API_ERROR.value, "subcategory": cause.value}
    assert badges.of_rollout(row) == badge
    assert badges.of_call({"subcategory": cause.value, "ending": "complete"}) == badge


def test_other_rollouts_have_the_badge_of_their_health() -> None:
    others = [health for health in Health if health is not Health.API_ERROR]
    found = [badges.of_rollout({"health": each.value, "subcategory": None}) for each in others]
    assert len({badge.name for badge in found}) == len(others)
    assert badges.of_rollout({"health": None, "subcategory": None}) == badges.UNJUDGED
    assert badges.of_rollout({"health": "healthy", "own_failures": True}) == badges.OWN


@pytest.mark.parametrize("health", ["not_judged", None])
def test_a_rollout_that_a_breaker_did_not_admit_has_a_badge_of_its_own(health: str | None) -> None:
    row = {"health": health, "subcategory": None, "skipped": "skipped: breaker open on auth:401"}
    assert badges.of_rollout(row) == badges.SKIPPED
    assert badges.of_rollout({**row, "health": "healthy"}) == HEALTHY


def test_every_level_has_a_badge_and_the_worst_that_was_found_too() -> None:
    assert list(badges.LEVELS) == [level.value for level in reversed(Level)]
    assert badges.of_findings(" suspect starved serving_changed ") == (
        badges.LEVELS["suspect"],
        "starved",
    )
    assert badges.of_findings(" info serving_changed ") is badges.of_findings(None) is None


def test_a_healthy_verdict_has_the_badge_of_what_its_score_is_worth() -> None:
    for scoreable, badge in (
        ("yes", HEALTHY),
        ("no", badges.SPOILT),
        ("unknown", badges.DOUBTFUL),
    ):
        told = {"health": "healthy", "subcategory": None, "scoreable": scoreable}
        assert badges.of_verdict({**told, "provisional": False}) == badge, scoreable
        assert badges.of_verdict({**told, "provisional": True}) == HEALTHY, scoreable
        dead = {**told, "health": "api_error", "subcategory": "auth", "provisional": False}
        assert badges.of_verdict(dead) == CAUSES["auth"], scoreable


def test_whether_the_model_was_reached_is_said_only_where_it_is_known() -> None:
    told = {
        "health": "healthy", "subcategory": None, "scoreable": "yes", "attributed_to": None,
    }  # fmt: skip
    for changed, badge, words in (
        ({}, HEALTHY, "yes"),
        ({"scoreable": "no"}, HEALTHY, "yes"),
        ({"scoreable": "unknown"}, badges.UNDECIDED, "not known"),
        ({"rule": OWN_FAILURES}, badges.OWN, "no: the agent's own failures"),
        ({"attributed_to": "agent"}, HEALTHY, "not judged: the agent failed its own calls"),
        ({"health": "api_error", "subcategory": "auth"}, CAUSES["auth"], "auth"),
        ({"health": "undecided", "scoreable": "unknown"}, badges.UNDECIDED, "undecided"),
    ):
        assert badges.of_reach({**told, **changed}) == (badge, words), changed


def test_a_call_that_did_not_fail_has_the_badge_of_its_ending() -> None:
    def of(ending: str | None) -> badges.Badge:
        return badges.of_call({"subcategory": None, "ending": ending})

    assert of(None) == badges.IN_FLIGHT
    assert of(Ending.COMPLETE.value) == HEALTHY
    assert of(Ending.LEFT_BY_AGENT.value) == badges.LEFT
    assert of(Ending.CLOSED_AT_OUTCOME.value) == badges.CLOSED
    assert of(Ending.LOST.value) == badges.UNDECIDED


def test_an_upstreams_calls_are_those_answered_and_those_that_failed() -> None:
    counts = badges.outcomes(10, {"auth": 2, "quota": 1})
    assert counts == [(HEALTHY, 7), (CAUSES["auth"], 2), (CAUSES["quota"], 1)]
    assert badges.of_cause(None) == SUSPECTED


def test_a_legend_has_what_occurs_in_the_order_of_the_bars() -> None:
    def summary(**named: object) -> dict[str, object]:
        nothing = {"measured": 0, "own_failures": 0, "not_measured": {}, "not_scored": {}}
        return {"parts": {**nothing, "skipped": 0, "running": 0, "never_started": 0, **named}}

    found = badges.occurring(
        [
            summary(running=2, not_measured={"quota": 1}),
            summary(measured=3, not_measured={"auth": 2}),
        ]
    )
    assert [badge.name for badge in found] == ["measured", "auth", "quota", "open"]
    assert badges.occurring([]) == []
