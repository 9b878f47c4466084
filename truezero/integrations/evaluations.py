"""A verdict as evaluations, which tools for traces and scores each have a word for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from truezero import models

# The same names and values as of the OpenTelemetry event `gen_ai.evaluation.result`.
HEALTH = "truezero.health"
VALIDITY = "truezero.validity."  # and the name of the check
_COUNTS: Mapping[str, float] = {"yes": 1.0, "no": 0.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One judgement on a rollout.

    ``score`` is 1 if its reward counts as a measurement, 0 if not, None if that is unknown or the
    judgement is a validity finding. ``error_type`` is the fingerprint of an unhealthy verdict.
    """

    rollout_id: str
    name: str
    label: str
    score: float | None = None
    explanation: str | None = None
    error_type: str | None = None
    judged_at: float | None = None  # seconds since the epoch
    metadata: Mapping[str, Any] = field(default_factory=dict)


def evaluations(verdict: models.Verdict) -> list[Evaluation]:
    """Return the health and each validity finding; nothing of a verdict that is provisional."""
    if verdict.provisional:
        return []
    health = Evaluation(
        rollout_id=verdict.rollout_id,
        name=HEALTH,
        label=verdict.health,
        score=_COUNTS.get(verdict.scoreable),
        explanation=verdict.error or verdict.spoilt,
        error_type=verdict.fingerprint if verdict.error_category else None,
        judged_at=verdict.judged_at,
        metadata=known(batch=verdict.batch, rule=verdict.rule, cause=verdict.cause,
                        evidence=verdict.evidence or None),
    )  # fmt: skip
    return [health, *(_finding(verdict, each) for each in verdict.validity)]


def _finding(verdict: models.Verdict, finding: models.ValidityFinding) -> Evaluation:
    return Evaluation(
        rollout_id=verdict.rollout_id,
        name=VALIDITY + finding.check,
        label=finding.level,
        explanation=finding.sentence,
        judged_at=verdict.judged_at,
        metadata=known(batch=verdict.batch, evidence=finding.evidence or None),
    )


def known(**facts: Any) -> dict[str, Any]:
    """Return the facts that are not None."""
    return {name: value for name, value in facts.items() if value is not None}
