"""Honest failures are found whoever the agent is; its own are rows of ``judged.jsonl``."""

from __future__ import annotations

from itertools import chain

import pytest

from classifier import Policy, judge
from classifier.breakers import BreakerState, Phase, feed
from classifier.rules import references_wanted
from classifier.verdicts import AttributedTo, Health
from tests.builders import asked, rollout
from tests.classifier.truth import SEQUENCES, TABLE

UNTRUSTED = Policy(agents="untrusted")


def test_trusting_agents_changes_nothing_in_the_truth_table() -> None:
    """Its verdicts are held by test_truth; here: none of its failures is put on the agent."""
    for row in chain(TABLE, SEQUENCES):
        if row.lost is not False:
            assert row.verdict().attributed_to is not AttributedTo.AGENT, str(row)


@pytest.mark.parametrize("each", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_whatever_others_saw_too_is_found_in_the_truth_table_without_trust(each: int) -> None:
    for row in (*TABLE, *SEQUENCES)[::each]:
        trusted = row.verdict()
        if trusted.health is not Health.API_ERROR or trusted.subcategory == "rejected_request":
            continue
        models = {x.model for x in row.rollout.exchanges if x.kind == "inference"}
        if trusted.subcategory == "model_not_found":
            continue  # none but the agent named it
        if len(models) > 1 or row.rollout.model or "#" in row.calls or "%" in row.calls:
            continue  # more lanes than one, of which the first is taken for the model under test
        seen = asked(row.rollout, trusted.subcategory or "")
        assert judge(seen, policy=UNTRUSTED).rule == trusted.rule, str(row)


def test_no_breaker_opens_on_what_agents_did_or_may_have_done() -> None:
    for text, reference in (("401+override#bad*3", "ok ok ok"), ("200 401#bad", "ok ok ok"),
                            ("401+operators", "ok ok ok"), ("401*3", "ok auth")):  # fmt: skip
        states: dict[str, BreakerState] = {}
        for n in range(6):
            seen = asked(rollout(text, id=f"r{n}"), reference)
            verdict = judge(seen, policy=UNTRUSTED)
            assert not verdict.provisional
            states |= {each.lane: each for each in feed(states.values(), verdict, now=float(n))}
        assert all(state.phase is Phase.CLOSED for state in states.values()), text
    states = {}
    for n in range(5):
        verdict = judge(asked(rollout("401*3", id=f"r{n}"), "auth"), policy=UNTRUSTED)
        states |= {each.lane: each for each in feed(states.values(), verdict, now=float(n))}
    assert [state.phase for state in states.values()] == [Phase.OPEN]


# --- a harness's own refusals ---------------------------------------------------------------------


BUDGET_SPENT, RELAY = "429+harness_budget", "503+harness_refusal"


def test_no_provider_is_asked_about_a_harness_refusal() -> None:
    for text in (f"200+tool+read {RELAY}*2", f"{BUDGET_SPENT}*2"):
        assert references_wanted(rollout(text, agents="untrusted")) == []
