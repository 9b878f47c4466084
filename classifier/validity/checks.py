"""Every validity check, and what they find of one rollout."""

from __future__ import annotations

from dataclasses import dataclass

from classifier.policy import UNTRUSTED, VALIDITY
from classifier.validity import (
    duplicate_identity,
    engine_aborted,
    judge_failed,
    model_substituted,
    output_truncated,
    prompt_truncated,
    reasoning_ate_budget,
    serving_changed,
    starved,
    tool_calls_unparsed,
    usage_mismatch,
)
from classifier.validity.check import ValidityCheck
from classifier.validity.measurement import Measurement
from classifier.verdicts import Coverage, Level, ValidityFinding

# In the order in which coverage lists them.
CHECKS: tuple[ValidityCheck, ...] = (
    ValidityCheck(
        prompt_truncated.PROMPT_TRUNCATED, prompt_truncated.prompt_truncated, agent_can_cause=True
    ),
    ValidityCheck(
        output_truncated.OUTPUT_TRUNCATED, output_truncated.output_truncated, agent_can_cause=True
    ),
    ValidityCheck(
        reasoning_ate_budget.REASONING_ATE_BUDGET,
        reasoning_ate_budget.reasoning_ate_budget,
        agent_can_cause=True,
    ),
    ValidityCheck(
        engine_aborted.ENGINE_ABORTED, engine_aborted.engine_aborted, agent_can_cause=False
    ),
    ValidityCheck(
        model_substituted.MODEL_SUBSTITUTED,
        model_substituted.model_substituted,
        agent_can_cause=True,
    ),
    ValidityCheck(
        serving_changed.SERVING_CHANGED, serving_changed.serving_changed, agent_can_cause=True
    ),
    ValidityCheck(
        tool_calls_unparsed.TOOL_CALLS_UNPARSED,
        tool_calls_unparsed.tool_calls_unparsed,
        agent_can_cause=True,
    ),
    ValidityCheck(starved.STARVED, starved.starved, agent_can_cause=True),
    ValidityCheck(
        usage_mismatch.USAGE_MISMATCH, usage_mismatch.usage_mismatch, agent_can_cause=True
    ),
    ValidityCheck(judge_failed.JUDGE_FAILED, judge_failed.judge_failed, agent_can_cause=False),
    ValidityCheck(
        duplicate_identity.DUPLICATE_IDENTITY,
        duplicate_identity.duplicate_identity,
        agent_can_cause=True,
    ),
)
_CAUSED_BY_AGENTS = frozenset(check.name for check in CHECKS if check.agent_can_cause)
_SEVERITY = {level: place for place, level in enumerate(Level)}
_INVALID, _SUSPECT, _NONE = VALIDITY


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What the checks found, the worst first, and where they could look, by check."""

    findings: tuple[ValidityFinding, ...]
    coverage: dict[str, Coverage]


def examine(measured: Measurement) -> Examined:
    """Run every check; the order in which records arrived makes no difference."""
    looked = {check.name: check.look(measured) for check in CHECKS}
    findings = [each.finding for each in looked.values() if each is not None and each.finding]
    findings.sort(key=lambda finding: -_SEVERITY[finding.level])  # stable: then as listed
    return Examined(
        findings=tuple(findings),
        coverage={name: each.coverage for name, each in looked.items() if each is not None},
    )


def spoils(finding: ValidityFinding, *, validity: str, agents: str) -> bool:
    """Whether a finding makes its rollout not scoreable.

    Arguments:
        validity: the policy's, one of ``VALIDITY``.
        agents: "trusted" or "untrusted"; what untrusted agents could have caused never does.
    """
    if validity == _NONE or (agents == UNTRUSTED and finding.check in _CAUSED_BY_AGENTS):
        return False
    return _SEVERITY[finding.level] >= _SEVERITY[Level(validity)]
