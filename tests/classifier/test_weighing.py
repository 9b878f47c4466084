"""What agents fail by themselves takes no reward away; honest failures are found as before."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from classifier import Policy, RolloutRecord, judge, result
from classifier.breakers import BreakerState, Phase, feed
from classifier.diagnostics import check_lines
from classifier.records import Neighbours
from classifier.verdicts import (
    PROVOKED_SUSPECTED,
    UNCORROBORATED,
    AttributedTo,
    Health,
    Verdict,
)
from tests.builders import calls, rollout
from tests.classifier.truth import TABLE
from tests.classifier.truth_sequences import SEQUENCES

UNTRUSTED = Policy(agents="untrusted")
BOUND = {"model": "gpt-5", "upstream": "openai"}
ANSWERED = Neighbours(answered=3)
SHARED = Neighbours(alike=2)


class Case(NamedTuple):
    """A rollout, and its rule under ``trusted``; ``near`` are the neighbours of each failure."""

    why: str
    calls: str
    trusted: str = "healthy"
    said: dict[str, Any] = {}  # noqa: RUF012  never changed
    near: Neighbours | None = None

    @property
    def rollout(self) -> RolloutRecord:
        seen = rollout(self.calls, **self.said)
        return seen if self.near is None else beside(seen, self.near)


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
    Case("a burst of its own", BURST, "all_failed", near=Neighbours(starts=2)),
    Case("a rate limit while others are answered", "200+tool 429", "interrupted", near=ANSWERED),
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

# Found as before, whoever is trusted.
HONEST = (
    Case("a dead operator's key that nobody else used", "401+operators*3", "all_failed"),
    Case("a dead operator's key, and a request with a beta header", "401+operators+beta*3",
         "all_failed"),
    Case("a dead key that all use", "401*3", "all_failed", near=SHARED),
    Case("an account that expired on the way", "200+tool 429+quota*2", "interrupted",
         near=Neighbours(alike=4, answered=2)),
    Case("a model that the account lost", "200+tool 404*2", "interrupted", said=BOUND,
         near=SHARED),
    Case("an outage that others saw", "200+tool 500*3", "interrupted", near=SHARED),
    Case("a rate limit that others ran into", "200+tool 429*4", "interrupted", near=SHARED),
    Case("a stall that others saw", "200+tool stalled", "interrupted", near=SHARED),
    Case("a key that lists no models either", "401*3", "all_failed",
         near=Neighbours(listing_failed=True)),
    Case("an upstream that is down, as registered", "net*3", "all_failed", said=BOUND),
    Case("an upstream that went down", "200+tool 503*3", "interrupted"),
    Case("a stream that the provider cut", "200+tool 529", "interrupted", near=ANSWERED),
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
        (line,) = check_lines(verdict, "t1")
        assert line.startswith("t1: its reward counts: provoked, it is suspected ("), case.why


def test_a_request_that_fails_again_and_again_between_answers_is_poison() -> None:
    built = calls("500[0-1] 200+tool[10-11] 500[20-21] 200+tool[30-31] 500[40-41]")
    poison = tuple(replace(x, request_digest="p") if x.failed else x for x in built)
    for near in (SHARED, ANSWERED):
        kept(judge(beside(rollout(exchanges=poison), near), policy=UNTRUSTED), rollout(), str(near))
    apart = beside(rollout(exchanges=built), SHARED)
    assert judge(apart, policy=UNTRUSTED).rule == "interrupted"
    soon = tuple(
        replace(x, timing=replace(x.timing, started_at=x.timing.started_at * 0.5)) for x in poison
    )
    assert judge(beside(rollout(exchanges=soon), SHARED), policy=UNTRUSTED).rule != "healthy"


def test_honest_failures_are_found_under_either_policy() -> None:
    for case in HONEST:
        trusted, untrusted = judge(case.rollout), judge(case.rollout, policy=UNTRUSTED)
        assert trusted.rule == untrusted.rule == case.trusted, case.why
        assert trusted.scoreable == untrusted.scoreable == "no", case.why
        assert trusted.attributed_to is untrusted.attributed_to, case.why
        assert trusted.attributed_to in (AttributedTo.OPERATOR, AttributedTo.PROVIDER), case.why
        assert trusted.retry == untrusted.retry, case.why
        assert UNCORROBORATED not in trusted.warnings, case.why


def test_an_operators_failure_that_nobody_else_saw_carries_a_warning() -> None:
    alone = judge(rollout("401+operators*3"), policy=UNTRUSTED)
    assert (alone.corroborated, UNCORROBORATED in alone.warnings) == (None, True)
    seen = judge(beside(rollout("401+operators*3"), SHARED), policy=UNTRUSTED)
    assert (seen.corroborated, UNCORROBORATED in seen.warnings) == (True, False)
    contradicted = judge(beside(rollout("401+operators*3"), ANSWERED), policy=UNTRUSTED)
    assert (contradicted.corroborated, contradicted.health) == (False, Health.HEALTHY)


def test_trusting_agents_changes_nothing_in_the_truth_table() -> None:
    """Its verdicts are held by test_truth; here: none of its failures is put on the agent."""
    for row in chain(TABLE, SEQUENCES):
        if row.lost is not False:
            assert judge(row.rollout).attributed_to is not AttributedTo.AGENT, str(row)


def test_whatever_others_saw_too_is_found_in_the_truth_table_without_trust() -> None:
    for row in chain(TABLE, SEQUENCES):
        trusted = judge(row.rollout)
        if trusted.health is not Health.API_ERROR or trusted.subcategory == "rejected_request":
            continue
        models = {x.model for x in row.rollout.exchanges if x.kind == "inference"}
        if len(models) > 1 or row.rollout.model or "#" in row.calls or "%" in row.calls:
            continue  # more lanes than one, of which the first is taken for the model under test
        seen = beside(row.rollout, SHARED)
        assert judge(seen, policy=UNTRUSTED).rule == trusted.rule, str(row)


def test_a_batchs_own_trust_stands_before_the_policy() -> None:
    provoked = rollout("200+tool 401#bad")
    assert judge(replace(provoked, agents="untrusted")).health is Health.HEALTHY
    assert judge(replace(provoked, agents="trusted"), policy=UNTRUSTED).rule == "interrupted"


def test_a_failure_of_our_own_leaves_undecided_what_hangs_on_it() -> None:
    built = calls("200+tool 503")
    ours = replace(built[1], cause=built[1].cause and replace(
        built[1].cause, rule="proxy.upstream_credentials_unavailable"
    ))  # fmt: skip
    verdict = judge(rollout(exchanges=(built[0], ours)))
    assert (verdict.health, verdict.scoreable) == (Health.UNDECIDED, "unknown")
    assert verdict.attributed_to is AttributedTo.PROXY
    assert verdict.evidence == (ours.id,)
    answered = replace(built[0], id="x9", timing=replace(built[0].timing, started_at=2e9))
    assert judge(rollout(exchanges=(built[0], ours, answered))).health is Health.HEALTHY
    dead = calls("401*3")
    assert judge(rollout(exchanges=(*dead[:2], replace(ours, id="y")))).rule == "all_failed"


def test_no_breaker_opens_on_what_agents_did_or_may_have_done() -> None:
    for text, near in (("401+override#bad*3", None), ("200 401#bad", None), ("401+operators", None),
                       ("401*3", ANSWERED)):  # fmt: skip
        states: dict[str, BreakerState] = {}
        for n in range(6):
            seen = rollout(text, id=f"r{n}")
            verdict = judge(seen if near is None else beside(seen, near), policy=UNTRUSTED)
            assert not verdict.provisional
            states |= {each.lane: each for each in feed(states.values(), verdict, now=float(n))}
        assert all(state.phase is Phase.CLOSED for state in states.values()), text
    states = {}
    for n in range(5):
        verdict = judge(beside(rollout("401*3", id=f"r{n}"), SHARED), policy=UNTRUSTED)
        states |= {each.lane: each for each in feed(states.values(), verdict, now=float(n))}
    assert [state.phase for state in states.values()] == [Phase.OPEN]


def test_a_rollout_in_progress_is_not_doomed_by_bogus_keys() -> None:
    running = rollout("200+tool 401#bad*4", running=True)
    assert judge(running).doomed
    verdict = judge(running, policy=UNTRUSTED)
    assert (verdict.doomed, verdict.provisional) == (False, True)
    assert judge(rollout("401+override#bad*4", running=True), policy=UNTRUSTED).provisional
