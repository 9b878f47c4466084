"""The interface of a format of finished runs, and what formats share in writing verdicts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from truezero.audit.files import folder_below, save
from truezero.audit.judge import Audited
from truezero.audit.runs import FinishedRun, Settings, Subject
from truezero.audit.values import Json, instant, items, mapping

Verdicts = Mapping[str, Audited]
"""Judged runs by their id."""
Fields = Callable[[Audited, Json], Json]
"""A harness's own fields of a run that is no measurement, by its record as the harness wrote it."""

KEY = "truezero"  # where a written record keeps our verdict and what stood there before


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFormat:
    """One format of finished runs.

    ``marks`` say what it is recognised by. ``read`` yields its runs; ``write`` puts verdicts into
    the fields of a copy, and returns sentences on what it could not correct there.
    """

    name: str
    title: str
    marks: str
    recognises: Callable[[Path], bool]
    read: Callable[[Path], Iterator[Subject]]
    write: Callable[[Path, Verdicts], Sequence[str] | None]


# --- what a run is a run of ---

# What changes no answer, or may be a secret.
_NO_SETTING: Final = re.compile(
    r"connections|time_?out|retries|batch|cache|log_?level|key|token$|secret|password|url",
    re.IGNORECASE,
)


def settings_of(named: Mapping[str, object]) -> Settings:
    """Return the settings among what a harness was called with."""
    return tuple(
        (name, str(named[name]))
        for name in sorted(named)
        if named[name] is not None and not _NO_SETTING.search(name)
    )


# --- a folder for each run ---


def folder_id(path: Path, file: Path, name: object) -> str:
    """Return the path of a run's folder in its job, or the run's own name outside of one."""
    return folder_below(path, file) or str(name)


def numbered(
    runs: Iterable[tuple[object, FinishedRun]], number: Literal["attempt", "repeat"]
) -> Iterator[FinishedRun]:
    """Yield the runs of each task in the order of their start, numbered from 0.

    Runs of other evaluations, models or settings are numbered by themselves.

    Arguments:
        runs: the start of each run, as its harness wrote it, and the run.
    """
    by_task: dict[object, list[tuple[float, str, FinishedRun]]] = defaultdict(list)
    for started_at, run in runs:
        of = (run.evaluation, run.model, run.settings, run.task)
        by_task[of].append((instant(started_at) or 0.0, run.id, run))
    for of_task in by_task.values():
        ordered = sorted(of_task, key=lambda each: each[:2])
        for place, (_, _, run) in enumerate(ordered):
            yield replace(run, attempt=place) if number == "attempt" else replace(run, repeat=place)


def mark_files(
    trials: Iterable[tuple[str, Path, Json]], verdicts: Verdicts, fields: Fields, *, indent: int = 2
) -> None:
    """Put verdicts into the files of runs, given as id, file and record; others are left alone."""
    for run, file, record in trials:
        now = marked(record, verdicts, run, fields)
        if now is not record:
            save(file, now, indent=indent)


# --- what is written ---


def block(judged: Audited) -> Json:
    """Return what a marked record says of its verdict; no text of the run is in it."""
    verdict = judged.verdict
    return {
        "health": verdict.health.value,
        "error_category": verdict.error_category,
        "subcategory": verdict.subcategory and verdict.subcategory.value,
        "transient": verdict.transient,
        "fingerprint": verdict.fingerprint,
        "rule": verdict.rule,
        "layer": verdict.layer and verdict.layer.value,
        "error": verdict.error,
        "scoreable": verdict.scoreable,
    }


def stamped(record: Json, judged: Audited, fields: Json) -> Json:
    """Return a record with these fields set, and what they were kept beside the verdict."""
    before = unstamped(record)
    reported = {name: before[name] for name in fields if name in before}
    added = sorted(fields.keys() - before.keys())
    return {**before, **fields, KEY: {**block(judged), "reported": reported, "added": added}}


def unstamped(record: Mapping[str, Any]) -> Json:
    """Return a record as its harness wrote it."""
    ours = mapping(record.get(KEY))
    if "reported" not in ours:
        return dict(record)
    added = set(items(ours.get("added")))
    plain = {name: value for name, value in record.items() if name not in added | {KEY}}
    return {**plain, **mapping(ours["reported"])}


def unhealthy(verdicts: Verdicts, run: str) -> Audited | None:
    """Return the judged run where a verdict takes its score away."""
    judged = verdicts.get(run)
    if judged is None or not judged.no_measurement:
        return None
    scored = judged.never_began and judged.reward is not None
    return judged if judged.verdict.health.unhealthy or scored else None


def marked(
    record: Json, verdicts: Verdicts, run: str, fields: Fields = lambda _judged, _before: {}
) -> Json:
    """Return the record of a run with its verdict, where that takes its score away."""
    judged = unhealthy(verdicts, run)
    return record if judged is None else stamped(record, judged, fields(judged, unstamped(record)))
