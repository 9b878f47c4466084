"""Rules 6 and 7: nothing failed that the wire can prove, and no model is known to have worked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from classifier.evidence import Evidence, reported_activity, reported_error
from classifier.findings import Finding, ids
from classifier.fingerprints import status_name
from classifier.logical_calls import CallState, LogicalCall, has_content, proven_empty
from classifier.records import Exchange, RolloutRecord
from classifier.tails import Strength, offers_tools, taken_over
from classifier.verdicts import Health, plural


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
    """Whether a prompt was executed, and neither calls nor the runner show any activity."""
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


def empty_answers(facts: Evidence) -> Finding | None:
    """Fire where the model under test answered, and never with a text or a tool call."""
    answered = [call for call in facts.main if call.state is CallState.ANSWERED]
    if facts.exempt or not answered or _others_worked(facts):
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


def _others_worked(facts: Evidence) -> bool:
    """Whether another model may have done the work; none counts where one is registered."""
    if facts.bound or len(facts.main) == len(facts.calls):
        return False
    tools = offers_tools(facts.main)
    main = {id(call) for call in facts.main}
    return any(
        call.state is CallState.ANSWERED
        and id(call) not in main
        and (call.asked.has_tools or not tools)
        for call in facts.calls
    )


def never_answered(facts: Evidence) -> Finding | None:
    """Fire where the agent gave up each call to the model under test before an answer."""
    main = facts.main
    if facts.exempt or facts.outcome is None or not main:
        return None
    if not all(call.abandoned for call in main):
        return None
    if not facts.bound and taken_over(main, facts.calls, main):
        return None
    return _suspected(
        "never_answered",
        f"the agent gave up each of its {plural(len(main), 'call')} before an answer came",
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
