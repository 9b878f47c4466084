"""Judge a rollout: eight rules, of which the first that fires gives the verdict.

Rewards and exit codes are never read, and missing evidence is never healthy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from classifier import totals
from classifier.evidence import (
    Evidence,
    any_output,
    main_lane,
    reported_activity,
    reported_error,
    taken_over,
    unprompted,
)
from classifier.fingerprints import NETWORK, Lane, cause_name, fingerprint, status_name, suspicion
from classifier.logical_calls import CallState, LogicalCall, ended_at, proven_empty
from classifier.policy import EVIDENCE, Policy
from classifier.records import Exchange, ExecutionStatus, RolloutRecord, TerminationReason
from classifier.retries import with_advice
from classifier.seed_policy import judge_by_seed
from classifier.verdicts import Health, Layer, Subcategory, Verdict
from classifier.warnings import warnings


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Which rule fired, and on what.

    ``failures`` decided it, by their ends; ``share`` says how many calls that is;
    ``evidence`` are exchange ids.
    """

    health: Health
    rule: str
    failures: Sequence[Exchange] = ()
    share: str = ""
    evidence: tuple[str, ...] = ()
    sentence: str | None = None


Rule = Callable[[Evidence], Finding | None]


def _ids(exchanges: Iterable[Exchange]) -> tuple[str, ...]:
    return tuple(exchange.id for exchange in exchanges)


def _failures(calls: Iterable[LogicalCall]) -> list[Exchange]:
    return sorted((x for call in calls for x in call.failures), key=lambda x: (ended_at(x), x.id))


def _not_judged(facts: Evidence) -> Finding | None:
    if not unprompted(facts.outcome):
        return None
    return Finding(health=Health.NOT_JUDGED, rule="not_judged")


def _undecided(facts: Evidence) -> Finding | None:
    lost = [call.last for call in facts.calls if call.state is CallState.LOST]
    if not (lost or facts.rollout.gaps or _nothing_yet(facts)):
        return None
    return Finding(health=Health.UNDECIDED, rule="undecided", evidence=_ids(lost))


def _nothing_yet(facts: Evidence) -> bool:
    """Whether the rollout is in progress and no call has ended yet."""
    if facts.any(CallState.ANSWERED, CallState.FAILED, CallState.UNANSWERED):
        return False
    return facts.outcome is None or facts.any(CallState.PENDING)


def _unanswered_failures(calls: tuple[LogicalCall, ...]) -> list[Exchange]:
    """Return the failures of calls of which none was answered; empty when one was."""
    if any(call.state is CallState.ANSWERED for call in calls) or any_output(calls):
        return []
    return _failures(calls)


def _all_failed(facts: Evidence) -> Finding | None:
    failures = _unanswered_failures(facts.calls)
    if not failures:
        return None
    return _api_error("all_failed", failures, f"on {_share(facts.calls)} calls")


def _main_model_failed(facts: Evidence) -> Finding | None:
    failures = _unanswered_failures(facts.main)
    if not failures:
        return None
    model = failures[-1].model or "the main model"
    return _api_error("main_model_failed", failures, f"on {_share(facts.main)} calls to {model}")


def _share(calls: tuple[LogicalCall, ...]) -> str:
    return f"{sum(bool(call.failures) for call in calls)} of {len(calls)}"


def _interrupted(facts: Evidence) -> Finding | None:
    tail = _failing_tail(facts.main)
    if not tail or _cause_of(tail[-1]) is Subcategory.REJECTED_REQUEST:
        return None
    if any(call.state is CallState.PENDING for call in facts.main):
        return None
    if taken_over(facts, ended_at(tail[-1].last)):
        return None
    failures = [
        x
        for x in _failures(tail)
        if x.cause and x.cause.subcategory is not Subcategory.REJECTED_REQUEST
    ]
    which = "the last " if len(tail) < len(facts.main) else ""
    share = f"on {which}{len(tail)} of {len(facts.main)} calls"
    return _api_error("interrupted", failures, share)


def _failing_tail(calls: tuple[LogicalCall, ...]) -> list[LogicalCall]:
    """Return the failed calls after the last answered one, oldest first."""
    tail: list[LogicalCall] = []
    for call in reversed(calls):
        if call.state is CallState.ANSWERED:
            break
        if call.state is CallState.FAILED:
            tail.append(call)
    return tail[::-1]


def _cause_of(call: LogicalCall) -> Subcategory | None:
    cause = call.failures[-1].cause
    return None if cause is None else cause.subcategory


def _api_error(rule: str, failures: list[Exchange], share: str) -> Finding:
    return Finding(
        health=Health.API_ERROR,
        rule=rule,
        failures=failures,
        share=share,
        evidence=_ids(failures),
    )


