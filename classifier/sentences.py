"""Say a verdict in one sentence: does it count, why, whose failure, what next.

Made of a verdict's own facts, so that no text of a provider, prompt or key is in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from classifier.records import RolloutRecord, TerminationReason
from classifier.score_keys import keys_of, no_score, reported_score
from classifier.verdicts import (
    ANSWERS_UNSEEN,
    BUDGET,
    CALLS_UNATTRIBUTED,
    CANCELLED,
    ENDED_ON_LOST_STATE,
    ENDED_ON_UNEXPLAINED_REJECTION,
    ENDED_ON_UNREAD_ANSWERS,
    ERROR_BEFORE_ANY_CALL,
    NOTHING_READ,
    OWN_FAILURES,
    PROVOKED_SUSPECTED,
    REFERENCE_INCONCLUSIVE,
    REFERENCE_PARTLY,
    REFERENCE_PENDING,
    REFUSED_BY_HARNESS,
    AttributedTo,
    Health,
    Level,
    ProofSource,
    Subcategory,
    Verdict,
    plural,
)

_OWN_FAILURES = "no model answered: the agent's own failures; the zero counts"


def sentence(verdict: Any, no_score: str | None = None) -> str:
    """Say if a verdict's score counts, why, whose failure decided, and what to do next.

    Arguments:
        verdict: a ``Verdict``, or one as REST has it.
        no_score: why rewards were reported and none of them is the score, and the fix.
    """
    if no_score is not None and verdict.scoreable == "yes":
        return f"{sentence(verdict)}; no score: {no_score}"
    if verdict.rule == OWN_FAILURES:
        return _OWN_FAILURES
    parts = f"{_counts(verdict)}: {_WHY[verdict.health](verdict)}"
    if whose := _whose(verdict):
        parts += f", {whose}"
    return f"{parts}; {then}" if (then := _next(verdict)) else parts


def with_sentence(verdict: Verdict, rollout: RolloutRecord | None = None) -> Verdict:
    """Return a verdict with the sentence that its other fields make.

    Arguments:
        rollout: whose rewards may lack a score.
    """
    return replace(verdict, sentence=sentence(verdict, without_score(rollout)))


def without_score(rollout: RolloutRecord | None) -> str | None:
    """Say why a rollout's rewards hold no score; None if they do, or there are none."""
    if rollout is None or (outcome := rollout.outcome) is None:
        return None
    key = rollout.score_key
    unnamed = reported_score(outcome.rewards, outcome.eval, key).unnamed
    return no_score(keys_of(unnamed), key) if unnamed else None


def told(verdict: Any) -> str:
    """Return a verdict's own sentence; of one that an earlier release gave, the one made of it."""
    return verdict.sentence or sentence(verdict)


# --- does it count ---


# By `scoreable`: of a final verdict, and of a provisional one.
_COUNTS: Mapping[str, tuple[str, str]] = {
    "yes": ("counts", "counts so far"),
    "no": ("does not count", "does not count so far"),
    "unknown": ("not known if it counts", "not known yet if it counts"),
}


def _counts(verdict: Any) -> str:
    return _COUNTS[verdict.scoreable][verdict.provisional]


# --- why ---


