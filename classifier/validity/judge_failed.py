"""The calls of another role failed: the judge that scored the rollout, the user that was played.

A harness that cannot reach its judge mostly scores 0. A role has a small verdict of its own, by
the rules of ``docs/concepts/judging.md``, and its name says what it is for. Where a token is set
only the runner can use a role; what a judge is given comes from the agent, though, so that a
rejected request proves no failure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from classifier.validity.check import Looked
from classifier.validity.measurement import Measurement
from classifier.verdicts import (
    Coverage,
    Health,
    Level,
    RoleVerdict,
    Subcategory,
    ValidityFinding,
    plural,
)

JUDGE_FAILED = "judge_failed"
# Roles on which the score stands by itself: who gives it, and whom the agent talked to.
_SCORING = re.compile(
    r"judge|grad(?:er|ing)|verif|scor(?:er|ing)|eval|critic|reward|rubric|user|customer|simulat"
)
_MOST_CALLS = 10


def _level(role: str, verdict: RoleVerdict) -> Level:
    if verdict.subcategory is Subcategory.REJECTED_REQUEST:
        return Level.SUSPECT
    return Level.INVALID if _SCORING.search(role.casefold()) else Level.SUSPECT


def judge_failed(measured: Measurement) -> Looked | None:
    """Find roles other than agent that could not reach their model."""
    roles = measured.roles
    if not roles:
        return None
    decided = {name: role for name, role in roles.items() if role.health is not Health.UNDECIDED}
    coverage = Coverage(looked=_calls(decided), of=_calls(roles))
    failed = {name: role for name, role in sorted(decided.items()) if role.health.unhealthy}
    if not failed:
        return Looked(coverage=coverage)
    levels = {_level(name, role) for name, role in failed.items()}
    evidence = tuple(each for role in failed.values() for each in role.evidence)
    return Looked(
        coverage=coverage,
        finding=ValidityFinding(
            check=JUDGE_FAILED,
            level=Level.INVALID if Level.INVALID in levels else Level.SUSPECT,
            calls=sum(_lost(role) for role in failed.values()),
            of=coverage.looked,
            evidence=evidence[-_MOST_CALLS:],
            sentence="; ".join(_told(name, role) for name, role in failed.items()),
            about={"roles": {name: _why(role) for name, role in failed.items()}},
        ),
    )


def _calls(roles: Mapping[str, RoleVerdict]) -> int:
    return sum(role.total_requests for role in roles.values())


def _lost(role: RoleVerdict) -> int:
    """Count the calls that were no use: those that failed, or all where none was answered well."""
    return role.failed_requests or role.total_requests


def _why(role: RoleVerdict) -> str:
    return role.subcategory.value if role.subcategory else role.rule


def _told(name: str, role: RoleVerdict) -> str:
    lost = f"{_lost(role):,} of {plural(role.total_requests, 'call')}"
    return f"role {name} did not reach its model in {lost} ({_why(role)})"
