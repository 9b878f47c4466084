"""All that is said of a run, and facts of every format's copy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.truezero.audit.harnesses import WRITERS
from tests.truezero.audit.scenarios import KINDS, scenarios
from truezero.audit.judge import Audited
from truezero.audit.report import AuditReport, audit

RUNS = 4 * len(KINDS)  # each kind in both of a format's variants, and each of its failures


Row = dict[str, Any]
COUNTS = ("total_requests", "failed_requests", "input_tokens", "total_tokens", "fingerprint",
          "lane")  # fmt: skip
FACTS = ("origin", "evaluation", "settings", "repeat", "attempt", "model", "filled", "unread",
         "unknown", "environment", "left_out", "no_measurement", "false_zero",
         "false_points")  # fmt: skip


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


def run_told(run: Audited) -> Row:
    """Return what is said of a run, without what holds nothing and without sentences."""
    verdict = run.verdict
    roles = {name: one.health.value for name, one in verdict.roles.items()}
    counts = {name: getattr(verdict, name) for name in COUNTS}
    facts = {name: getattr(run, name) for name in FACTS} | {"roles": roles}
    return {
        "id": run.id, "task": run.task, "reward": run.reward, "health": verdict.health.value,
        "rule": verdict.rule, **{name: value for name, value in facts.items() if value},
        **{name: value for name, value in counts.items() if value is not None},
    }  # fmt: skip


def bare(value: Any) -> Any:
    """Return a value with each verdict of ours as its rule."""
    if isinstance(value, dict):
        verdict = value.keys() >= {"health", "rule"}
        return value["rule"] if verdict else {name: bare(held) for name, held in value.items()}
    return [bare(held) for held in value] if isinstance(value, list) else value


def changed(old: Any, new: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what is another in a record, by its path in it."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            yield from changed(old.get(name, "absent"), new.get(name, "gone"), f"{place}/{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new, strict=True)):
            yield from changed(*pair, f"{place}/{number}")
    elif json.dumps(old) != json.dumps(new):
        yield place, bare(new)


def check_copy(name: str, tmp_path: Path, *, over: bool = False) -> Path:
    """Write runs, audit them into a copy and that copy again, or over it; returns the copy."""
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
    if over:
        audit(source, write=True)
        assert content(copy) == written, "and neither does writing over a copy"
    return copy
