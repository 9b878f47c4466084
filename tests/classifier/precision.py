"""How often each policy is right on the truth table: ``python -m tests.classifier.precision``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from classifier import EVIDENCE, SEED, judge
from classifier.records import Kind, RolloutRecord
from tests.classifier.truth import TABLE, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Rollouts a judge called lost: rightly, wrongly; and those it missed."""

    right: int
    wrong: int
    missed: int

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.wrong)

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missed)


Judge = Callable[[RolloutRecord], bool]


def by_evidence(rollout: RolloutRecord) -> bool:
    return judge(rollout, policy=EVIDENCE).health.unhealthy


def by_seed(rollout: RolloutRecord) -> bool:
    return judge(rollout, policy=SEED).health.unhealthy


def by_status(rollout: RolloutRecord) -> bool:
    """Guess from an access log: every answer to the agent was an error."""
    statuses = [
        x.status
        for x in rollout.exchanges
        if x.kind is Kind.INFERENCE and x.role == "agent" and x.status is not None
    ]
    return bool(statuses) and all(status >= 400 for status in statuses)


JUDGES: dict[str, Judge] = {"evidence": by_evidence, "seed": by_seed, "status only": by_status}


def marks(judged: Judge, rows: list[Row] = TABLE) -> Marks:
    verdicts = [(row.lost, judged(row.rollout)) for row in rows if row.lost is not None]
    return Marks(
        right=verdicts.count((True, True)),
        wrong=verdicts.count((False, True)),
        missed=verdicts.count((True, False)),
    )


def main() -> None:
    decided = sum(row.lost is not None for row in TABLE)
    sys.stdout.write(f"{len(TABLE)} rollouts, {decided} with a known truth\n")
    for name, judged in JUDGES.items():
        mark = marks(judged)
        sys.stdout.write(
            f"{name:12} precision {mark.precision:6.1%}  recall {mark.recall:6.1%}"
            f"  ({mark.right} right, {mark.wrong} wrong, {mark.missed} missed)\n"
        )


if __name__ == "__main__":
    main()
