"""The worst findings of an audit, each with the file and line to look at."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from truezero.audit.agent_logs import plain
from truezero.audit.judge import Audited
from truezero.audit.report import AuditReport
from truezero.audit.runs import RunPlace
from truezero.audit.values import Json
from truezero.foreign import open_file
from truezero.printable import plural, visible

WORST = 5
_SEARCHED = 50_000_000  # bytes of a file in which the line of an error is searched


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseScores:
    """Runs that count with a score, measured nothing, and have one cause; the first stands for all.

    ``points``: whether they count as points, not as zeros.
    """

    points: bool
    model: str | None
    runs: tuple[Audited, ...]

    @property
    def why(self) -> str:
        """The cause, in the words of the first run."""
        return self.runs[0].why

    @property
    def said(self) -> str:
        """The finding in a few words: ``162 zeros of lab/m-1: the agent never began: …``."""
        scores = plural(len(self.runs), "score above zero" if self.points else "zero",
                        "scores above zero" if self.points else "zeros")  # fmt: skip
        return f"{scores}{f' of {self.model}' if self.model else ''}: {self.why}"

    @property
    def place(self) -> str:
        """The first run's file, with the line if one is found."""
        place = self.runs[0].place
        line = None if place is None else line_of(place)
        return self.file if line is None else f"{self.file}:{line}"

    @property
    def file(self) -> str:
        """The first run's file; its id where no file is known."""
        place = self.runs[0].place
        return self.runs[0].id if place is None else str(place.file)


def findings(report: AuditReport) -> list[FalseScores]:
    """Return the findings of an audit, those of most runs first."""
    held: dict[tuple[object, ...], list[Audited]] = defaultdict(list)
    for points, runs in ((False, report.false_zeros), (True, report.false_points)):
        for run in runs:
            verdict = run.verdict
            cause = verdict.fingerprint or verdict.error or run.why
            held[points, run.model, cause].append(run)
    each = [
        FalseScores(points=bool(points), model=runs[0].model, runs=tuple(runs))
        for (points, *_), runs in held.items()
    ]
    return sorted(each, key=lambda finding: -len(finding.runs))


def line_of(place: RunPlace) -> int | None:
    """Return the line of a place: the one that is known, else the first with its words."""
    if place.line is not None or not place.words:
        return place.line
    words = place.words.strip().partition("\n")[0][:60]
    escaped = json.dumps(words)[1:-1], json.dumps(words, ensure_ascii=False)[1:-1]
    try:
        with open_file(place.file, links=False) as lines:
            if os.fstat(lines.fileno()).st_size > _SEARCHED:
                return None
            for number, raw in enumerate(lines, start=1):
                line = raw.decode(errors="replace")
                shown = plain(line) if "\x1b" in line else line
                if words in shown or any(each in shown for each in escaped):
                    return number
    except OSError:
        return None
    return None


def lines(report: AuditReport) -> Iterator[str]:
    """Yield what a printed report ends with: where to look first, and what was not read."""
    worst = findings(report)[:WORST]
    if worst:
        yield "look here first:"
    for finding in worst:
        yield visible(f"  {finding.said}")
        yield visible(f"    {finding.place}")
    yield from (visible(f"not read: {each}") for each in report.lost)


def as_json(report: AuditReport) -> Json:
    """Return the same as JSON."""
    return {"worst": _listed(findings(report)[:WORST]), "lost": list(report.lost)}


def _listed(worst: Sequence[FalseScores]) -> list[Json]:
    return [
        {
            "counts_as": "points" if finding.points else "zero",
            "model": finding.model,
            "why": finding.why,
            "runs": len(finding.runs),
            "look_at": finding.place,
        }
        for finding in worst
    ]