def _zero_signal(facts: Evidence) -> Finding | None:
    outcome = facts.outcome
    if facts.exempt or facts.calls or outcome is None:
        return None
    if reported_activity(outcome) or reported_error(outcome):
        return None
    return Finding(
        health=Health.SUSPECTED_API_ERROR,
        rule="zero_signal",
        sentence="a prompt was executed, yet no call, token or tool call was seen",
    )


def _empty_answers(facts: Evidence) -> Finding | None:
    answered = [call for call in facts.main if call.state is CallState.ANSWERED]
    if facts.exempt or not answered or any_output(facts.main):
        return None
    if taken_over(facts, 0.0) or not all(proven_empty(call.last) for call in answered):
        return None
    return Finding(
        health=Health.SUSPECTED_API_ERROR,
        rule="empty_answers",
        evidence=_ids(call.last for call in answered),
        sentence=f"{len(answered)} answered of {len(facts.main)} calls, none carried any output",
    )


def _healthy(facts: Evidence) -> Finding:
    answers = [call.last for call in facts.main if call.state is CallState.ANSWERED]
    return Finding(health=Health.HEALTHY, rule="healthy", evidence=_ids(answers[-1:]))


RULES: tuple[Rule, ...] = (
    _not_judged,
    _undecided,
    _all_failed,
    _main_model_failed,
    _interrupted,
    _zero_signal,
    _empty_answers,
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
    finding = next((f for f in (rule(facts) for rule in RULES) if f is not None), None)
    return _verdict(facts, finding or _healthy(facts))


def _verdict(facts: Evidence, finding: Finding) -> Verdict:
    rollout, exchanges = facts.rollout, facts.exchanges
    failures = facts.failures
    top = totals.dominant(finding.failures or failures)
    verdict = Verdict(
        rollout_id=rollout.id,
        batch=rollout.batch,
        health=finding.health,
        rule=finding.rule,
        policy=facts.policy.name,
        lane=main_lane(facts),
        error=_suspicion(finding),
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
        lost_s=totals.lost_s(facts.calls) if failures else 0.0,
        scoreable=_scoreable(facts, finding.health),
        doomed=_doomed(facts),
        provisional=facts.outcome is None or facts.any(CallState.PENDING),
        warnings=warnings(facts),
        evidence=finding.evidence,
    )
    return with_advice(_explained(verdict, facts, finding, top), rollout, facts.policy)


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
        lane=str(Lane.of(top.example)),
        layer=Layer.PROXY_PROVEN,
        error=_sentence(facts, finding, top),
        provider_wait_s=_provider_wait(finding.failures),
    )


def _sentence(facts: Evidence, finding: Finding, top: totals.Dominant) -> str:
    kind = "transient" if top.cause.transient else "permanent"
    sentence = f"api_error [{top.cause.subcategory.value}, {kind}]: "
    sentence += f"{_statuses(finding.failures, top.status)} {finding.share}"
    outcome = facts.outcome
    timed_out = outcome is not None and outcome.status is ExecutionStatus.TASK_TIMEOUT
    return f"{sentence}, until the task timed out" if timed_out else sentence


def _statuses(failures: Sequence[Exchange], first: int | None) -> str:
    """Return ``HTTP 429``, ``HTTP 429 and 500``, ``no answer``; the dominant one first."""
    names = dict.fromkeys([status_name(first), *(status_name(x.status) for x in failures)])
    numbers = [name for name in names if name != NETWORK]
    parts = [f"HTTP {' and '.join(numbers)}"] if numbers else []
    parts += ["no answer"] if NETWORK in names else []
    inside = numbers and all(name < "400" for name in numbers)
    return ("an error inside " if inside else "") + " or ".join(parts)


def _suspicion(finding: Finding) -> str | None:
    return finding.sentence and f"{finding.health.value}: {finding.sentence}"


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
    tail = _failing_tail(facts.main)
    fatal = {Subcategory.QUOTA, Subcategory.AUTH}
    if not any(call.state is CallState.ANSWERED for call in facts.main):
        fatal = set(Subcategory)
    counts = Counter(
        (x.cause.subcategory, x.status, x.cause.code)
        for x in _failures(tail)
        if x.cause is not None and not x.cause.transient and x.cause.subcategory in fatal
    )
    return max(counts.values(), default=0) >= limit


def _scoreable(facts: Evidence, health: Health) -> str:
    """Return ``yes``, ``no``, or ``unknown`` where it is not known if a model was reached."""
    if health is Health.UNDECIDED:
        return "unknown"
    if health is not Health.HEALTHY:
        return "no"
    outcome = facts.outcome
    out_of_steps = outcome and outcome.termination_reason is TerminationReason.MAX_STEPS
    if out_of_steps and facts.policy.max_steps == "exclude":
        return "no"
    reached = facts.exempt or facts.any(CallState.ANSWERED) or any_output(facts.calls)
    return "yes" if reached or reported_activity(outcome) else "unknown"
