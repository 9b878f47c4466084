"""Judge a rollout: an ordered list of rules, of which the first that fires gives the verdict.

Rewards and exit codes are never read, and missing evidence is never healthy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from classifier import totals
from classifier.evidence import (
    Evidence,
    Finding,
    Rule,
    Strength,
    any_output,
    continued_elsewhere,
    ids,
    main_lane,
    never_began,
    reported_activity,
    reported_error,
    unprompted,
)
from classifier.fingerprints import Lane, cause_name, fingerprint, status_name, suspicion
from classifier.logical_calls import (
    CallState,
    LogicalCall,
    cut_short,
    ended_at,
    filtered,
    has_content,
    proven_empty,
    refused,
)
from classifier.records import (
    HARNESS,
    UNREAD_API,
    AnswerState,
    Ending,
    Exchange,
    ExecutionStatus,
    Outcome,
    RolloutRecord,
    TerminationReason,
    UsageSource,
)
from classifier.retries import with_advice
from classifier.seed_policy import judge_by_seed
from classifier.totals import dominant, time_account
from classifier.validity import ValidityReport, examine, invalidates
from classifier.validity.measurement import Measurement
from classifier.validity.serving import ways_of
from classifier.verdicts import (
    ANSWERS_UNSEEN,
    BUDGET,
    CALLS_UNATTRIBUTED,
    CANCELLED,
    ENDED_ON_LOST_STATE,
    ENDED_ON_UNEXPLAINED_REJECTION,
    ENDED_ON_UNREAD_ANSWERS,
    ERROR_BEFORE_ANY_CALL,
    EVIDENCE,
    INJECTED,
    OWN_FAILURES,
    REFERENCE_PARTLY,
    REFUSED_BY_HARNESS,
    RULES_VERSION,
    SEED,
    AttributedTo,
    Health,
    Layer,
    Policy,
    ProofSource,
    RoleVerdict,
    Subcategory,
    Verdict,
    plural,
)
from classifier.weighing import (
    FAILED_BY_PROXY,
    AttributedFinding,
    references_of,
    wanted,
    weigh,
)

# --- failure rules ---
#
# Rules 3 to 5: failures of the provider or the account that the wire proves.


def all_failed(facts: Evidence) -> Finding | None:
    """Fire where no call was answered and some failed; of those bound, where any is."""
    if not _unanswered(facts.calls):
        return None
    failures = _failures(facts.main if facts.bound else facts.calls)
    if not failures:
        return None
    if facts.bound and len(facts.main) < len(facts.calls):
        return _api_error("all_failed", failures, _share_of_main(facts))
    return _api_error("all_failed", failures, f"on {_share(facts.calls)}")


def main_model_failed(facts: Evidence) -> Finding | None:
    """Fire where no call to the model under test was answered and some failed."""
    failures = _failures(facts.main) if _unanswered(facts.main) else []
    return _api_error("main_model_failed", failures, _share_of_main(facts)) if failures else None


def interrupted(facts: Evidence) -> Finding | None:
    """Fire where the model under test answered, and failures at the end cut the agent off."""
    tail = facts.tail
    if not tail.cut_off or tail.continued:
        return None
    if any(call.state is CallState.PENDING for call in facts.main):
        return None
    failures = [x for x in tail.failures if x.cause and Strength.of(x.cause) >= Strength.TRANSIENT]
    which = "the last " if len(tail.calls) < len(facts.main) else ""
    share = f"on {which}{len(tail.calls)} of {plural(len(facts.main), 'call')}"
    return _api_error("interrupted", failures, share, tail.strongest)


def _unanswered(calls: tuple[LogicalCall, ...]) -> bool:
    """Return True if no call was answered, not even in part."""
    return not any(call.state is CallState.ANSWERED for call in calls) and not any_output(calls)


def _failures(calls: Iterable[LogicalCall]) -> list[Exchange]:
    return sorted((x for call in calls for x in call.failures), key=lambda x: (ended_at(x), x.id))


def _share(calls: tuple[LogicalCall, ...]) -> str:
    return f"{sum(bool(call.failures) for call in calls)} of {plural(len(calls), 'call')}"


def _share_of_main(facts: Evidence) -> str:
    failed = next(x for call in reversed(facts.main) for x in call.failures)
    return f"on {_share(facts.main)} to {failed.model or 'the main model'}"


def _api_error(
    rule: str, failures: Sequence[Exchange], share: str, strongest: Sequence[Exchange] = ()
) -> Finding:
    return Finding(
        health=Health.API_ERROR,
        rule=rule,
        failures=failures,
        strongest=strongest,
        share=share,
        evidence=ids(failures),
    )


# --- suspicion rules ---
#
# Rules 6 and 7: nothing failed that the wire can prove, and no model is known to have worked.


def _suspected(rule: str, sentence: str, evidence: Iterable[Exchange] = ()) -> Finding:
    return Finding(
        health=Health.SUSPECTED_API_ERROR, rule=rule, sentence=sentence, evidence=ids(evidence)
    )


def zero_signal(facts: Evidence) -> Finding | None:
    """Fire where a prompt was executed and nothing shows that a model was asked.

    Undecided while calls ran that named no rollout: they may have been this one's.
    """
    if not without_signal(facts):
        return None
    if facts.rollout.unattributed_calls:
        return Finding(health=Health.UNDECIDED, rule="undecided")
    seen = _seen(facts.rollout)
    missing = f"inference call, token or tool call was seen, only {seen}" if seen else (
        "call, token or tool call was seen"
    )  # fmt: skip
    return _suspected("zero_signal", f"a prompt was executed, yet no {missing}")


def without_signal(facts: Evidence) -> bool:
    """Return True if a prompt was executed but neither the calls nor the runner show activity."""
    outcome = facts.outcome
    if facts.exempt or facts.calls or outcome is None or facts.activity:
        return False
    return not (reported_activity(outcome) or reported_error(outcome))


def _seen(rollout: RolloutRecord) -> str:
    """Name what was called instead: ``5 embedding (2 failed), 1 judge``."""
    names = [x.kind.value if x.role == "agent" else x.role for x in rollout.exchanges]
    failed = Counter(name for name, x in zip(names, rollout.exchanges, strict=True) if x.failed)
    return ", ".join(
        f"{count} {name}" + (f" ({failed[name]} failed)" if failed[name] else "")
        for name, count in sorted(Counter(names).items())
    )


def unread_answers(facts: Evidence) -> Finding | None:
    """Fire where responses of the model under test came, and not one could be read."""
    unread = [] if facts.exempt else facts.left_unread
    if not unread or any(call.state is CallState.ANSWERED for call in facts.main):
        return None
    last = unread[-1].last
    came = "with HTTP success and neither an output nor an error that could be read"
    if (last.status or 0) >= 300:
        came = f"with a redirect, {last.unreadable_reason or last.status}, that was not followed"
    return _suspected(
        "unread_answers",
        f"{len(unread)} of {plural(len(facts.main), 'call')} came back {came}",
        (call.last for call in unread),
    )


def empty_answers(facts: Evidence) -> Finding | None:
    """Fire where the model under test answered, and never with a text or a tool call."""
    answered = [call for call in facts.main if call.state is CallState.ANSWERED]
    if facts.exempt or not answered or facts.others_worked:
        return None
    if any(has_content(attempt) for call in facts.main for attempt in call.attempts):
        return None
    if not all(proven_empty(call.last) for call in answered):
        return None
    return _suspected(
        "empty_answers",
        f"{len(answered)} answered of {plural(len(facts.main), 'call')}, none carried any output",
        (call.last for call in answered),
    )


def never_answered(facts: Evidence) -> Finding | None:
    """Fire where the agent gave up each call to the model under test before an answer."""
    main = facts.main
    if facts.exempt or facts.outcome is None or not main:
        return None
    if not all(call.abandoned for call in main):
        return None
    if not facts.bound and continued_elsewhere(main, facts.calls, main):
        return None
    calls = "its only call" if len(main) == 1 else f"each of its {plural(len(main), 'call')}"
    return _suspected(
        "never_answered",
        f"the agent gave up {calls} before an answer came",
        (call.last for call in main),
    )


def unexplained_rejections(facts: Evidence) -> Finding | None:
    """Fire where it ends in one rejection, at least twice, that nothing explains."""
    tail = facts.tail
    if facts.exempt or tail.strength is not Strength.UNEXPLAINED or tail.continued:
        return None
    if any(call.state is CallState.PENDING for call in facts.main):
        return None
    rejected = [call for call in tail.calls if _rejection(call) is not None]
    (rejection, count), *_ = Counter(map(_rejection, rejected)).most_common(1)
    if rejection is None or count < 2:
        return None
    return _suspected(
        "unexplained_rejections",
        f"HTTP {status_name(rejection[0])} without a reason on {count} of the last "
        f"{plural(len(tail.calls), 'call')}, and no answer after them",
        (call.last for call in rejected if _rejection(call) == rejection),
    )


def _rejection(call: LogicalCall) -> tuple[int | None, str | None] | None:
    """Return the status and code of an unexplained rejection; None for another failure."""
    failed = call.failures[-1]
    cause = failed.cause
    if cause is None or Strength.of(cause) is not Strength.UNEXPLAINED:
        return None
    return failed.status, cause.code


# --- roles ---
#
# Small verdicts on the calls of roles other than the agent: judges, simulated users.


AGENT = "agent"
_ENDED = Outcome(status=ExecutionStatus.SUCCESS)


def role_verdicts(
    rollout: RolloutRecord, policy: Policy, find: Callable[[Evidence], Finding]
) -> dict[str, RoleVerdict]:
    """Judge the calls of each role by itself, as an agent's; roles in alphabetic order.

    What the registration and the outcome say is of the agent, and does not count here. A role
    that made no inference call has no verdict.

    Arguments:
        find: the first rule that fires on evidence.
    """
    by_role = {
        role: _of(Evidence.of(record, policy), find)
        for role, record in _role_records(rollout).items()
    }
    return {role: verdict for role, verdict in by_role.items() if verdict is not None}


def _role_records(rollout: RolloutRecord) -> dict[str, RolloutRecord]:
    """Return the calls of each other role as those of an agent that has a rollout to itself."""
    return {
        role: RolloutRecord(
            id=rollout.id,
            exchanges=tuple(replace(x, role=AGENT) for x in rollout.exchanges if x.role == role),
            outcome=None if rollout.outcome is None else _ENDED,
            content_filter="failure",  # a judge without an answer has not judged
            agents=rollout.agents,
            neighbours=rollout.neighbours,
            references=rollout.references,
        )
        for role in sorted({x.role for x in rollout.exchanges} - {AGENT})
    }


def _of(facts: Evidence, find: Callable[[Evidence], Finding]) -> RoleVerdict | None:
    if not facts.calls:
        return None
    finding = find(facts)
    stopped = [x for x in facts.tail.failures[-1:] if filtered(x)]
    if finding.health is Health.HEALTHY and stopped:  # it has not judged
        finding = Finding(
            health=Health.API_ERROR, rule="interrupted", failures=stopped, evidence=ids(stopped)
        )
    top = None
    if finding.health is Health.API_ERROR:
        top = dominant(finding.strongest or finding.failures)
    verdict = RoleVerdict(
        health=finding.health,
        rule=finding.rule,
        total_requests=len(facts.calls),
        failed_requests=sum(bool(call.failures) for call in facts.calls),
        evidence=finding.evidence[-10:],
        error=finding.sentence,
        attributed_to=_whose(facts, finding, find),
    )
    if top is None:
        return verdict
    cause, status = top.cause, top.status
    failed = "no answer" if status is None else f"HTTP {status}"
    return replace(
        verdict,
        subcategory=cause.subcategory,
        cause=cause_name(
            cause.subcategory, top.example.upstream, status, cause.code or cause.reason
        ),
        error=f"{failed} {finding.share}",
    )


def _whose(
    facts: Evidence, finding: Finding, find: Callable[[Evidence], Finding]
) -> AttributedTo | None:
    """Return whose failures a role's verdict stands on: an untrusted agent can cause them.

    What it writes is what a judge reads. Where the provider is partly down, nobody can say.
    """
    if not facts.untrusted or not any(x.id in finding.evidence for x in facts.failures):
        return None
    weighed = weigh(facts, find, ())
    partly = REFERENCE_PARTLY in weighed.warnings
    return AttributedTo.UNKNOWN if partly else weighed.attributed_to


# --- warnings ---
#
# They tell the reader of a verdict more; none changes the health.


def _ended_unexplained(facts: Evidence) -> bool:
    return Strength.UNEXPLAINED in (facts.tail.strength, facts.tail.last)


def _ended_on_lost_state(facts: Evidence) -> bool:
    """Return True if the worst failure left at the end is a rejected state of the conversation.

    What signs it, and what the provider keeps of it (previous_response_id), no agent writes.
    """
    return facts.tail.strength is Strength.LOST_STATE


def _ended_on_rejection(facts: Evidence) -> bool:
    if _ended_unexplained(facts) or _ended_on_lost_state(facts):
        return False
    last = facts.tail.failures[-1].cause if facts.tail.failures else None
    if last is not None and last.reason in HARNESS:
        return False
    return facts.tail.last is Strength.EXPLAINED


def _reason(name: str) -> Callable[[Evidence], bool]:
    return lambda facts: any(x.cause is not None and x.cause.reason == name for x in facts.failures)


def _refused_by_harness(facts: Evidence) -> bool:
    return any(x.cause is not None and x.cause.reason in HARNESS for x in facts.failures)


def _filtered(facts: Evidence) -> bool:
    """Return True if a content filter stopped a call, counted as a failure or as an answer."""
    own = {x.id for x in facts.exchanges}
    return any(filtered(x) for x in facts.rollout.exchanges if x.id in own)


def _usage(source: UsageSource) -> Callable[[Evidence], bool]:
    # What a filter rejected is an answer where the policy says so, and costs no tokens.
    return lambda facts: source in {x.usage.source for x in facts.answers if not _rejected(x)}


def _unfetched(facts: Evidence) -> bool:
    """Return True if the rollout ended, and a background response of it was never fetched."""
    return facts.outcome is not None and bool(totals.unfetched(facts.exchanges))


def _usage_missing(facts: Evidence) -> bool:
    return _usage(UsageSource.ABSENT)(facts) or _unfetched(facts)


def _rejected(exchange: Exchange) -> bool:
    return exchange.status is not None and exchange.status >= 400


def _any_answer(applies: Callable[[Exchange], bool]) -> Callable[[Evidence], bool]:
    return lambda facts: any(map(applies, facts.answers))


def _never_answered(facts: Evidence) -> bool:
    """Return True if the agent left every call; it has not left one that is in flight."""
    others = (CallState.ANSWERED, CallState.UNREAD, CallState.FAILED, CallState.PENDING)
    return bool(facts.calls) and not facts.any(*others)


def _unseen_activity(facts: Evidence) -> bool:
    return not facts.calls and not facts.exempt and reported_activity(facts.outcome)


def _unattributed(facts: Evidence) -> bool:
    return facts.rollout.unattributed_calls > 0 and without_signal(facts)


def _repeats(facts: Evidence) -> bool:
    failures = [x for x in facts.failures if x.request_digest]
    if len(failures) < facts.policy.request_repeats:
        return False
    counts = Counter((x.request_digest, x.cause and x.cause.rule) for x in failures)
    return max(counts.values()) >= facts.policy.request_repeats


def _ended_unread(facts: Evidence) -> bool:
    """Return True if at least the last two answers were unreadable, after one that was read.

    One redirect suffices, of which no model answered.
    """
    left = facts.left_unread if facts.any(CallState.UNREAD) else []
    if not left or (len(left) < 2 and (left[-1].last.status or 0) < 300):
        return False
    return any(call.state is CallState.ANSWERED for call in facts.main)


def _asked_unread(facts: Evidence) -> bool:
    """Return True if the agent asked a question at a path that is not read."""
    return any(x.api.startswith(UNREAD_API) and x.role == AGENT for x in facts.rollout.exchanges)


def _closed_at_outcome(facts: Evidence) -> bool:
    return Ending.CLOSED_AT_OUTCOME in {x.ending for x in facts.exchanges}


# In the order in which a verdict lists them.
WARNINGS: tuple[tuple[str, Callable[[Evidence], bool]], ...] = (
    ("calls_lost", lambda facts: facts.any(CallState.LOST)),
    ("calls_unrecorded", lambda facts: facts.rollout.gaps > 0),
    (CALLS_UNATTRIBUTED, _unattributed),
    ("calls_in_flight", lambda facts: facts.any(CallState.PENDING)),
    ("calls_never_answered", _never_answered),
    (ERROR_BEFORE_ANY_CALL, never_began),
    ("calls_bypass_the_proxy", _unseen_activity),
    ("bound_model_not_seen", lambda facts: facts.unseen and not facts.exempt),
    ("ended_on_rejection", _ended_on_rejection),
    (ENDED_ON_UNEXPLAINED_REJECTION, _ended_unexplained),
    (ENDED_ON_UNREAD_ANSWERS, _ended_unread),
    (ENDED_ON_LOST_STATE, _ended_on_lost_state),
    ("ended_on_failure", lambda facts: facts.tail.cut_off and facts.tail.continued),
    (REFUSED_BY_HARNESS, _refused_by_harness),
    ("context_length", _reason("context_length")),
    ("content_filter", _filtered),
    ("refusals", _any_answer(refused)),
    ("truncated_by_max_tokens", _any_answer(cut_short)),
    ("empty_answers", _any_answer(proven_empty)),
    ("left_by_agent", lambda facts: Ending.LEFT_BY_AGENT in {x.ending for x in facts.exchanges}),
    ("left_while_held", lambda facts: facts.any(CallState.HELD)),
    ("closed_at_outcome", _closed_at_outcome),
    ("request_repeated", _repeats),
    ("usage_missing", _usage_missing),
    ("usage_partial", _usage(UsageSource.PARTIAL)),
    ("answers_unread", lambda facts: any(x.unreadable_reason is not None for x in facts.exchanges)),
    ("questions_not_read", _asked_unread),
    (ANSWERS_UNSEEN, _any_answer(lambda x: x.answer_state is AnswerState.UNSEEN)),
    (INJECTED, lambda facts: any(x.injected for x in facts.exchanges)),
)


def warnings(facts: Evidence) -> tuple[str, ...]:
    """Return the names of all that apply."""
    return tuple(name for name, applies in WARNINGS if applies(facts))


# --- list of rules, and the verdict ---


def _not_judged(facts: Evidence) -> Finding | None:
    if unprompted(facts.outcome) or never_began(facts) or _kept_out(facts):
        return Finding(health=Health.NOT_JUDGED, rule="not_judged")
    return None


def _kept_out(facts: Evidence) -> bool:
    """Return True if it made no call: a breaker did not admit it, or others spent its budget."""
    if _cut_off_by_others(facts):
        return without_signal(facts) or facts.states == {CallState.HELD}
    return facts.rollout.skipped is not None and without_signal(facts)


def _cut_off_by_others(facts: Evidence) -> bool:
    """Return True if its batch's limit refused its calls, and others spent that."""
    reached = facts.rollout.limit_reached
    if reached is None or reached.is_of_proxy:
        return False
    return not reached.is_own_doing(untrusted=facts.untrusted)


