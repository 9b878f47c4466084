"""The seed policy: benchflow's published verdict, from statuses and the runner's own counts.

It exists for comparison: it reads no body, and knows no lane and no recovery.

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
from classifier.retries import with_advice
from classifier.verdicts import Health, Layer, Subcategory, Verdict


class _SeedCounts(NamedTuple):
    """The input of the seed policy: responses with a status, the failed ones, and two counts."""

    answers: list[Exchange]
    failures: list[Exchange]
    tokens: int
    tools: int


def _counts(facts: Evidence) -> _SeedCounts:
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


def _rule(facts: Evidence, counts: _SeedCounts) -> tuple[Health, str]:
    if unprompted(facts.outcome):
        return Health.NOT_JUDGED, "not_judged"
    silent = reported_error(facts.outcome) or facts.exempt
    if silent or counts.tokens or counts.tools:
        return Health.HEALTHY, "healthy"
    if counts.failures and len(counts.failures) == len(counts.answers):
        return Health.API_ERROR, "all_failed"
    if facts.outcome is None:
        return Health.HEALTHY, "healthy"
    return Health.SUSPECTED_API_ERROR, "zero_signal"


def judge_by_seed(facts: Evidence) -> Verdict:
    """Judge as benchflow does; ``scoreable`` follows from health alone."""
    counts = _counts(facts)
    health, rule = _rule(facts, counts)
    rollout = facts.rollout
    verdict = Verdict(
        rollout_id=rollout.id,
        batch=rollout.batch,
        health=health,
        rule=rule,
        policy=facts.policy.name,
        lane=main_lane(facts),
        total_requests=len(counts.answers),
        failed_requests=len(counts.failures),
        status_counts=totals.status_counts(counts.failures),
        input_tokens=totals.input_total(facts.exchanges),
        output_tokens=totals.output_total(facts.exchanges),
        total_tokens=totals.all_tokens(facts.exchanges),
        tool_calls=totals.tool_calls(facts.exchanges),
        cost_usd=totals.cost_usd(facts.exchanges),
        tokens_unknown_calls=totals.tokens_unknown_calls(rollout.exchanges),
        cost_unknown_calls=totals.cost_unknown_calls(rollout.exchanges),
        lost_s=_lost_s(facts),
        scoreable="yes" if health is Health.HEALTHY else "no",
        provisional=facts.outcome is None or facts.any(CallState.PENDING),
    )
    return with_advice(_explained(verdict, counts), rollout, facts.policy)


def _lost_s(facts: Evidence) -> float | None:
    """Return the seconds of failed attempts and of the waits behind them, whatever else went on."""
    spans = totals.lost_spans(facts.calls)
    return None if spans is None else totals.covered(spans)


def _explained(verdict: Verdict, counts: _SeedCounts) -> Verdict:
    statuses = [x.status for x in counts.failures if x.status is not None]
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
    return _api_error(verdict, counts, status, subcategory)


def _dominant(statuses: list[int]) -> int:
    """Return the most frequent; on a tie the last of all, else the first."""
    frequency = Counter(statuses)
    return max(frequency, key=lambda status: (frequency[status], status == statuses[-1]))


def _api_error(
    verdict: Verdict, counts: _SeedCounts, status: int, subcategory: Subcategory
) -> Verdict:
    kind = "transient" if subcategory.transient else "permanent"
    upstream = counts.failures[-1].upstream
    return replace(
        verdict,
        subcategory=subcategory,
        transient=subcategory.transient,
        fingerprint=fingerprint(subcategory, status),
        cause=cause_name(subcategory, upstream, status, None),
        layer=Layer.PROXY_PROVEN,
        error=f"api_error [{subcategory.value}, {kind}]: "
        f"HTTP {status} on {len(counts.failures)} of {len(counts.answers)} calls",
        evidence=tuple(x.id for x in counts.failures),
    )
