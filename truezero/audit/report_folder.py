"""A report as files: a page to read and a line a run for programs; no text of a run is in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

from truezero.audit import report as printed
from truezero.audit.files import save_lines
from truezero.audit.findings import WORST, FalseScores, findings
from truezero.audit.judge import Audited
from truezero.audit.report import AuditReport
from truezero.audit.runs import AuditError
from truezero.audit.values import Json, objects
from truezero.printable import plural, visible
from truezero.whole_file import write_whole

PAGE: Final = "report.html"
RUNS: Final = "runs.jsonl"


def write_report(report: AuditReport, folder: Path) -> None:
    """Write a report into a folder, which is made if it is not there.

    Raises:
        AuditError: the files cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_lines(folder / RUNS, _runs(report))
        write_whole(folder / PAGE, "\n".join(_page(report)).encode())
    except OSError as error:
        raise AuditError(f"cannot write {folder}: {error.strerror}") from None


def _runs(report: AuditReport) -> Iterator[Json]:
    for item, run in zip(objects(printed.as_json(report)["items"]), report.runs, strict=True):
        place = run.place
        yield {
            **item,
            "finding": _finding(run),
            "why": run.why,
            "file": None if place is None else str(place.file),
            "line": None if place is None else place.line,
        }


def _finding(run: Audited) -> str | None:
    if run.false_zero:
        return "false_zero"
    return "points_without_a_measurement" if run.false_points else None


# --- the page ---

_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 68rem }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 }
th, td { border-bottom: 1px solid #8886; padding: .3rem .6rem; text-align: left }
td.number { text-align: right; font-variant-numeric: tabular-nums }
code { overflow-wrap: anywhere }
:root { color-scheme: light dark }
"""


def _page(report: AuditReport) -> Iterator[str]:
    title = f"Audit of {report.path}"
    yield "<!doctype html>"
    yield f'<html lang="en"><meta charset="utf-8"><title>{_shown(title)}</title>'
    yield f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
    yield f"<h1>{_shown(title)}</h1>"
    yield f"<p>{_shown(report.format)}, {plural(len(report.runs), 'run')}</p>"
    yield from _scores(printed.as_json(report))
    yield from (f"<p><strong>Not read:</strong> {_shown(each)}</p>" for each in report.lost)
    yield from _findings(findings(report))
    yield "<h2>Runs</h2>"
    yield from _table(
        ("run", "task", "model", "score", "verdict", "reason"), map(_row, report.runs), numbers=(3,)
    )
    yield f"<p>Each run with its whole verdict is in <code>{RUNS}</code>.</p></html>\n"


def _scores(told: Json) -> Iterator[str]:
    """Show the scores as published and corrected, of each part where there are several."""
    rows = (
        (
            " · ".join(str(part[name]) for name in ("evaluation", "model") if part.get(name)),
            _score(part["score_reported"]),
            _score(part["score_effective"]),
            f"{part['scoreable']:,} of {part['total']:,}",
        )
        for part in objects(told.get("parts")) or [told]
    )
    yield from _table(("", "published", "corrected", "runs left"), rows, numbers=(1, 2, 3))


def _score(score: float | None) -> str:
    return "unknown" if score is None else f"{score:.3f}"


def _findings(found: Sequence[FalseScores]) -> Iterator[str]:
    if not found:
        yield "<p>No score without a measurement was found.</p>"
        return
    yield "<h2>Findings</h2>"
    rows = (
        (each.said, each.place if place < WORST else each.file, ", ".join(_ids(each)))
        for place, each in enumerate(found)
    )
    yield from _table(("finding", "look at", "runs"), rows)


def _ids(finding: FalseScores) -> Iterator[str]:
    yield from (run.id for run in finding.runs[:_NAMED])
    if len(finding.runs) > _NAMED:
        yield f"{len(finding.runs) - _NAMED:,} more"


_NAMED: Final = 20  # runs of a finding that are named


def _row(run: Audited) -> tuple[str, ...]:
    score = "" if run.reward is None else f"{run.reward:g}"
    reason = run.why if run.verdict.rule != "healthy" else ""
    return run.id, run.task, run.model or "", score, run.verdict.health.value, reason


def _table(
    head: Sequence[str], rows: Iterator[tuple[str, ...]], numbers: Sequence[int] = ()
) -> Iterator[str]:
    yield f"<table><tr>{''.join(f'<th>{_shown(each)}' for each in head)}</tr>"
    for row in rows:
        cells = (
            f"<td{' class=number' if place in numbers else ''}>{_shown(each)}"
            for place, each in enumerate(row)
        )
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</table>"


def _shown(text: str) -> str:
    return escape(visible(text))