def _turned_away(facts: Evidence) -> bool:
    """Return True if the proxy turned a call away, and none of the model's answers followed.

    An untrusted agent that hung up while its call waited turned away itself, and so did one whose
    own calls took more than a quarter of the room.
    """
    reached = facts.rollout.limit_reached
    if reached is None or not reached.is_of_proxy:
        return False
    if facts.untrusted:
        crowds = reached.own * 4 >= reached.most
        if crowds if reached.scope == "service" else reached.held_s is None:
            return False
    answers = (call.last for call in facts.main if call.state is CallState.ANSWERED)
    return not any(answer.timing.started_at > reached.at for answer in answers)


def _undecided(facts: Evidence) -> Finding | None:
    lost = [call.last for call in facts.calls if call.state is CallState.LOST]
    lost += [] if _is_own_leaving(facts) else [call.last for call in facts.left_held]
    if lost or facts.rollout.gaps or _nothing_yet(facts) or _turned_away(facts):
        return Finding(health=Health.UNDECIDED, rule="undecided", evidence=ids(lost))
    unseen = facts.unseen_answers if _wants_proof(facts) else ()
    return _unproven(unseen) if unseen else None


def _is_own_leaving(facts: Evidence) -> bool:
    """Return True if calls that were given up while held leave nothing undecided.

    Of an untrusted agent they do not: it could rid itself of a zero by hanging up. Where a limit
    held them they count as refused, and the limit decides, unless the calls in flight of a trusted
    agent had only reserved what was left.
    """
    reached = facts.rollout.limit_reached
    if facts.untrusted:
        return True
    return reached is not None and (reached.is_spent or not reached.is_own_doing(untrusted=False))


