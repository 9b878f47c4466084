"""Rules 3 to 5: failures of the provider or the account that the wire proves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from classifier.evidence import Evidence, any_output
from classifier.findings import Finding, ids
from classifier.logical_calls import CallState, LogicalCall, ended_at
from classifier.records import Exchange
from classifier.tails import Strength
from classifier.verdicts import Health, plural


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
    """Whether no output came: no call was answered, not even in part."""
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