_FAILED: Mapping[str | None, str] = {
    Subcategory.AUTH: "the key was refused",
    Subcategory.QUOTA: "the account's quota was spent",
    Subcategory.MODEL_NOT_FOUND: "the model was not found",
    Subcategory.RATE_LIMIT: "the rate limit was exceeded",
    Subcategory.PROVIDER_ERROR: "the provider failed",
    Subcategory.REJECTED_REQUEST: "the request was rejected",
}
# Which evidence is missing, by warning; the first that a verdict has.
MISSING: Mapping[str, str] = {
    "calls_failed_by_proxy": "the proxy itself failed calls",
    "calls_lost": "calls were in flight when the proxy crashed",
    "calls_unrecorded": "some calls could not be recorded",
    CALLS_UNATTRIBUTED: "no call named this rollout, and calls that named none ran meanwhile",
    "left_while_held": "the agent disconnected while calls waited at the proxy",
    REFUSED_BY_HARNESS: "the harness itself refused a call: its budget or its relay",
    ANSWERS_UNSEEN: "some responses were too long or encoded in a way that is not read",
    NOTHING_READ: "no output of the model was read",
}
# Why references leave open whose failure it was, by warning.
LEFT_OPEN: Mapping[str, str] = {
    REFERENCE_PENDING: "the proxy is asking the provider itself whose failure it was",
    REFERENCE_PARTLY: "the provider failed some calls and answered others at the time",
    REFERENCE_INCONCLUSIVE: "the proxy's own calls do not show whose failure it was",
}
# Why nobody can say what the score of a healthy rollout measures, by warning.
_DOUBTS: Mapping[str, str] = {
    ENDED_ON_UNEXPLAINED_REJECTION: "its last request was rejected, and nothing explains why",
    ENDED_ON_UNREAD_ANSWERS: "its last responses could not be read as answers",
    ENDED_ON_LOST_STATE: "at its end the provider did not accept the conversation's own state",
    **LEFT_OPEN,
}
# Why the policy leaves a score out, beside findings; by the name in `excluded_by`.
_LEFT_OUT: Mapping[str, str] = {
    TerminationReason.MAX_STEPS.value: "the agent ran out of steps, which the policy leaves out "
    "(max_steps)",
    BUDGET: "a limit of its batch, or one that the policy leaves out, refused its calls (budget)",
    CANCELLED: "its runner was stopped before the end (cancelled)",
}


def doubt(verdict: Any) -> str:
    """Return why nobody can say what the score of a healthy rollout measures."""
    return _first(_DOUBTS, verdict) or "no model is known to have answered"


def spoilt_by(verdict: Any) -> list[str]:
    """Return what each finding says that takes a score away."""
    spoilt = (finding for finding in verdict.validity if finding.check in verdict.excluded_by)
    return [f"{finding.sentence} ({finding.check})" for finding in spoilt]


def why_not_judged(verdict: Any) -> str:
    """Return why there is nothing to judge; of one that was not let run, what kept it out."""
    if verdict.error:
        return str(verdict.error)
    if CANCELLED in verdict.excluded_by:
        return _LEFT_OUT[CANCELLED]
    early = ERROR_BEFORE_ANY_CALL in verdict.warnings
    return "the agent made no call before its error" if early else "no prompt was executed"


def _healthy(verdict: Any) -> str:
    if verdict.scoreable == "unknown":
        return doubt(verdict)
    if verdict.scoreable == "no":
        named = [_LEFT_OUT[name] for name in verdict.excluded_by if name in _LEFT_OUT]
        return "; ".join([*named, *spoilt_by(verdict)]) or "the policy leaves it out"
    doubtful = (each.sentence for each in verdict.validity if each.level != Level.INFO)
    worst = next(doubtful, None)
    return _answered(verdict) + (f", although {worst}" if worst else "")


def _answered(verdict: Any) -> str:
    """Return how the model answered; how many calls is known as a verdict is given."""
    if verdict.proof is None:
        return "no failure is shown"
    if verdict.proof.source == ProofSource.REPORTED:
        return "the runner counted output of the model"
    answered, of = getattr(verdict, "answered", None) or (0, 0)
    share = f" {answered} of {plural(of, 'call')}" if answered else ""
    return f"the model answered{share}"


def _failed(verdict: Any) -> str:
    what = _FAILED.get(verdict.subcategory, "calls failed")
    detail = (verdict.error or "").partition("]: ")[2].removeprefix("HTTP ")
    return f"{what} ({', '.join(filter(None, (verdict.subcategory, detail)))})"


def _suspected(verdict: Any) -> str:
    return str(verdict.error or verdict.rule).removeprefix(f"{verdict.health}: ")


def _not_judged(verdict: Any) -> str:
    return why_not_judged(verdict).removeprefix("skipped: ").removeprefix("budget: ")