def _wants_proof(facts: Evidence) -> bool:
    """Return True if nothing proves model output although the agent should call the proxy."""
    return facts.proof is None and not facts.exempt


def _unproven(evidence: Iterable[Exchange] = ()) -> Finding:
    return Finding(health=Health.UNDECIDED, rule="undecided", evidence=ids(evidence), unproven=True)


_NOT_ENDED = frozenset((CallState.PENDING, CallState.LOST))


def _nothing_yet(facts: Evidence) -> bool:
    """Return True if the rollout is in progress and no call has ended yet."""
    if not facts.states <= _NOT_ENDED:
        return False
    return facts.outcome is None or facts.any(CallState.PENDING)


def _healthy(facts: Evidence) -> Finding:
    answers = [call.last for call in facts.main if call.state is CallState.ANSWERED]
    return Finding(health=Health.HEALTHY, rule="healthy", evidence=ids(answers[-1:]))


def own_failures(facts: Evidence) -> Finding | None:
    """Fire where an untrusted agent's reward counts, and no model answered it.

    All failures are its own then, or it made no call. That is known of weighed evidence alone.
    """
    if not (facts.kept and facts.untrusted) or _was_answered(facts):
        return None
    failures = _failures(facts.main)
    return Finding(health=Health.HEALTHY, rule=OWN_FAILURES, evidence=ids(failures))


