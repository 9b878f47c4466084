"""What agents fail by themselves takes no reward away; honest failures are found as before."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import pytest

from classifier import Policy, RolloutRecord, judge, result
from classifier.breakers import BreakerState, Phase, feed
from classifier.records import Neighbours
from classifier.rules import references_wanted
from classifier.verdicts import (
    OWN_FAILURES,
    PROVOKED_SUSPECTED,
    REFERENCE_INCONCLUSIVE,
    REFERENCE_PARTLY,
    REFERENCE_PENDING,
    AttributedTo,
    Health,
    Verdict,
)
from tests.builders import asked, rollout
from tests.classifier.truth import SEQUENCES, TABLE

UNTRUSTED = Policy(agents="untrusted")
BOUND = {"model": "gpt-5", "upstream": "openai"}
ANSWERED = Neighbours(answered=3)
SHARED = Neighbours(alike=2)


class Case(NamedTuple):
    """A rollout, and its rule under ``trusted``; ``near`` are the neighbours of each failure.

    ``reference`` is what was asked beside the failures that an untrusted agent's reward hangs on.
    """

    why: str
    calls: str
    trusted: str = "healthy"
    said: dict[str, Any] = {}  # noqa: RUF012  never changed
    near: Neighbours | None = None
    reference: str = "ok ok ok"

    @property
    def rollout(self) -> RolloutRecord:
        seen = rollout(self.calls, **self.said)
        seen = seen if self.near is None else beside(seen, self.near)
        return asked(seen, self.reference)


def beside(seen: RolloutRecord, near: Neighbours) -> RolloutRecord:
    return replace(seen, neighbours={x.id: near for x in seen.exchanges})


BURST = " ".join(f"429[{n / 10:.1f}-{n / 10 + 0.05:.2f}]" for n in range(25))

# Fails by its own agent whatever the policy says.
ALWAYS = (
    Case("the same model at another upstream", "200+tool*2 net%down", said=BOUND),
    Case("only the last calls go elsewhere, and more of them", "200+tool 503+large%down*5",
         said=BOUND),
    Case("an unknown model beside the registered one", "200+tool 404@nope", said=BOUND),
    Case("an over-long request on another model", "200+tool 400+context_length+large@tiny*3",
         said=BOUND),
    Case("its own upload withheld until the proxy's limit", "200+tool timeout+held"),
    Case("a slow upload that the provider gave up", "200+tool 408+held"),
    Case("a healthy stream that it did not read", "200+tool stalled+held"),
    Case("nothing but withheld uploads", "left+held*3"),
    Case("two keys that spell model on the last call", "200+tool 404+twice"),
    Case("two keys that spell model on every call", "404+twice*3"),
    Case("an explained rejection by a lane that answers", "200+tool 400+context_length"),
)  # fmt: skip

# Fails by its own agent where agents are untrusted; the rule is what trusting them finds.
PROVOCATIONS = (
    Case("a bogus key on the last call", "200+tool 401#bad", "interrupted"),
    Case("a bogus key on the last call, to what is registered", "200+tool 401#bad", "interrupted",
         said=BOUND),
    Case("a bogus key on every call where the operator has one", "401+override#bad*3",
         "all_failed"),
    Case("the same model at another upstream", "200+tool net%down", "interrupted"),
    Case("another upstream, answered without tools", "200+toolless net+toolless%down",
         "interrupted"),
    Case("an unregistered unknown model that outweighs the first", "200+tool 404+large@nope*3",
         "main_model_failed"),
    Case("an over-long request on another model", "200+tool 400+context_length+large@tiny*3",
         "main_model_failed"),
    Case("a hang-up on a long reasoning call", "200+tool stalled", "interrupted"),
    Case("a hang-up on the only call", "stalled", "all_failed"),
    Case("calls given up at once", "left*3", "never_answered"),
    Case("a 500 of its own making while the lane answers others", "200+tool 500*3", "interrupted",
         near=ANSWERED),
    Case("a 500 that nobody else saw", "200+tool 500*3", "interrupted"),
    Case("a dated name first, the plain one with a bad key then",
         "200+tool@gpt-5-2025-08-07 401@gpt-5#bad", "interrupted", said={"model": "gpt-5"}),
    Case("another beta than its answered calls", "200+tool 401+beta*2", "interrupted",
         near=SHARED),
    Case("every call under another role", "200+judge*3", "zero_signal"),
    Case("no call, and an error of the runner", "", "not_judged",
         said={"status": "agent_error", "error": "it crashed"}),
    Case("a limit of another way to the model", "200+tool 429@gpt-5:free*2", "interrupted",
         said=BOUND),
    Case("a burst of its own", BURST, "all_failed", near=Neighbours(starts=2)),
    Case("rejections that nothing explains", "200+tool 400*3", "unexplained_rejections"),
    Case("answers without any output", "200+empty*2", "empty_answers"),
    Case("a key that others use at the same time", "401+operators*3", "all_failed",
         near=ANSWERED),
    Case("a model that only the agent names", "404@nope*3", "all_failed", said={"model": "gpt-5"}),
    Case("an upstream that only the agent chose", "net%down*3", "all_failed"),
    Case("an account of its own choice", "401+beta*3", "all_failed"),
    Case("a model at a path of no dialect that outweighs the first",
         "200+tool 200+shaped+large@b 401+other@b*3", "interrupted"),
    Case("answers that nobody can read", "200+garbled*3", "unread_answers"),
    Case("answers that nobody can look at", "200+unseen*3", "undecided"),
    Case("nothing but uploads", "200+media+garbled*3", "zero_signal"),
    Case("a batch without a body", "200+media+malformed*2", "all_failed"),
)  # fmt: skip

# What a reference leaves open: the reward is null, the rule stands, and it is run once more.
OPEN = (
    (REFERENCE_PARTLY, Case("one server of three", "200+tool 503*3", "interrupted",
                            reference="ok provider_error")),
    (REFERENCE_PARTLY, Case("a burst that struck others too", "200+tool 503*3", "interrupted",
                            near=Neighbours(at_once=2, answered=3))),
    (REFERENCE_INCONCLUSIVE, Case("a reference with another failure", "200+tool 503*3",
                                  "interrupted", reference="rate_limit")),
    (REFERENCE_INCONCLUSIVE, Case("a reference that is refused itself", "200+tool 503*3",
                                  "interrupted", reference="refused")),
    (REFERENCE_INCONCLUSIVE, Case("an answer from a cache", "200+tool 503*3", "interrupted",
                                  reference="none")),
    (REFERENCE_INCONCLUSIVE, Case("a time-out for a failure that was none", "200+tool 500*3",
                                  "interrupted", reference="silent")),
    (REFERENCE_INCONCLUSIVE, Case("a limit that small questions pass", "200+tool 429",
                                  "interrupted", near=ANSWERED)),
)  # fmt: skip


def kept(verdict: Verdict, seen: RolloutRecord, why: str) -> None:
    """The reward counts, nothing is run again, and the verdict says why."""
    assert (verdict.health, verdict.scoreable) == (Health.HEALTHY, "yes"), why
    assert result(seen, verdict).rewards == {"reward": 0.0}, why
    assert not verdict.retry.eligible, why
    assert not verdict.doomed, why


def test_the_agents_own_failures_keep_the_reward_under_any_policy() -> None:
    for case in ALWAYS:
        for policy in (Policy(), UNTRUSTED):
            verdict = judge(case.rollout, policy=policy)
            kept(verdict, case.rollout, f"{case.why} ({policy.agents})")
            assert PROVOKED_SUSPECTED not in verdict.warnings, case.why


def test_what_untrusted_agents_may_have_provoked_keeps_the_reward_and_is_told() -> None:
    for case in PROVOCATIONS:
        seen = case.rollout
        assert judge(seen).rule == case.trusted, case.why
        assert judge(seen).scoreable != "yes", case.why
        verdict = judge(seen, policy=UNTRUSTED)
        kept(verdict, seen, case.why)
        assert PROVOKED_SUSPECTED in verdict.warnings, case.why
        assert verdict.attributed_to is AttributedTo.AGENT, case.why
        assert verdict.retry.reason == "the agent's own failure: its reward counts"
        own = verdict.rule == OWN_FAILURES
        why = "no model answered: the agent's own" if own else "taken to be the agent's own"
        assert verdict.sentence is not None
        assert why in verdict.sentence, case.why
        assert not own or verdict.proof is None, case.why


def test_what_references_leave_open_is_unknown_and_run_once_more() -> None:
    for warning, case in OPEN:
        assert judge(case.rollout).rule == case.trusted, case.why
        verdict = judge(case.rollout, policy=UNTRUSTED)
        assert (verdict.rule, verdict.scoreable) == (case.trusted, "unknown"), case.why
        assert warning in verdict.warnings, case.why
        assert result(case.rollout, verdict).rewards is None, case.why
        assert (verdict.retry.eligible, verdict.doomed) == (True, False), case.why
        again = judge(replace(case.rollout, attempt=1), policy=UNTRUSTED)
        assert not again.retry.eligible, case.why


def test_a_verdict_waits_for_the_references_asked_about_it() -> None:
    seen = asked(rollout("200+tool 503*3"), running=True)
    verdict = judge(seen, policy=UNTRUSTED)
    assert (verdict.provisional, verdict.scoreable) == (True, "unknown")
    assert REFERENCE_PENDING in verdict.warnings
    assert result(seen, verdict).rewards is None
    trusted = judge(seen)
    assert (trusted.provisional, trusted.scoreable) == (True, "no")


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
