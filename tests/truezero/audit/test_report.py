"""Paths that are audited: what is refused, where copies go, and records of any shape."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.truezero.audit.harnesses import WRITERS
from tests.truezero.audit.scenarios import scenarios
from truezero.audit.report import audit, beside
from truezero.audit.runs import AuditError


def test_a_path_in_no_format_names_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text('{"a": 1}')
    with pytest.raises(AuditError) as error:
        audit(tmp_path)
    assert all(name in str(error.value) for name in WRITERS)
    with pytest.raises(AuditError, match="no such file"):
        audit(tmp_path / "missing")
    with pytest.raises(AuditError, match="'x' is none of truezero, benchflow"):
        audit(tmp_path, name="x")


def test_a_format_without_a_run_in_the_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="no finished run of Harbor"):
        audit(tmp_path, name="harbor")


def test_a_copy_is_never_written_over_or_into_what_is_read(tmp_path: Path) -> None:
    source = tmp_path / "runs"
    source.mkdir()
    WRITERS["maseval"](source, scenarios(30))
    for out in (source, source / "in", tmp_path):
        with pytest.raises(AuditError, match="--out"):
            audit(source, write=True, out=out)


def test_a_folder_with_other_files_is_not_written_to(tmp_path: Path) -> None:
    for name in ("runs", "others"):
        (tmp_path / name).mkdir()
        WRITERS["maseval"](tmp_path / name, scenarios(30))
    (tmp_path / "others" / "notes.txt").write_text("mine")
    with pytest.raises(AuditError, match=r"holds other files \(notes\.txt\)"):
        audit(tmp_path / "runs", write=True, out=tmp_path / "others")
    assert "truezero" not in (tmp_path / "others" / "benchmark.jsonl").read_text()


def test_a_files_copy_keeps_its_name_in_a_folder_beside_it(tmp_path: Path) -> None:
    WRITERS["maseval"](tmp_path, scenarios(30))
    found = audit(tmp_path / "benchmark.jsonl", write=True)
    assert found.written == str(beside(tmp_path / "benchmark.jsonl") / "benchmark.jsonl")
    assert Path(found.written).parent.name == "benchmark.audited"
    lines = map(json.loads, Path(found.written).read_text().splitlines())
    assert sum("truezero" in line["traces"] for line in lines) == len(
        [run for run in found.runs if run.verdict.health.unhealthy]
    )


JUNK: tuple[object, ...] = (
    None,
    "",
    0,
    -1,
    1.5,
    True,
    [],
    {},
    "x",
    [None],
    [{}],
    {"a": 1},
    float("nan"),
    10**30,
)


def mutated(value: Any, draw: random.Random) -> Any:
    """The same record with a few of its values replaced or gone."""
    if draw.random() < 0.03:
        return draw.choice(JUNK)
    if isinstance(value, dict):
        return {k: mutated(each, draw) for k, each in value.items() if draw.random() > 0.01}
    return [mutated(each, draw) for each in value] if isinstance(value, list) else value


@pytest.mark.slow
def test_records_of_any_shape_are_judged_or_refused_in_a_sentence(tmp_path: Path) -> None:
    judged = 0
    for name in WRITERS:
        for seed in range(2):
            folder = tmp_path / f"{name}-{seed}"
            folder.mkdir()
            WRITERS[name](folder, scenarios(15, seed))
            draw = random.Random(seed)
            for file in [*folder.rglob("*.json"), *folder.rglob("*.jsonl")]:
                texts = (
                    file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
                )
                changed = [json.dumps(mutated(json.loads(text), draw)) for text in texts]
                file.write_text("\n".join(changed) + "\n")
            with suppress(AuditError):
                judged += len(audit(folder, name=name, write=True).runs)
    assert judged > 50


def test_progress_is_told_as_runs_are_judged(tmp_path: Path) -> None:
    WRITERS["maseval"](tmp_path, scenarios(210))
    told: list[int] = []
    audit(tmp_path, progress=told.append)
    assert told == [100, 200]