def _was_answered(facts: Evidence) -> bool:
    """Return True if the model under test answered, or another one that may have done its work."""
    if facts.main and not _unanswered(facts.main):
        return True
    proof = facts.proof
    if proof is None or not facts.main or proof.source is ProofSource.REPORTED:
        return proof is not None
    return facts.others_worked


RULES: tuple[Rule, ...] = (
    _not_judged,
    _undecided,
    all_failed,
    main_model_failed,
    interrupted,
    zero_signal,
    unread_answers,
    empty_answers,
    never_answered,
    unexplained_rejections,
    own_failures,
)


def judge(rollout: RolloutRecord, *, policy: Policy = EVIDENCE) -> Verdict:
    """Judge one rollout; the order in which its records arrived makes no difference.

    Before the outcome, and while calls are in flight, it is ``provisional``. A call that
    never got a status counts under ``network`` in ``status_counts``; ``dominant_status``
    is None if such calls are the most frequent. ``retry.after_s`` is derived from the
    rollout's id, so that judging again gives the same.
    """
    facts = Evidence.of(rollout, policy)
    if policy.name == "seed":
        return judge_by_seed(facts)
    return _verdict(facts, weigh(facts, _first))


def references_wanted(rollout: RolloutRecord, policy: Policy = EVIDENCE) -> list[Exchange]:
    """Return the failed calls whose series a verdict needs and has not got, oldest first.

    Where agents are untrusted: of the failures that would take the reward away and that no other
    fact decides, the first and the last, of the agent and of each role. Under every policy, a
    content filter that ends either.
    """
    if policy.name == SEED.name:
        return []
    needs = wanted(Evidence.of(rollout, policy), _first)
    for record in _role_records(rollout).values():
        needs += wanted(Evidence.of(record, policy), _first, ())
    return needs


