"""The seed policy: benchflow's published verdict, from statuses and the runner's own counts.

It reads no body, knows no lane and no recovery; it exists to be compared with, not believed.

Source: benchflow ``rollout/_usage.py`` (``classify_api_failure``) and ``rollout/__init__.py``
(``_maybe_classify_api_error``), 2026.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from classifier import totals
from classifier.causes import status_only
from classifier.evidence import Evidence, main_lane, reported_error, unprompted
from classifier.fingerprints import cause_name, fingerprint, suspicion
from classifier.logical_calls import CallState
from classifier.records import Exchange
from classifier.retries import in_itself
from classifier.verdicts import Health, Layer, Subcategory, Verdict


class _SeedCounts(NamedTuple):
    """What the seed policy sees: answers with a status, and two counts."""

    answers: list[Exchange]
    failures: list[Exchange]
    tokens: int
    tools: int


def _seen(facts: Evidence) -> _SeedCounts:
    answers = [x for x in facts.exchanges if x.status is not None]
    failures = [x for x in answers if x.status is not None and status_only(x.status)]
    outcome = facts.outcome
    tokens = outcome.total_tokens if outcome else None
    tools = outcome.tool_calls if outcome else None
    # Unknown counts as nothing here, as published: ``_as_nonnegative_int(None)`` is 0.
    return _SeedCounts(
        answers=answers,
        failures=failures,
        tokens=(totals.all_tokens(facts.exchanges) if tokens is None else tokens) or 0,
        tools=(totals.tool_calls(facts.exchanges) if tools is None else tools) or 0,
    )


def _rule(facts: Evidence, seen: _SeedCounts) -> tuple[Health, str]:
    if unprompted(facts.outcome):
        return Health.NOT_JUDGED, "not_judged"
    silent = reported_error(facts.outcome) or facts.exempt
    if silent or seen.tokens or seen.tools:
        return Health.HEALTHY, "healthy"
    if seen.failures and len(seen.failures) == len(seen.answers):
        return Health.API_ERROR, "all_failed"
    if facts.outcome is None:
        return Health.HEALTHY, "healthy"
    return Health.SUSPECTED_API_ERROR, "zero_signal"


def judge_by_seed(facts: Evidence) -> Verdict:
    """The verdict benchflow would have given; ``scoreable`` follows from health alone."""
    seen = _seen(facts)
    health, rule = _rule(facts, seen)
    rollout = facts.rollout
    verdict = Verdict(
        rollout_id=rollout.id,
        batch=rollout.batch,
        health=health,
        rule=rule,
        policy=facts.policy.name,
        lane=main_lane(facts),
        total_requests=len(seen.answers),
        failed_requests=len(seen.failures),
        status_counts=totals.status_counts(seen.failures),
        input_tokens=totals.input_total(facts.exchanges),
        output_tokens=totals.output_total(facts.exchanges),
        total_tokens=totals.all_tokens(facts.exchanges),
        tool_calls=totals.tool_calls(facts.exchanges),
        cost_usd=totals.cost_usd(facts.exchanges),
        lost_s=totals.lost_s(facts.calls),
        scoreable="yes" if health is Health.HEALTHY else "no",
        provisional=facts.outcome is None or facts.any(CallState.PENDING),
    )
    return in_itself(_explained(verdict, seen), rollout, facts.policy)


def _explained(verdict: Verdict, seen: _SeedCounts) -> Verdict:
    statuses = [x.status for x in seen.failures if x.status is not None]
    if verdict.health is Health.SUSPECTED_API_ERROR:
        return replace(
            verdict,
            fingerprint=suspicion(verdict.rule),
            layer=Layer.ZERO_SIGNAL,
            error="suspected_api_error: no tokens and no tool calls",
        )
    if not statuses:
        return verdict
    status = _dominant(statuses)
    verdict = replace(verdict, dominant_status=status)
    subcategory = status_only(status)
    if verdict.health is not Health.API_ERROR or subcategory is None:
        return verdict
    return _accused(verdict, seen, status, subcategory)


def _dominant(statuses: list[int]) -> int:
    """The most frequent; on a tie the one that failed last of all, else the first met."""
    counts = Counter(statuses)
    return max(counts, key=lambda status: (counts[status], status == statuses[-1]))


def _accused(verdict: Verdict, seen: _SeedCounts, status: int, subcategory: Subcategory) -> Verdict:
    kind = "transient" if subcategory.transient else "permanent"
    upstream = seen.failures[-1].upstream
    return replace(
        verdict,
        subcategory=subcategory,
        transient=subcategory.transient,
        fingerprint=fingerprint(subcategory, status),
        cause=cause_name(subcategory, upstream, status, None),
        layer=Layer.PROXY_PROVEN,
        error=f"api_error [{subcategory.value}, {kind}]: "
        f"HTTP {status} on {len(seen.failures)} of {len(seen.answers)} calls",
        evidence=tuple(x.id for x in seen.failures),
    )
