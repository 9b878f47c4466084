"""The validity checks, which find what makes a measurement doubtful beside its health.

`CHECKS` lists them, `examine` runs them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from classifier.validity import answers, serving, surroundings
from classifier.validity.measurement import Measurement, ValidityCheck
from classifier.verdicts import UNEARNED, VALIDITY, Coverage, Level, ValidityFinding

# In the order in which coverage lists them.
CHECKS: tuple[ValidityCheck, ...] = (
    ValidityCheck(answers.PROMPT_TRUNCATED, answers.prompt_truncated, agent_can_cause=True),
    ValidityCheck(answers.OUTPUT_TRUNCATED, answers.output_truncated, agent_can_cause=True),
    ValidityCheck(
        answers.REASONING_ATE_BUDGET,
        answers.reasoning_ate_budget,
        agent_can_cause=True,
    ),
    ValidityCheck(answers.ENGINE_ABORTED, answers.engine_aborted, agent_can_cause=False),
    ValidityCheck(
        serving.MODEL_SUBSTITUTED,
        serving.model_substituted,
        agent_can_cause=True,
    ),
    ValidityCheck(serving.SERVING_CHANGED, serving.serving_changed, agent_can_cause=True),
    ValidityCheck(
        answers.TOOL_CALLS_UNPARSED,
        answers.tool_calls_unparsed,
        agent_can_cause=True,
    ),
    ValidityCheck(answers.ERROR_AS_ANSWER, answers.error_as_answer, agent_can_cause=True),
    ValidityCheck(answers.ANSWERS_IDENTICAL, answers.answers_identical, agent_can_cause=True),
    ValidityCheck(surroundings.STARVED, surroundings.starved, agent_can_cause=True),
    ValidityCheck(surroundings.USAGE_MISMATCH, surroundings.usage_mismatch, agent_can_cause=True),
    ValidityCheck(surroundings.JUDGE_FAILED, surroundings.judge_failed, agent_can_cause=False),
    ValidityCheck(
        surroundings.DUPLICATE_IDENTITY,
        surroundings.duplicate_identity,
        agent_can_cause=True,
    ),
    ValidityCheck(UNEARNED, surroundings.unearned, agent_can_cause=True),
    ValidityCheck(surroundings.OTHER_MODELS, surroundings.other_models, agent_can_cause=True),
    ValidityCheck(
        surroundings.REQUESTS_ABANDONED,
        surroundings.requests_abandoned,
        agent_can_cause=True,
    ),
)
_CAUSED_BY_AGENTS = frozenset(check.name for check in CHECKS if check.agent_can_cause)
_PLACE = {check.name: place for place, check in enumerate(CHECKS)}
_SEVERITY = {level: place for place, level in enumerate(Level)}
_INVALID, _SUSPECT, _NONE = VALIDITY


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityReport:
    """The findings of the checks, the worst first, and the coverage of each check."""

    findings: tuple[ValidityFinding, ...]
    coverage: dict[str, Coverage]


def examine(measured: Measurement) -> ValidityReport:
    """Run every check; the order in which records arrived makes no difference."""
    looked = {check.name: check.look(measured) for check in CHECKS}
    findings = [each.finding for each in looked.values() if each is not None and each.finding]
    return ValidityReport(
        findings=worst_first(findings),
        coverage={name: each.coverage for name, each in looked.items() if each is not None},
    )


def worst_first(findings: Iterable[ValidityFinding]) -> tuple[ValidityFinding, ...]:
    """Return findings by their levels, the worst first, and then in the order of the checks."""
    return tuple(
        sorted(findings, key=lambda each: (-_SEVERITY[each.level], _PLACE.get(each.check, 0)))
    )


def invalidates(finding: ValidityFinding, *, validity: str, untrusted: bool) -> bool:
    """Return True if a finding makes its rollout not scoreable.

    What untrusted agents could have caused never does: such checks, and what is merely suspect.

    Arguments:
        validity: the policy's, one of ``VALIDITY``.
    """
    if validity == _NONE:
        return False
    if untrusted:
        return finding.check not in _CAUSED_BY_AGENTS and finding.level is Level.INVALID
    return _SEVERITY[finding.level] >= _SEVERITY[Level(validity)]
