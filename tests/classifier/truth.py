"""The truth table, ``truth.jsonl``: rollouts as sequences of calls, both policies' verdicts, why.

``lost``: true where the provider failed the rollout and a zero of it means nothing; false where a
model was reached and a zero is the agent's own; null where nobody can say, or nobody asked. Calls
are written in the language of ``tests.builders``. The table's ``long`` part is how agents really
behave and what a careful evaluator says of it: every row was judged before the rules were asked,
and states if its score may count: a fair one counts, a lost one never.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from classifier import EVIDENCE, Policy, Verdict, judge
from classifier.records import RolloutRecord
from tests.builders import rollout
from tests.tables import lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One rollout.

    ``evidence`` is ``rule fingerprint`` or a health, ``seed`` the same; None where the first
    release's rule is not asked. ``scoreable`` None is not asked either.
    """

    part: str
    source: str
    calls: str
    lost: bool | None
    evidence: str
    seed: str | None = None
    why: str
    scoreable: str | None = None
    said: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rollout(self) -> RolloutRecord:
        """Build the rollout, once."""
        if (key := str(self)) not in _BUILT:
            said: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in self.said.items()
            }
            _BUILT[key] = rollout(self.calls, **said)
        return _BUILT[key]

    def verdict(self, policy: Policy = EVIDENCE) -> Verdict:
        """Judge it, once under each policy."""
        if (key := (str(self), policy)) not in _JUDGED:
            _JUDGED[key] = judge(self.rollout, policy=policy)
        return _JUDGED[key]

    def __str__(self) -> str:
        said = ",".join(f"{name}={value}" for name, value in self.said.items())
        return f"{self.calls or 'no calls'} [{said}]" if said else self.calls or "no calls"


_BUILT: dict[str, RolloutRecord] = {}
_JUDGED: dict[tuple[str, Policy], Verdict] = {}
_ROWS = [Row(**row) for row in lines(Path(__file__).with_suffix(".jsonl"))]
TABLE = [row for row in _ROWS if row.part == "short"]
SEQUENCES = [row for row in _ROWS if row.part == "long"]
