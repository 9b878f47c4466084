"""Audit a path: recognise its format, judge its runs, and write the verdicts into a copy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from classifier.verdicts import EVIDENCE, Policy
from truezero.runner.audit.formats import format_of
from truezero.runner.audit.formats.format import AuditFormat
from truezero.runner.audit.judge import Audited, audited
from truezero.runner.audit.record import AuditError
from truezero.runner.audit.report import AuditReport, report

_EVERY = 100  # runs between two signs of progress


def audit(
    path: Path,
    *,
    name: str | None = None,
    write: bool = False,
    out: Path | None = None,
    policy: Policy = EVIDENCE,
    progress: Callable[[int], None] = lambda _: None,
) -> AuditReport:
    """Judge the finished runs in a file or folder.

    Arguments:
        name: the format; recognised by the content without it.
        write: put the verdicts into a copy, at ``out`` or beside the path.
        policy: how to judge.
        progress: called with the number of runs judged so far.

    Raises:
        AuditError: the path, its format or a record cannot be read, or the copy not be written.
    """
    chosen = format_of(path, name)
    runs = _judged(path, chosen, policy, progress)
    if not runs:
        raise AuditError(f"{path}: no finished run of {chosen.title} in it")
    written = _written(path, chosen, runs, out) if write else None
    return report(
        runs,
        format_name=chosen.title,
        path=str(path),
        written=None if written is None else str(written),
    )


def _judged(
    path: Path, chosen: AuditFormat, policy: Policy, progress: Callable[[int], None]
) -> list[Audited]:
    runs: list[Audited] = []
    try:
        for subject in chosen.read(path):
            runs.append(audited(subject, policy))
            if len(runs) % _EVERY == 0:
                progress(len(runs))
    except KeyError as missing:
        raise AuditError(f"{path}: a record of {chosen.title} has no {missing}") from None
    return runs


def _written(path: Path, chosen: AuditFormat, runs: list[Audited], out: Path | None) -> Path:
    """Copy the path and put the verdicts into the copy; the original is only read."""
    target = beside(path) if out is None else out
    source, copy = path.resolve(), target.resolve()
    if copy == source or source in copy.parents or copy in source.parents:
        raise AuditError(f"--out: {target} is {path} itself, in it or around it")
    try:
        if path.is_dir():
            _check_target(path, target)
            shutil.copytree(path, target, dirs_exist_ok=True)
            place = target
        else:
            target.mkdir(parents=True, exist_ok=True)
            place = target / path.name
            shutil.copyfile(path, place)
        chosen.write(place, {run.id: run for run in runs})
    except (OSError, shutil.Error) as error:
        raise AuditError(f"cannot write {target}: {error}") from None
    return place


def _check_target(source: Path, target: Path) -> None:
    """Refuse a folder with other files: an earlier copy of other runs would be taken for these."""
    held = {file.relative_to(target) for file in target.rglob("*") if file.is_file()}
    other = next((file for file in sorted(held) if not (source / file).exists()), None)
    if other is not None:
        raise AuditError(
            f"{target} holds other files ({other}): remove it, or choose another --out"
        )


def beside(path: Path) -> Path:
    """Return where a copy goes: ``results`` to ``results.audited``, a file into such a folder."""
    path = path.resolve()
    return path.with_name(f"{path.name if path.is_dir() else path.stem}.audited")
