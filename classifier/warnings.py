"""Warnings: what the reader of a verdict should know; none changes the health."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from classifier.evidence import Evidence, reported_activity, taken_over
from classifier.logical_calls import REFUSALS, CallState, ended_at, proven_empty
from classifier.records import Ending, UsageSource
from classifier.verdicts import Subcategory

# Finish reasons of an answer cut short by its own limit: OpenAI chat "length", Responses
# "max_output_tokens", Anthropic and Bedrock "max_tokens", Gemini and Cohere "MAX_TOKENS",
# Mistral "model_length".
_CUT_SHORT = frozenset(("length", "max_output_tokens", "max_tokens", "model_length"))


def _last_failed(facts: Evidence) -> Subcategory | None:
    decided = (CallState.ANSWERED, CallState.FAILED)
    last = next((call for call in reversed(facts.main) if call.state in decided), None)
    if last is None or last.state is CallState.ANSWERED:
        return None
    cause = last.failures[-1].cause
    return None if cause is None else cause.subcategory


def ended_on_rejection(facts: Evidence) -> bool:
    """Whether the last request to the model under test was rejected."""
    return _last_failed(facts) is Subcategory.REJECTED_REQUEST


def _continued_with_another_model(facts: Evidence) -> bool:
    if _last_failed(facts) in (None, Subcategory.REJECTED_REQUEST):
        return False
    return bool(taken_over(facts, max(ended_at(call.last) for call in facts.main)))


def _reason(name: str) -> Callable[[Evidence], bool]:
    return lambda facts: any(x.cause is not None and x.cause.reason == name for x in facts.failures)


def _usage(source: UsageSource) -> Callable[[Evidence], bool]:
    return lambda facts: source in {x.usage.source for x in facts.answers}


def _finished(words: frozenset[str]) -> Callable[[Evidence], bool]:
    return lambda facts: any(
        reason is not None and reason.casefold() in words
        for reason in {x.finish_reason for x in facts.answers}
    )


def _never_answered(facts: Evidence) -> bool:
    return bool(facts.calls) and not facts.any(CallState.ANSWERED, CallState.FAILED)


def _unseen_activity(facts: Evidence) -> bool:
    return not facts.calls and not facts.exempt and reported_activity(facts.outcome)


def _repeats(facts: Evidence) -> bool:
    failures = [x for x in facts.failures if x.request_digest]
    if len(failures) < facts.policy.request_repeats:
        return False
    counts = Counter((x.request_digest, x.cause and x.cause.rule) for x in failures)
    return max(counts.values()) >= facts.policy.request_repeats


# In the order in which a verdict lists them.
WARNINGS: tuple[tuple[str, Callable[[Evidence], bool]], ...] = (
    ("calls_lost", lambda facts: facts.any(CallState.LOST)),
    ("calls_unrecorded", lambda facts: facts.rollout.gaps > 0),
    ("calls_in_flight", lambda facts: facts.any(CallState.PENDING)),
    ("calls_never_answered", _never_answered),
    ("calls_bypass_the_proxy", _unseen_activity),
    ("ended_on_rejection", ended_on_rejection),
    ("ended_on_failure", _continued_with_another_model),
    ("context_length", _reason("context_length")),
    ("content_filter", _reason("content_filter")),
    ("refusals", _finished(REFUSALS)),
    ("truncated_by_max_tokens", _finished(_CUT_SHORT)),
    ("empty_answers", lambda facts: any(map(proven_empty, facts.answers))),
    ("left_by_agent", lambda facts: Ending.LEFT_BY_AGENT in {x.ending for x in facts.exchanges}),
    ("request_repeated", _repeats),
    ("usage_missing", _usage(UsageSource.ABSENT)),
    ("usage_partial", _usage(UsageSource.PARTIAL)),
    ("answers_unread", lambda facts: any(x.deaf is not None for x in facts.exchanges)),
    ("faults_injected", lambda facts: any(x.injected for x in facts.exchanges)),
)


def warnings(facts: Evidence) -> tuple[str, ...]:
    """Return the names of all that apply."""
    return tuple(name for name, applies in WARNINGS if applies(facts))
