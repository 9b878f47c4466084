"""Judge a rollout: an ordered list of rules, of which the first that fires gives the verdict.

Rewards and exit codes are never read, and missing evidence is never healthy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from classifier import failure_rules, suspicion_rules, totals
from classifier.evidence import (
    Evidence,
    any_output,
    main_lane,
    never_began,
    reported_activity,
    unprompted,
)
from classifier.findings import Finding, Rule, ids
from classifier.fingerprints import Lane, cause_name, fingerprint, status_name, suspicion
from classifier.logical_calls import CallState, LogicalCall
from classifier.policy import EVIDENCE, Policy
from classifier.records import Exchange, ExecutionStatus, RolloutRecord, TerminationReason
from classifier.retries import with_advice
from classifier.roles import role_verdicts
from classifier.seed_policy import judge_by_seed
from classifier.suspicion_rules import without_signal
from classifier.tails import Strength
from classifier.time_account import time_account
from classifier.validity.across import ways_of
from classifier.validity.checks import Examined, examine, spoils
from classifier.validity.measurement import Measurement
from classifier.verdicts import Health, Layer, Subcategory, Verdict
from classifier.warnings import warnings
from classifier.weighing import Weighed, weigh


def _not_judged(facts: Evidence) -> Finding | None:
    if unprompted(facts.outcome) or never_began(facts) or _kept_out(facts):
        return Finding(health=Health.NOT_JUDGED, rule="not_judged")
    return None


def _kept_out(facts: Evidence) -> bool:
    """Whether a breaker did not admit the rollout, and it made no call."""
    return facts.rollout.skipped is not None and without_signal(facts)


def _undecided(facts: Evidence) -> Finding | None:
    lost = [call.last for call in facts.calls if call.state is CallState.LOST]
    if not (lost or facts.rollout.gaps or _nothing_yet(facts)):
        return None
    return Finding(health=Health.UNDECIDED, rule="undecided", evidence=ids(lost))


def _nothing_yet(facts: Evidence) -> bool:
    """Whether the rollout is in progress and no call has ended yet."""
    if facts.any(CallState.ANSWERED, CallState.FAILED, CallState.UNANSWERED):
        return False
    return facts.outcome is None or facts.any(CallState.PENDING)


def _healthy(facts: Evidence) -> Finding:
    answers = [call.last for call in facts.main if call.state is CallState.ANSWERED]
    return Finding(health=Health.HEALTHY, rule="healthy", evidence=ids(answers[-1:]))


RULES: tuple[Rule, ...] = (
    _not_judged,
    _undecided,
    failure_rules.all_failed,
    failure_rules.main_model_failed,
    failure_rules.interrupted,
    suspicion_rules.zero_signal,
    suspicion_rules.empty_answers,
    suspicion_rules.never_answered,
    suspicion_rules.unexplained_rejections,
)


def judge(rollout: RolloutRecord, *, policy: Policy = EVIDENCE) -> Verdict:
    """Judge one rollout; the order in which its records arrived makes no difference.

    Before the outcome, and while calls are in flight, it is ``provisional``. A call that
    never got a status counts under ``network`` in ``status_counts``; ``dominant_status``
    is None where such calls are the most frequent. ``retry.after_s`` is derived from the
    rollout's id, so that judging again gives the same.
    """
    facts = Evidence.of(rollout, policy)
    if policy.name == "seed":
        return judge_by_seed(facts)
    return _verdict(facts, weigh(facts, _first))


def _first(facts: Evidence) -> Finding:
    finding = next((f for f in (rule(facts) for rule in RULES) if f is not None), None)
    return finding or _healthy(facts)


def _verdict(facts: Evidence, weighed: Weighed) -> Verdict:
    finding, kept = weighed.finding, weighed.facts
    rollout, exchanges = facts.rollout, facts.exchanges
    failures = facts.failures
    top = totals.dominant(finding.strongest or finding.failures or failures)
    time = time_account(facts.calls, began_at=rollout.began_at, ended_at=rollout.ended_at)
    roles = role_verdicts(rollout, facts.policy, _first)
    measured = Measurement.of(facts, roles=roles, time=time)
    examined = examine(measured)
    excluded_by = _excluded_by(kept, examined) if finding.health is Health.HEALTHY else ()
    verdict = Verdict(
        rollout_id=rollout.id,
        batch=rollout.batch,
        health=finding.health,
        rule=finding.rule,
        policy=facts.policy.name,
        lane=main_lane(kept if kept.main else facts),
        error=_error(facts, finding),
        total_requests=len(facts.calls),
        failed_requests=sum(bool(call.failures) for call in facts.calls) if failures else 0,
        recovered_requests=_recovered(facts.calls) if failures else 0,
        status_counts=totals.status_counts(failures),
        dominant_status=None if top is None else top.status,
        input_tokens=totals.input_total(exchanges),
        output_tokens=totals.output_total(exchanges),
        total_tokens=totals.all_tokens(exchanges),
        tool_calls=totals.tool_calls(exchanges),
        cost_usd=totals.cost_usd(exchanges),
        lost_s=time.lost_s,
        scoreable=_scoreable(kept, finding.health, excluded_by, keeps=weighed.keeps),
        doomed=_doomed(kept),
        provisional=facts.outcome is None or facts.any(CallState.PENDING),
        warnings=(*warnings(facts), *weighed.warnings),
        evidence=finding.evidence,
        attributed_to=weighed.attributed_to,
        corroborated=weighed.corroborated,
        validity=examined.findings,
        validity_coverage=examined.coverage,
        roles=roles,
        provider_s=time.provider_s,
        agent_s=time.agent_s,
        excluded_by=excluded_by,
        servings=tuple(ways_of(measured.main)),
    )
    return with_advice(_explained(verdict, facts, finding, top), rollout, facts.policy)


def _error(facts: Evidence, finding: Finding) -> str | None:
    """Return what the verdict says went wrong; of a skipped rollout, which breaker was open."""
    if finding.health is Health.NOT_JUDGED:
        return facts.rollout.skipped
    return finding.sentence and f"{finding.health.value}: {finding.sentence}"


def _explained(
    verdict: Verdict, facts: Evidence, finding: Finding, top: totals.Dominant | None
) -> Verdict:
    """Add to an unhealthy verdict its category, names and sentence."""
    if finding.health is Health.SUSPECTED_API_ERROR:
        return replace(verdict, fingerprint=suspicion(finding.rule), layer=Layer.ZERO_SIGNAL)
    if finding.health is not Health.API_ERROR or top is None:
        return verdict
    cause = top.cause
    return replace(
        verdict,
        subcategory=cause.subcategory,
        transient=cause.transient,
        fingerprint=fingerprint(cause.subcategory, top.status),
        cause=cause_name(
            cause.subcategory, top.example.upstream, top.status, cause.code or cause.reason
        ),
        lane=str(Lane.of(top.example)) if top.example.model else verdict.lane,
        layer=Layer.PROXY_PROVEN,
        error=_sentence(facts, finding, top),
        provider_wait_s=_provider_wait(finding.strongest or finding.failures),
    )


def _sentence(facts: Evidence, finding: Finding, top: totals.Dominant) -> str:
    kind = "transient" if top.cause.transient else "permanent"
    sentence = f"api_error [{top.cause.subcategory.value}, {kind}]: "
    sentence += f"{_statuses(finding.failures, top.status)} {finding.share}"
    outcome = facts.outcome
    timed_out = outcome is not None and outcome.status is ExecutionStatus.TASK_TIMEOUT
    return f"{sentence}, until the task timed out" if timed_out else sentence


_NO_ANSWER = "no answer"
# How a call failed whose status says nothing of it, by its cause's reason.
_AFTER_SUCCESS = {
    "truncated": "HTTP {} cut midway",
    "empty_body": "HTTP {} with an empty body",
    "html_body": "HTTP {} with a web page as its body",
    "aborted": "HTTP {} that was aborted",
    "stalled": "HTTP {} that fell silent",
    "timeout": "HTTP {} that timed out",
}
_IN_BAND = "an error inside HTTP {}"


def _statuses(failures: Sequence[Exchange], first: int | None) -> str:
    """Return ``HTTP 429 and 500``, ``HTTP 200 cut midway or no answer``; the dominant one first."""
    told: dict[str, dict[str, None]] = {}
    for failed in sorted(failures, key=lambda each: each.status != first):
        told.setdefault(_way(failed), {})[status_name(failed.status)] = None
    unanswered = [_NO_ANSWER] if told.pop(_NO_ANSWER, None) else []
    answered = [way.format(" and ".join(names)) for way, names in told.items()]
    return " or ".join(answered + unanswered)


def _way(failed: Exchange) -> str:
    """Return how a call failed, with a place for its status."""
    if failed.status is None:
        return _NO_ANSWER
    if failed.status >= 400:
        return "HTTP {}"
    reason = None if failed.cause is None else failed.cause.reason
    return _IN_BAND if reason is None else _AFTER_SUCCESS.get(reason, _IN_BAND)


def _provider_wait(failures: Sequence[Exchange]) -> float | None:
    """Return the wait in seconds of the latest failure that states one."""
    waits = [x.cause.retry_after_s for x in failures if x.cause is not None]
    return next((wait for wait in reversed(waits) if wait is not None), None)


def _recovered(calls: Sequence[LogicalCall]) -> int:
    """Count the calls with a failure after which the same model answered."""
    answered: set[str | None] = set()
    recovered = 0
    for call in reversed(calls):
        if call.state is CallState.ANSWERED:
            answered.add(call.model)
        recovered += call.model in answered and bool(call.failures)
    return recovered


def _doomed(facts: Evidence) -> bool:
    """Whether continuing is pointless: the same permanent failure repeats.

    Answers are counted, not logical calls: an SDK's own retry of a dead key is proof too.
    After a success only a quota or auth failure counts; others may be about one request.
    """
    limit = facts.policy.doomed_after
    if limit <= 0:
        return False
    fatal = {Subcategory.QUOTA, Subcategory.AUTH}
    if not any(call.state is CallState.ANSWERED for call in facts.main):
        fatal = set(Subcategory)
    counts = Counter(
        (x.cause.subcategory, x.status, x.cause.code)
        for x in facts.tail.failures
        if x.cause is not None and not x.cause.transient and x.cause.subcategory in fatal
    )
    return max(counts.values(), default=0) >= limit


def _excluded_by(facts: Evidence, examined: Examined) -> tuple[str, ...]:
    """Name what the policy leaves a healthy rollout's score out for."""
    outcome, rollout, policy = facts.outcome, facts.rollout, facts.policy
    out_of_steps = outcome and outcome.termination_reason is TerminationReason.MAX_STEPS
    steps = out_of_steps and (rollout.max_steps or policy.max_steps) == "exclude"
    validity, agents = rollout.validity or policy.validity, rollout.agents or policy.agents
    spoilt = [
        found.check
        for found in examined.findings
        if spoils(found, validity=validity, agents=agents)
    ]
    return (TerminationReason.MAX_STEPS.value, *spoilt) if steps else tuple(spoilt)


def _scoreable(
    facts: Evidence, health: Health, excluded_by: tuple[str, ...], *, keeps: bool
) -> str:
    """Return ``yes``, ``no``, or ``unknown`` where it is not known if a model was reached.

    Where nothing that an agent can cause may lower it (``keeps``), a healthy one counts.
    """
    if health is Health.UNDECIDED:
        return "unknown"
    if health is not Health.HEALTHY or excluded_by:
        return "no"
    if keeps:
        return "yes"
    if _ends_unexplained(facts):
        return "unknown"
    reached = facts.exempt or _reached(facts)
    return "yes" if reached or facts.activity or reported_activity(facts.outcome) else "unknown"


def _reached(facts: Evidence) -> bool:
    """Whether a model answered; the registered one, where calls to it were seen."""
    if not facts.bound:
        return facts.any(CallState.ANSWERED) or any_output(facts.calls)
    return any_output(facts.main) or any(call.state is CallState.ANSWERED for call in facts.main)


def _ends_unexplained(facts: Evidence) -> bool:
    tail = facts.tail
    return tail.strength is Strength.UNEXPLAINED and not (tail.continued or facts.exempt)
