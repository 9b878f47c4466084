"""What holds of every format: a copy says what was judged, and the original is only read."""

from __future__ import annotations

from pathlib import Path

from tests.truezero.audit.harnesses import WRITERS
from tests.truezero.audit.scenarios import KINDS, scenarios
from truezero.audit.report import AuditReport, audit

RUNS = 3 * len(KINDS)  # each kind in both of a format's variants


def content(folder: Path) -> dict[str, bytes]:
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def verdicts(found: AuditReport) -> dict[str, tuple[object, ...]]:
    return {
        run.id: (run.verdict.health, run.verdict.rule, run.verdict.fingerprint, run.reward)
        for run in found.runs
    }


def check_copy(name: str, tmp_path: Path) -> Path:
    """Write runs, audit them into a copy and that copy again; returns the copy."""
    source, copy = tmp_path / "runs", tmp_path / "runs.audited"
    source.mkdir()
    WRITERS[name](source, scenarios(RUNS))
    before = content(source)
    first = audit(source, write=True)
    assert content(source) == before, "the original is only read"
    written = content(copy)
    assert written != before
    assert written.keys() == before.keys()
    second = audit(copy, write=True, out=tmp_path / "again")
    assert verdicts(second) == verdicts(first), "a copy is judged as its original"
    assert content(tmp_path / "again") == written, "writing twice changes nothing"
    audit(source, write=True)
    assert content(copy) == written, "and neither does writing over a copy"
    return copy
