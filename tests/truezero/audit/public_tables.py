"""Write docs/measurements/public-runs.md: ``python -m tests.truezero.audit.public_tables``.

Its tables are of the labelled records and of the sets themselves, as far as they are there.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from classifier.statistics import wilson
from tests.corpus_score import corpus_folder
from tests.truezero.audit.naive_readings import READINGS
from tests.truezero.audit.public_runs import (
    Found,
    Judged,
    audits,
    by,
    counted,
    errors_of,
    found_in,
    judged,
    mean_errors,
    model_of,
    name_of,
    records,
)
from truezero.audit.findings import findings
from truezero.audit.report import AuditReport

PAGE: Final = Path("docs/measurements/public-runs.md")
_MEASURED: Final = re.compile(r"(?<=<!-- measured -->\n).*?(?=<!-- /measured -->)", re.DOTALL)
_WORST: Final = 5  # findings of a set that are named


def write(each: Sequence[Judged], reports: Mapping[str, AuditReport], page: Path = PAGE) -> None:
    """Put the tables between the page's marks."""
    text = page.read_text(encoding="utf-8")
    measured = "\n".join(tables(each, reports)) + "\n"
    page.write_text(_MEASURED.sub(lambda _: measured, text), encoding="utf-8")


def tables(each: Sequence[Judged], reports: Mapping[str, AuditReport]) -> Iterator[str]:
    """Yield the lines of all tables."""
    known = sum(one.real is not None for one in each)
    from_files = sum(one.from_files for one in each)
    yield (
        f"Measured on {datetime.now(UTC):%Y-%m-%d} with Python {platform.python_version()} on "
        f"{platform.system()} {platform.machine()}: {len(each)} labelled records, {known} of them "
        f"decidable; {from_files} judged by their sets' own files, the others by what was noted of "
        "them."
    )
    yield ""
    yield from _readings(each)
    yield ""
    yield from _sets(each)
    yield ""
    yield from _found(reports)


def _readings(each: Sequence[Judged]) -> Iterator[str]:
    """Yield how an audit and simpler readings call the same records."""
    calls: dict[str, Callable[[Judged], bool]] = {"`truezero audit`": lambda one: one.called}
    calls |= {name: _by(reads) for name, reads in READINGS.items()}
    yield "| reading | right | wrong | missed | precision | recall |"
    yield "|---|--:|--:|--:|---|---|"
    for name, called in calls.items():
        found = counted((called(one), one.real) for one in each)
        yield (
            f"| {name} | {found.right} | {found.wrong} | {found.missed} | {_precision(found)} | "
            f"{_recall(found)} |"
        )


def _by(reads: Callable[[Any], bool]) -> Callable[[Judged], bool]:
    return lambda one: reads(one.record)


def _precision(found: Found) -> str:
    return _share(found.right, found.right + found.wrong)


def _recall(found: Found) -> str:
    return _share(found.right, found.right + found.missed)


def _share(part: int, of: int) -> str:
    """Return a share with Wilson's interval of 95 %."""
    if not of:
        return "–"
    low, high = wilson(part / of, of)
    return f"{part / of:.3f} ({low:.3f} to {high:.3f})"


def _sets(each: Sequence[Judged]) -> Iterator[str]:
    yield (
        "| set | records | no measurement | measured | undecidable | precision | recall | error of "
        "the score, published → corrected |"
    )
    yield "|---|--:|--:|--:|--:|---|---|---|"
    for name, group in by(each, lambda record: record["set"]).items():
        real = Counter(one.real for one in group)
        found, errors = found_in(group), errors_of(group)
        moved = "–" if errors is None else f"{errors.published:.3f} → {errors.corrected:.3f}"
        yield (
            f"| {name} | {len(group)} | {real[True]} | {real[False]} | {real[None]} | "
            f"{_precision(found)} | {_recall(found)} | {moved} |"
        )
    for name, key in (("set", lambda record: str(record["set"])), ("model", model_of)):
        mean = mean_errors(each, key)
        if mean is not None:
            yield (
                f"| *mean by {name}* | | | | | | | {mean.published:.3f} → {mean.corrected:.3f} |"
            )


def _found(reports: Mapping[str, AuditReport]) -> Iterator[str]:
    """Yield what stands in the sets themselves, with the first id of each finding."""
    yield "| set | repository, commit | runs | no measurement | of them | first run |"
    yield "|---|---|--:|--:|---|---|"
    sources = {name_of(each): each for each in _sources()}
    for name, report in reports.items():
        source = sources.get(name, {})
        at = f"{source.get('repository', '')} {source.get('commit', '')}"
        none = sum(run.no_measurement for run in report.runs)
        head: tuple[str, ...] = (name, at, f"{len(report.runs):,}", str(none))
        for finding in findings(report)[:_WORST]:
            yield f"| {' | '.join(head)} | {finding.said} | `{finding.runs[0].id}` |"
            head = ("",) * len(head)
        if head[0]:
            yield f"| {' | '.join(head)} | none has a score | |"


def _sources() -> list[dict[str, Any]]:
    folder = corpus_folder()
    path = None if folder is None else folder / "public-sets.jsonl"
    if path is None or not path.is_file():
        return []
    each = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [one for one in each if one["set"]]


def main() -> None:
    """Write the tables into the page."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sets", type=Path, required=True, help="where checkouts of the sets are")
    held = records()
    reports = audits(held, options.parse_args().sets)
    write(judged(held, reports), reports)


if __name__ == "__main__":
    main()
