"""Calls that waited for their turn at the proxy: whose time that was, and what hangs on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from classifier import judge
from classifier.records import Ending, Exchange, LimitReached, RolloutRecord
from classifier.verdicts import AttributedTo, Health, Verdict
from tests.builders import STARTED, calls, limit_reached, outcome
from tests.builders import rollout as built


def judged(*exchanges: Exchange, status: str = "success", ended: float = 100.0) -> Verdict:
    rollout = RolloutRecord(
        id="r",
        exchanges=exchanges,
        outcome=outcome(status),
        began_at=STARTED,
        ended_at=STARTED + ended,
    )
    return judge(rollout)


def held(text: str, *waits: float | None) -> list[Exchange]:
    """Return the calls of a text, each with the time that it waited."""
    built = calls(text)
    return [replace(each, held_s=wait) for each, wait in zip(built, waits, strict=True)]


def test_a_turn_that_is_waited_for_is_neither_the_providers_time_nor_the_agents() -> None:
    # From 10 to 40 it waited, from 40 to 50 it was answered, from 60 to 65 the next one was.
    verdict = judged(*held("200+tool[40-50] 200[60-65]", 30.0, 0.0))
    assert (verdict.provider_s, verdict.lost_s, verdict.held_s) == (15, 0, 30)
    assert verdict.agent_s == 100 - 45


def test_a_next_try_that_waited_at_the_proxy_was_not_lost_meanwhile() -> None:
    verdict = judged(*held("429[0-1] 200+tool[41-45] 429[50-51] 200[66-70]", 0.0, 38.0, 0.0, 14.0))
    assert verdict.held_s == 38 + 14, "as its calls say"
    assert verdict.lost_s == (41 - 38) + (16 - 14), "a failed answer, and the wait behind it"
    assert (verdict.provider_s, verdict.agent_s) == (8, 100 - 52 - 5 - 8)


def test_what_nobody_had_wait_is_unknown_and_not_zero() -> None:
    assert judged(*held("200+tool 200", None, None)).held_s is None
    assert judged(*held("200+tool 200", 0.0, 0.0)).held_s == 0


@pytest.mark.parametrize("ending", [Ending.LEFT_BY_AGENT, Ending.CLOSED_AT_OUTCOME])
def test_a_call_that_was_given_up_after_a_longer_wait_than_its_answers_decides_nothing(
    ending: Ending,
) -> None:
    answered, left = held("200+tool[0-1] left[30-35]", 0.0, 20.0)
    left = replace(left, ending=ending)
    verdict = judged(answered, left)
    assert (verdict.health, verdict.scoreable) == (Health.UNDECIDED, "unknown")
    assert "left_while_held" in verdict.warnings
    sooner = judged(answered, replace(left, held_s=1.0))
    assert (sooner.health, sooner.scoreable) == (Health.HEALTHY, "yes")


@pytest.mark.parametrize(("wait", "excluded"), [(30.0, ("starved",)), (5.0, ())])
def test_a_time_out_is_not_the_models_where_turns_took_a_tenth_of_the_time(
    wait: float, excluded: tuple[str, ...]
) -> None:
    verdict = judged(*held("200+tool[40-50]", wait), status="task_timeout")
    assert verdict.excluded_by == excluded
    assert verdict.scoreable == ("no" if excluded else "yes")


OWN = limit_reached("rollout", own=100, callers=1)
OWN_RESERVED = limit_reached("rollout", own=90, callers=1, spent=90)
BATCHS, BATCHS_RESERVED = limit_reached(), limit_reached(spent=90)


@pytest.mark.parametrize(
    ("reached", "agents", "scoreable"),
    [
        # What was spent decides, as if the call had been refused.
        (OWN, "trusted", "yes"),
        (OWN, "untrusted", "yes"),
        (BATCHS, "trusted", "no"),
        (BATCHS, "untrusted", "no"),
        # Calls in flight had reserved the rest: an untrusted agent may have seen to it itself.
        (OWN_RESERVED, "trusted", "unknown"),
        (OWN_RESERVED, "untrusted", "yes"),
        (BATCHS_RESERVED, "trusted", "no"),
        (BATCHS_RESERVED, "untrusted", "yes"),
        # It waited for its turn.
        (None, "trusted", "unknown"),
        (None, "untrusted", "yes"),
    ],
)
def test_a_call_that_was_given_up_while_a_limit_held_it_counts_as_refused(
    reached: LimitReached | None, agents: str, scoreable: str
) -> None:
    answered, left = held("200+tool[0-1] left[30-35]", 0.0, 20.0)
    left = replace(left, ending=Ending.LEFT_WHILE_HELD)
    rollout = built(limit_reached=reached, agents=agents)
    verdict = judge(replace(rollout, exchanges=(answered, left)))
    assert verdict.scoreable == scoreable
    assert verdict.excluded_by == (("budget",) if scoreable == "no" else ())


def test_a_rollout_that_a_batchs_limit_held_from_its_first_call_on_is_not_judged() -> None:
    (left,) = held("left[30-35]", 20.0)
    left = replace(left, ending=Ending.LEFT_WHILE_HELD)
    verdict = judge(replace(built(limit_reached=limit_reached(own=0)), exchanges=(left,)))
    assert (verdict.health, verdict.excluded_by) == (Health.NOT_JUDGED, ("budget",))


def test_what_a_refused_call_had_waited_for_a_limit_is_not_the_agents_time() -> None:
    reached = replace(OWN, at=STARTED + 50, held_s=40.0)
    rollout = RolloutRecord(
        id="r",
        exchanges=tuple(calls("200+tool[0-5]")),
        outcome=outcome("task_timeout"),
        began_at=STARTED,
        ended_at=STARTED + 100,
        limit_reached=reached,
    )
    verdict = judge(rollout)
    assert (verdict.provider_s, verdict.held_s, verdict.agent_s) == (5, 40, 55)
    assert verdict.excluded_by == ("starved",)


BY_OTHERS = replace(BATCHS_RESERVED, by_others=True, at=STARTED + 50)
REFUSED_BY_OTHERS = replace(BY_OTHERS, held_s=40.0)
SERVICES = replace(limit_reached("service"), at=STARTED + 50)


@pytest.mark.parametrize(
    ("reached", "agents", "scoreable"),
    [
        (REFUSED_BY_OTHERS, "trusted", "unknown"),
        (REFUSED_BY_OTHERS, "untrusted", "unknown"),
        (SERVICES, "trusted", "unknown"),
        (SERVICES, "untrusted", "unknown"),
        # Its own calls took the room.
        (replace(SERVICES, own=25), "trusted", "unknown"),
        (replace(SERVICES, own=25), "untrusted", "yes"),
        # It did not wait to the end.
        (BY_OTHERS, "trusted", "unknown"),
        (BY_OTHERS, "untrusted", "yes"),
        # Its own calls were in its way.
        (replace(REFUSED_BY_OTHERS, by_others=False), "untrusted", "yes"),
    ],
)
def test_what_ends_on_the_proxys_refusal_is_undecided(
    reached: LimitReached, agents: str, scoreable: str
) -> None:
    rollout = built(limit_reached=reached, agents=agents)
    verdict = judge(replace(rollout, exchanges=tuple(held("200+tool[0-1]", 0.0))))
    assert verdict.scoreable == scoreable
    if scoreable == "unknown":
        assert (verdict.health, verdict.attributed_to) == (Health.UNDECIDED, AttributedTo.PROXY)
        assert "calls_failed_by_proxy" in verdict.warnings


@pytest.mark.parametrize("reached", [REFUSED_BY_OTHERS, SERVICES])
@pytest.mark.parametrize("agents", ["trusted", "untrusted"])
def test_a_refusal_of_the_proxys_that_an_answer_followed_decides_nothing(
    reached: LimitReached, agents: str
) -> None:
    rollout = built(limit_reached=reached, agents=agents, budget="exclude")
    answered = tuple(held("200+tool[0-1] 200[51-52]", 0.0, 0.0))
    verdict = judge(replace(rollout, exchanges=answered))
    assert (verdict.scoreable, verdict.excluded_by) == ("yes", ())
