"""How often each policy and each rule is right on the truth table.

``python -m tests.classifier.precision`` prints both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from classifier import EVIDENCE, SEED
from classifier.records import Kind
from classifier.rules import RULES
from tests.classifier.truth import SEQUENCES, TABLE, Row

ROWS: Sequence[Row] = (*TABLE, *SEQUENCES)
HEALTHY = "healthy"
NAMES = (*(rule.__name__.strip("_") for rule in RULES), HEALTHY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Rollouts a judge called lost: rightly, wrongly; and those it missed.

    Of a rule: rollouts that it decided rightly, wrongly, and those that another one took.
    """

    right: int
    wrong: int
    missed: int

    @property
    def precision(self) -> float | None:
        """Share of what it said that is right; None where it said nothing."""
        return _share(self.right, self.wrong)

    @property
    def recall(self) -> float | None:
        """Share of what there was that it found; None where there was nothing."""
        return _share(self.right, self.missed)


def _share(right: int, others: int) -> float | None:
    return right / (right + others) if right + others else None


Judge = Callable[[Row], bool]


def by_evidence(row: Row) -> bool:
    return row.verdict(EVIDENCE).health.unhealthy


def by_seed(row: Row) -> bool:
    return row.verdict(SEED).health.unhealthy


def by_status(row: Row) -> bool:
    """Guess from an access log: every answer to the agent was an error."""
    statuses = [
        x.status
        for x in row.rollout.exchanges
        if x.kind is Kind.INFERENCE and x.role == "agent" and x.status is not None
    ]
    return bool(statuses) and all(status >= 400 for status in statuses)


JUDGES: dict[str, Judge] = {"evidence": by_evidence, "seed": by_seed, "status only": by_status}


def marks(judged: Judge, rows: Iterable[Row] = ROWS) -> Marks:
    verdicts = [(row.lost, judged(row)) for row in rows if row.lost is not None]
    return Marks(
        right=verdicts.count((True, True)),
        wrong=verdicts.count((False, True)),
        missed=verdicts.count((True, False)),
    )


def by_rule(ruled: Callable[[Row], str], rows: Iterable[Row] = ROWS) -> dict[str, Marks]:
    """Compare the rule that fired on each rollout with the one that the table names."""
    pairs = [(_rule_of(row), ruled(row)) for row in rows]
    return {
        name: Marks(
            right=pairs.count((name, name)),
            wrong=sum(fired == name != wanted for wanted, fired in pairs),
            missed=sum(wanted == name != fired for wanted, fired in pairs),
        )
        for name in NAMES
    }


def _rule_of(row: Row) -> str:
    return row.evidence.partition(" ")[0]


def _line(name: str, mark: Marks) -> str:
    shares = (("precision", mark.precision), ("recall", mark.recall))
    said = "  ".join(
        f"{what} {'     –' if share is None else f'{share:6.1%}'}" for what, share in shares
    )
    return f"{name:22} {said}  ({mark.right} right, {mark.wrong} wrong, {mark.missed} missed)\n"


def main(rows: Sequence[Row] = ROWS) -> None:
    decided = sum(row.lost is not None for row in rows)
    sys.stdout.write(f"{len(rows)} rollouts, {decided} with a known truth\n")
    for name, judged in JUDGES.items():
        sys.stdout.write(_line(name, marks(judged, rows)))
    sys.stdout.write("\nby the rule that fired\n")
    for name, mark in by_rule(lambda row: row.verdict().rule, rows).items():
        sys.stdout.write(_line(name, mark))


if __name__ == "__main__":
    main()