def _first(facts: Evidence) -> Finding:
    finding = next((f for f in (rule(facts) for rule in RULES) if f is not None), None)
    return finding or (_unproven() if _wants_proof(facts) else _healthy(facts))


def _verdict(facts: Evidence, weighed: AttributedFinding) -> Verdict:
    counts = weighed.finding.health is Health.HEALTHY
    kept = counts and weighed.attributed_to is AttributedTo.AGENT
    own = own_failures(replace(facts, kept=True)) if kept else None
    weighed = weighed if own is None else replace(weighed, finding=own)
    if weighed.finding.health is Health.UNDECIDED and _turned_away(facts):
        weighed = replace(
            weighed,
            attributed_to=AttributedTo.PROXY,
            warnings=(*weighed.warnings, FAILED_BY_PROXY),
        )
    finding, facts_left = weighed.finding, weighed.facts
    rollout, exchanges, unfetched = facts.rollout, facts.exchanges, _unfetched(facts)
    failures = facts.failures
    top = totals.dominant(finding.strongest or finding.failures or failures)
    time = time_account(
        facts.calls,
        began_at=rollout.began_at,
        ended_at=rollout.ended_at,
        limit_reached=rollout.limit_reached,
    )
    roles = role_verdicts(rollout, facts.policy, _first)
    if roles and facts.untrusted and _judge_asked_about(rollout):
        weighed = replace(weighed, doubtful=True, pending=True)
    measured = Measurement.of(facts, roles=roles, time=time)
    unrecovered = measured.abandoned.unrecovered
    examined = examine(measured)
    excluded_by = _excluded_by(facts_left, finding.health, examined)
    verdict = Verdict(
        rollout_id=rollout.id,
        batch=rollout.batch,
        health=finding.health,
        rule=finding.rule,
        policy=facts.policy.name,
        lane=main_lane(facts_left if facts_left.main else facts),
        error=_error(facts, finding),
        total_requests=len(facts.calls),
        failed_requests=sum(bool(call.failures) for call in facts.calls) if failures else 0,
        recovered_requests=_recovered(facts.calls, unrecovered) if failures else 0,
        status_counts=totals.status_counts(failures),
        dominant_status=None if top is None else top.status,
        input_tokens=None if unfetched else totals.input_total(exchanges),
        output_tokens=None if unfetched else totals.output_total(exchanges),
        total_tokens=None if unfetched else totals.all_tokens(exchanges),
        tool_calls=totals.tool_calls(exchanges),
        cost_usd=totals.cost_usd(exchanges),
        tokens_unknown_calls=totals.tokens_unknown_calls(rollout.exchanges),
        cost_unknown_calls=totals.cost_unknown_calls(rollout.exchanges),
        lost_s=time.lost_s,
        scoreable=_scoreable(weighed, excluded_by),
        doomed=not weighed.doubtful and _doomed(facts_left),
        provisional=_is_provisional(facts, weighed),
        warnings=(*warnings(facts), *weighed.warnings),
        evidence=finding.evidence,
        classifier=RULES_VERSION,
        attributed_to=weighed.attributed_to,
        corroborated=weighed.corroborated,
        validity=examined.findings,
        validity_coverage=examined.coverage,
        roles=roles,
        provider_s=time.provider_s,
        agent_s=time.agent_s,
        held_s=time.held_s,
        excluded_by=excluded_by,
        proof=facts_left.proof if own is None else None,
        references=tuple(references_of(facts)) if rollout.references else (),
        servings=tuple(ways_of(measured.main)),
        answered=(sum(x.state is CallState.ANSWERED for x in facts.main), len(facts.main)),
    )
    return with_advice(_explained(verdict, facts, finding, top), rollout, facts.policy)