def _undecided(verdict: Any) -> str:
    missing = _first(MISSING, verdict)
    if missing is None and verdict.provisional:
        return "no call has ended yet"
    return f"evidence is missing ({missing})" if missing else "evidence is missing"


def _first(words: Mapping[str, str], verdict: Any) -> str | None:
    return next((text for name, text in words.items() if name in verdict.warnings), None)


_WHY: Mapping[str, Callable[[Any], str]] = {
    Health.HEALTHY: _healthy,
    Health.API_ERROR: _failed,
    Health.SUSPECTED_API_ERROR: _suspected,
    Health.NOT_JUDGED: _not_judged,
    Health.UNDECIDED: _undecided,
}


# --- whose ---


_WHOSE: Mapping[str, str] = {
    AttributedTo.OPERATOR: "the operator's",
    AttributedTo.PROVIDER: "the provider's",
    AttributedTo.PROXY: "the proxy's",
    AttributedTo.UNKNOWN: "and whose failure it was is not known",
}


def _whose(verdict: Any) -> str | None:
    if verdict.attributed_to != AttributedTo.AGENT:
        asked = verdict.health == Health.HEALTHY and _first(LEFT_OPEN, verdict)
        return None if asked else _WHOSE.get(verdict.attributed_to)
    calls = "and the failed calls are" if verdict.failed_requests else "and what is missing is"
    taken = PROVOKED_SUSPECTED in verdict.warnings
    return f"{calls} {'taken to be ' if taken else ''}the agent's own"


# --- what next ---


_MEND: Mapping[str | None, str] = {
    Subcategory.AUTH: "mend the key",
    Subcategory.QUOTA: "add credit or raise the quota",
    Subcategory.MODEL_NOT_FOUND: "mend the model's name or the access to it",
    Subcategory.REJECTED_REQUEST: "mend the request",
}
_LOOK: Mapping[str, str] = {
    "zero_signal": "check the agent's base URL",
    "unread_answers": "look at what came back",
    "empty_answers": "look at the calls",
    "never_answered": "raise the agent's timeout, or ask the provider",
    "unexplained_rejections": "look at the last calls",
}
_UNPROVEN: Mapping[str, str] = {
    REFUSED_BY_HARNESS: "look at the harness's relay, then run it again",
    ANSWERS_UNSEEN: "look at the calls",
    NOTHING_READ: "look at the calls",
}


def _next(verdict: Any) -> str | None:
    if verdict.provisional:
        return "stop the agent: it can no longer succeed" if verdict.doomed else None
    if verdict.scoreable == "yes":
        return None
    if verdict.retry.eligible:
        wait = math.ceil(verdict.retry.after_s or 0)
        return f"run it again after {wait} s" if wait else "run it again"
    if BUDGET in verdict.excluded_by:
        return "raise the limit, then run it again"
    if CANCELLED in verdict.excluded_by:
        return "run it again"
    return _AFTER[verdict.health](verdict)


def _after_failure(verdict: Any) -> str:
    if verdict.transient:
        return str(verdict.retry.reason).removeprefix("transient, but ")
    return f"{_MEND.get(verdict.subcategory, 'look at the calls')} and run it again"


def _after_nothing(verdict: Any) -> str | None:
    """Return what to do about one that is not judged; what a breaker says ends with that."""
    if verdict.error is None:
        return "see the runner's own error"
    return None if "; " in verdict.error else "mend the cause, then register it again"


_AFTER: Mapping[str, Callable[[Any], str | None]] = {
    Health.HEALTHY: lambda verdict: (
        None if TerminationReason.MAX_STEPS.value in verdict.excluded_by else "look at the calls"
    ),
    Health.API_ERROR: _after_failure,
    Health.SUSPECTED_API_ERROR: lambda verdict: _LOOK.get(verdict.rule, "look at the calls"),
    Health.NOT_JUDGED: _after_nothing,
    Health.UNDECIDED: lambda verdict: (
        _first(_UNPROVEN, verdict) or "look at the service's log, then run it again"
    ),
}
