"""What a validity check is: a name, whether agents can cause it, and a pure function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from classifier.validity.measurement import Measurement
from classifier.verdicts import Coverage, ValidityFinding


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What a check found, and on how many calls it could look."""

    coverage: Coverage
    finding: ValidityFinding | None = None


@dataclass(frozen=True, slots=True)
class ValidityCheck:
    """One check.

    ``agent_can_cause``: an agent could bring the finding about by itself, so that it never
    changes ``scoreable`` where agents are untrusted. ``look`` returns None where the check is
    about nothing that this rollout did.
    """

    name: str
    look: Callable[[Measurement], Looked | None]
    agent_can_cause: bool = field(kw_only=True)