def _judge_asked_about(rollout: RolloutRecord) -> bool:
    """Return True while a reference is asked beside the call of a role other than agent."""
    running = {call for call, series in rollout.references.items() if series.running}
    return any(x.id in running for x in rollout.exchanges if x.role != AGENT)


def _error(facts: Evidence, finding: Finding) -> str | None:
    """Return what the verdict says went wrong.

    Of a rollout that was not let run, which breaker was open, or which limit was spent.
    """
    if finding.health is Health.NOT_JUDGED:
        rollout = facts.rollout
        by_others = _cut_off_by_others(facts)
        return rollout.skipped or (f"budget: {rollout.limit_reached}" if by_others else None)
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
    "foreign_body": "HTTP {} with a body that is none of its API's",
    "aborted": "HTTP {} that was aborted",
    "wrong_shape": "HTTP {} in the shape of another API",
    "stalled": "HTTP {} that fell silent",
    "timeout": "HTTP {} that timed out",
}
_IN_BAND = "an error inside HTTP {}"


def _statuses(failures: Sequence[Exchange], first: int | None) -> str:
    """Return ``HTTP 429 and 500``, ``HTTP 200 cut midway or no answer``; the dominant one first."""
    ways: dict[str, dict[str, None]] = {}
    for failed in sorted(failures, key=lambda each: each.status != first):
        ways.setdefault(_way(failed), {})[status_name(failed.status)] = None
    unanswered = [_NO_ANSWER] if ways.pop(_NO_ANSWER, None) else []
    answered = [way.format(" and ".join(names)) for way, names in ways.items()]
    return " or ".join(answered + unanswered)


