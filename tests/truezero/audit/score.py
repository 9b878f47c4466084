"""How often an audit is right: ``python -m tests.truezero.audit.score [--runs 1000]``.

Generated runs with a known truth, written down as each harness does, are audited. Where the files
cannot say what happened, a run must be called neither false nor measured without reservation.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.truezero.audit.harnesses import WRITERS
from tests.truezero.audit.scenarios import scenarios
from truezero.audit.judge import Audited
from truezero.audit.report import audit


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatScore:
    """The figures of one format.

    ``precision`` and ``recall`` are of the runs called unhealthy. ``unknown`` counts runs whose
    files are silent, ``reserved`` those of them that are left open. ``scored`` is the share of
    honest rewards that count, ``named`` that of failures with the right subcategory.
    """

    name: str
    runs: int
    precision: float
    recall: float
    scored: float
    named: float
    unknown: int
    reserved: int
    wrong: tuple[str, ...]


def score(name: str, runs: int, folder: Path) -> FormatScore:
    """Write, audit and compare one format."""
    drawn = list(scenarios(runs))
    truth = WRITERS[name](folder, drawn)
    judged = {run.task: run for run in audit(folder).runs}
    assert judged.keys() == truth.keys()
    counts = Counter((truth[task], run.verdict.health.unhealthy) for task, run in judged.items())
    called = sum(n for (_, false), n in counts.items() if false)
    real = counts["false", True] + counts["false", False]
    honest = [run for task, run in judged.items() if truth[task] == "honest"]
    paid = {run.task for run in drawn if run.reward is not None}
    causes = {run.task: run.cause for run in drawn if run.cause}
    named = [
        run.verdict.subcategory == causes[task]
        for task, run in judged.items()
        if truth[task] == "false" and run.verdict.subcategory and task in causes
    ]
    silent = [run for task, run in judged.items() if truth[task] == "unknown"]
    return FormatScore(
        name=name,
        runs=len(judged),
        precision=counts["false", True] / called if called else 1.0,
        recall=counts["false", True] / real if real else 1.0,
        scored=_share(
            run.score is not None for run in honest if run.task in paid and name != "litellm"
        ),
        named=_share(named),
        unknown=len(silent),
        reserved=sum(map(_reserved, silent)),
        wrong=tuple(sorted(task for task, run in judged.items() if _wrong(truth[task], run))),
    )


def _share(each: Iterable[bool]) -> float:
    held = list(each)
    return sum(held) / len(held) if held else 1.0


def _reserved(run: Audited) -> bool:
    """Whether an audit says that it does not know."""
    return run.verdict.scoreable == "unknown" or bool(run.unknown)


def _wrong(said: str, run: Audited) -> bool:
    if said == "unknown":
        return run.verdict.health.unhealthy or not _reserved(run)
    return run.verdict.health.unhealthy is not (said == "false")


def main() -> None:
    """Print a line for each format."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=1000)
    options.add_argument("--wrong", action="store_true", help="name the runs that were misjudged")
    chosen = options.parse_args()
    for name in WRITERS:
        with tempfile.TemporaryDirectory() as folder:
            found = score(name, chosen.runs, Path(folder))
        sys.stdout.write(
            f"{name:10} {found.runs:5} runs  precision {found.precision:.4f}  recall "
            f"{found.recall:.4f}  honest scored {found.scored:.4f}  cause {found.named:.4f}  "
            f"silent {found.unknown:4}, left open {found.reserved:4}\n"
        )
        if chosen.wrong:
            sys.stdout.writelines(f"  {task}\n" for task in found.wrong)


if __name__ == "__main__":
    main()
