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
    ValidityCheck(prompt_truncated.NAME, prompt_truncated.look, agent_can_cause=True),
    ValidityCheck(output_truncated.NAME, output_truncated.look, agent_can_cause=True),
    ValidityCheck(reasoning_ate_budget.NAME, reasoning_ate_budget.look, agent_can_cause=True),
    ValidityCheck(engine_aborted.NAME, engine_aborted.look, agent_can_cause=False),
    ValidityCheck(model_substituted.NAME, model_substituted.look, agent_can_cause=True),
    ValidityCheck(serving_changed.NAME, serving_changed.look, agent_can_cause=True),
    ValidityCheck(tool_calls_unparsed.NAME, tool_calls_unparsed.look, agent_can_cause=True),
    ValidityCheck(starved.NAME, starved.look, agent_can_cause=True),
    ValidityCheck(usage_mismatch.NAME, usage_mismatch.look, agent_can_cause=True),
    ValidityCheck(judge_failed.NAME, judge_failed.look, agent_can_cause=False),
    ValidityCheck(duplicate_identity.NAME, duplicate_identity.look, agent_can_cause=True),
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
