"""The result of one rollout: the runner's outcome and the verdict in one record.

Neither is derived from the other, except that a verdict that is not scoreable removes the rewards.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from classifier.diagnostics import Diagnostic, diagnose, why_unscored
from classifier.records import ExecutionStatus, Outcome, RolloutRecord, TerminationReason
from classifier.verdicts import (
    AttributedTo,
    Coverage,
    Health,
    Proof,
    RoleVerdict,
    Subcategory,
    ValidityFinding,
    Verdict,
)


class OutcomeError(ValueError):
    """An outcome contradicts itself; ``field`` names where."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The record that a runner stores.

    ``status``, ``termination_reason``, ``eval`` and ``rewards`` are the runner's, None
    before it reported. ``rewards`` is None also where the verdict's ``scoreable`` is no, or unknown
    beside a failure, and ``error`` then says why, if the runner reported none. Tokens and
    ``cost_usd`` (US dollars) are those of the verdict.
    """

    rollout_id: str
    batch: str | None
    task: str | None
    repeat: int | None = None
    attempt: int | None
    model: str | None
    status: ExecutionStatus | None = None
    termination_reason: TerminationReason | None = None
    eval: dict[str, object] | None = None
    rewards: dict[str, float] | None = None
    health: Health
    error_category: str | None = None
    subcategory: Subcategory | None = None
    transient: bool | None = None
    fingerprint: str | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    error: str | None = None
    verifier_error: str | None = None
    export_error: str | None = None
    scoreable: str
    provisional: bool
    prompts_executed: int | None = None
    total_requests: int = 0
    failed_requests: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    tool_calls: int | None = None
    cost_usd: float | None = None
    warnings: tuple[str, ...] = ()
    late_calls: int = 0
    judged_at: float | None = None
    attributed_to: AttributedTo | None = None
    corroborated: bool | None = None
    validity: tuple[ValidityFinding, ...] = ()
    validity_coverage: dict[str, Coverage] = field(default_factory=dict)
    roles: dict[str, RoleVerdict] = field(default_factory=dict)
    provider_s: float | None = None
    lost_s: float | None = None
    agent_s: float | None = None
    proof: Proof | None = None
    sentence: str | None = None


_NOTHING = Outcome(status=ExecutionStatus.SUCCESS)
# What a result takes from the verdict. A failed call's sentence comes after the runner's own.
_OF_VERDICT = tuple(
    f.name
    for f in fields(Result)
    if hasattr(Verdict, f.name) and f.name not in ("rollout_id", "batch", "error")
)
_IN_ORDER = attrgetter(*_OF_VERDICT)


def result(rollout: RolloutRecord, verdict: Verdict) -> Result:
    """Combine a rollout's outcome and its verdict."""
    outcome = rollout.outcome or _NOTHING
    reported = rollout.outcome is not None
    succeeded = reported and outcome.status is ExecutionStatus.SUCCESS
    of_verdict: dict[str, Any] = dict(zip(_OF_VERDICT, _IN_ORDER(verdict), strict=True))
    return Result(
        **of_verdict,
        rollout_id=rollout.id,
        batch=rollout.batch,
        task=rollout.task,
        repeat=rollout.repeat,
        attempt=rollout.attempt,
        model=rollout.model,
        status=outcome.status if reported else None,
        termination_reason=outcome.termination_reason if succeeded else None,
        eval=outcome.eval,
        rewards=None if takes_rewards(verdict) else outcome.rewards,
        diagnostics=diagnose(verdict),
        error=outcome.error or why_unscored(verdict),
        verifier_error=outcome.verifier_error,
        export_error=outcome.export_error,
        prompts_executed=outcome.prompts_executed,
    )


def takes_rewards(given: Verdict | Result) -> bool:
    """Return True if rewards do not count: a failure decided, or one of unknown origin."""
    return given.scoreable == "no" or (given.scoreable == "unknown" and given.health.unhealthy)


def _reason_without_success(outcome: Outcome) -> bool:
    return outcome.termination_reason is not None and outcome.status is not ExecutionStatus.SUCCESS


def _negative(count: int | None) -> bool:
    return count is not None and count < 0


def _not_numbers(outcome: Outcome) -> bool:
    return not all(map(math.isfinite, (outcome.rewards or {}).values()))


_CONTRADICTIONS: tuple[tuple[str, Callable[[Outcome], bool], str], ...] = (
    (
        "termination_reason",
        _reason_without_success,
        "only a status of success has one",
    ),
    ("prompts_executed", lambda o: _negative(o.prompts_executed), "is less than 0"),
    ("tool_calls", lambda o: _negative(o.tool_calls), "is less than 0"),
    ("total_tokens", lambda o: _negative(o.total_tokens), "is less than 0"),
    ("rewards", _not_numbers, "holds a value that is no finite number"),
)


def validate(outcome: Outcome) -> Outcome:
    """Return the outcome; ``OutcomeError`` names the first field that contradicts another."""
    for name, contradicts, problem in _CONTRADICTIONS:
        if contradicts(outcome):
            raise OutcomeError(name, problem)
    return outcome