def _way(failed: Exchange) -> str:
    """Return how a call failed, with a place for its status."""
    if failed.status is None:  # or one that the proxy refused to pass on
        return failed.unreadable_reason or _NO_ANSWER
    if failed.status >= 400:
        return "HTTP {}"
    reason = None if failed.cause is None else failed.cause.reason
    return _IN_BAND if reason is None else _AFTER_SUCCESS.get(reason, _IN_BAND)


def _provider_wait(failures: Sequence[Exchange]) -> float | None:
    """Return the wait in seconds of the latest failure that states one."""
    waits = [x.cause.retry_after_s for x in failures if x.cause is not None]
    return next((wait for wait in reversed(waits) if wait is not None), None)


def _recovered(calls: Sequence[LogicalCall], unrecovered: Collection[str]) -> int:
    """Count the calls with a failure after which the same model answered.

    Arguments:
        unrecovered: exchanges that ended requests which never came again: others were answered.
    """
    answered: set[str | None] = set()
    recovered = 0
    for call in reversed(calls):
        if call.state is CallState.ANSWERED:
            answered.add(call.model)
        made_good = call.model in answered and call.last.id not in unrecovered
        recovered += made_good and bool(call.failures)
    return recovered


def _doomed(facts: Evidence) -> bool:
    """Return True if continuing is pointless because the same permanent failure repeats.

    Answers are counted, not logical calls: an SDK's own retry of a dead key is proof too.
    After a success only a quota or auth failure counts; others may be about one request. State that
    was lost never does: the whole conversation, sent again, is a normal step.
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
        if x.cause is not None
        and x.cause.subcategory in fatal
        and Strength.of(x.cause) not in (Strength.TRANSIENT, Strength.LOST_STATE)
    )
    return max(counts.values(), default=0) >= limit


def _excluded_by(facts: Evidence, health: Health, examined: ValidityReport) -> tuple[str, ...]:
    """Name what the policy leaves a healthy rollout's score out for.

    Of one that is not judged, that others had spent its batch's budget, or that it was stopped.
    """
    if health is Health.NOT_JUDGED:
        return (BUDGET,) if _cut_off_by_others(facts) else (*_cancelled(facts),)
    if health is not Health.HEALTHY:
        return ()
    rollout, policy = facts.rollout, facts.policy
    validity = rollout.validity or policy.validity
    spoilt = [
        finding.check
        for finding in examined.findings
        if invalidates(finding, validity=validity, untrusted=facts.untrusted)
    ]
    return (*_cancelled(facts), *_limits_left_out(facts), *spoilt)


def _cancelled(facts: Evidence) -> Iterator[str]:
    """Name that the runner was stopped before the end."""
    if facts.outcome is not None and facts.outcome.status is ExecutionStatus.CANCELLED:
        yield CANCELLED


def _limits_left_out(facts: Evidence) -> Iterator[str]:
    """Name the limits that ended the agent and leave its score out.

    One that it reached by itself does only if the policy says so, and never an untrusted agent's.
    """
    outcome, rollout, policy = facts.outcome, facts.rollout, facts.policy
    out_of_steps = outcome and outcome.termination_reason is TerminationReason.MAX_STEPS
    excludes = (rollout.max_steps or policy.max_steps) == "exclude"
    if out_of_steps and excludes and not facts.untrusted:
        yield TerminationReason.MAX_STEPS.value
    excludes = (rollout.budget or policy.budget) == "exclude" and not facts.untrusted
    if facts.spent_budget and (excludes or _cut_off_by_others(facts)):
        yield BUDGET


def _is_provisional(facts: Evidence, weighed: AttributedFinding) -> bool:
    """Return True until the outcome, all calls and the references asked for are there."""
    if facts.outcome is None or facts.any(CallState.PENDING) or weighed.pending:
        return True
    return any(series.running for series in facts.rollout.references.values())


def _scoreable(weighed: AttributedFinding, excluded_by: tuple[str, ...]) -> str:
    """Return ``yes``, ``no``, or ``unknown`` where nobody can say what the score measures.

    Where nothing that an agent can cause may lower it, a healthy one counts.
    """
    health, facts = weighed.finding.health, weighed.facts
    if health is Health.UNDECIDED or weighed.doubtful:
        return "unknown"
    if health is not Health.HEALTHY or excluded_by:
        return "no"
    if weighed.keeps:
        return "yes"
    return "unknown" if _wants_proof(facts) or _ends_in_doubt(facts) else "yes"


def _ends_in_doubt(facts: Evidence) -> bool:
    """Return True if the calls do not show if the agent finished or was cut off."""
    if facts.exempt:
        return False
    tail = facts.tail
    doubtful = tail.strength in (Strength.UNEXPLAINED, Strength.LOST_STATE)
    return (doubtful and not tail.continued) or _ended_unread(facts)
