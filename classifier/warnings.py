"""Warnings: what the reader of a verdict should know; none changes the health."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from classifier.evidence import Evidence, never_began, reported_activity
from classifier.logical_calls import CallState, cut_short, filtered, proven_empty, refused
from classifier.records import Ending, Exchange, UsageSource
from classifier.suspicion_rules import without_signal
from classifier.tails import Strength
from classifier.verdicts import (
    CALLS_UNATTRIBUTED,
    ENDED_ON_UNEXPLAINED_REJECTION,
    ERROR_BEFORE_ANY_CALL,
    INJECTED,
)


def _ended_unexplained(facts: Evidence) -> bool:
    return Strength.UNEXPLAINED in (facts.tail.strength, facts.tail.last)


def _ended_on_rejection(facts: Evidence) -> bool:
    return facts.tail.last is Strength.EXPLAINED and not _ended_unexplained(facts)


def _reason(name: str) -> Callable[[Evidence], bool]:
    return lambda facts: any(x.cause is not None and x.cause.reason == name for x in facts.failures)


def _filtered(facts: Evidence) -> bool:
    """Whether a filter stopped a call, be it a failure or the answer."""
    own = {x.id for x in facts.exchanges}
    return any(filtered(x) for x in facts.rollout.exchanges if x.id in own)


def _usage(source: UsageSource) -> Callable[[Evidence], bool]:
    # What a filter rejected is an answer where the policy says so, and costs no tokens.
    return lambda facts: source in {x.usage.source for x in facts.answers if not _rejected(x)}


def _rejected(exchange: Exchange) -> bool:
    return exchange.status is not None and exchange.status >= 400


def _any_answer(applies: Callable[[Exchange], bool]) -> Callable[[Evidence], bool]:
    return lambda facts: any(map(applies, facts.answers))


def _never_answered(facts: Evidence) -> bool:
    return bool(facts.calls) and not facts.any(CallState.ANSWERED, CallState.FAILED)


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
    ("ended_on_failure", lambda facts: facts.tail.cut_off and facts.tail.continued),
    ("context_length", _reason("context_length")),
    ("content_filter", _filtered),
    ("refusals", _any_answer(refused)),
    ("truncated_by_max_tokens", _any_answer(cut_short)),
    ("empty_answers", _any_answer(proven_empty)),
    ("left_by_agent", lambda facts: Ending.LEFT_BY_AGENT in {x.ending for x in facts.exchanges}),
    ("closed_at_outcome", _closed_at_outcome),
    ("request_repeated", _repeats),
    ("usage_missing", _usage(UsageSource.ABSENT)),
    ("usage_partial", _usage(UsageSource.PARTIAL)),
    ("answers_unread", lambda facts: any(x.deaf is not None for x in facts.exchanges)),
    (INJECTED, lambda facts: any(x.injected for x in facts.exchanges)),
)


def warnings(facts: Evidence) -> tuple[str, ...]:
    """Return the names of all that apply."""
    return tuple(name for name, applies in WARNINGS if applies(facts))
