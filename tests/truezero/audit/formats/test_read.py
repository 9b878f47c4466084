"""Rows of ``read.jsonl``: files as harnesses write them, and all that audit reads of them.

``files`` of a row are by their path in the folder that is audited, or in it the one at ``path``:
JSON, JSON by lines, or text. It may name a ``format``, a ``map`` of fields, and terms of a
``policy``. ``told`` are the runs and the scores of the parts, without what holds nothing and
without sentences of verdicts. With ``write`` a copy is written: ``copy`` is what is another
there, by the path in its record, of verdicts the rule; and it is judged as its original.

``UPDATE_GOLDEN=1 pytest tests/truezero/audit/formats/test_read.py`` rewrites what is told.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from classifier.verdicts import Policy
from tests import golden, tables
from tests.tables import each
from tests.truezero.audit.copies import Row, changed, content, run_told, verdicts
from truezero.audit.formats.mapped import field_map
from truezero.audit.report import AuditReport, audit
from truezero.audit.runs import AuditError

FILE = Path(__file__).with_name("read.jsonl")
ROWS = tables.lines(FILE)


def put(folder: Path, files: Row) -> None:
    for name, held in files.items():
        (file := folder / name).parent.mkdir(parents=True, exist_ok=True)
        records = held if name.endswith(".jsonl") else [held]
        lines = (json.dumps(record) + "\n" for record in records)
        file.write_bytes((held if isinstance(held, str) else "".join(lines)).encode())


def got(file: Path) -> Any:
    text = file.read_text("utf-8")
    try:
        if file.suffix == ".jsonl":
            return [json.loads(line) for line in text.splitlines()]
        return json.loads(text)
    except ValueError:
        return text


def told(found: AuditReport) -> Row:
    parts = {
        part.name: [part.scores.total, part.score_reported, part.scores.score_effective, part.out]
        for part in found.parts
    }
    more = {name: getattr(found, name) for name in ("copies", "uncorrected", "lost")}
    return {
        "format": found.format, "runs": [run_told(run) for run in found.runs], "parts": parts,
        **{name: value for name, value in more.items() if value},
    }  # fmt: skip


def read(row: Row, folder: Path) -> Row:
    """Audit the files of a row; what is told, and what is another in the copy."""
    runs = folder / "runs"
    put(runs, row["files"])
    path, out = runs / row.get("path", "."), folder / "copy" / row.get("path", ".")
    how: Row = {"name": row.get("format")}
    if "policy" in row:
        how["policy"] = Policy(**row["policy"])
    before = content(runs)
    try:
        if "map" in row:
            how["fields"] = field_map(row["map"])
        found = audit(path, write="write" in row, out=out if "write" in row else None, **how)
    except AuditError as error:
        return {"told": {"refused": str(error).replace(f"{runs}/", "").replace(str(runs), ".")}}
    assert content(runs) == before, "the original is only read"
    if "write" not in row:
        return {"told": told(found)}
    assert verdicts(audit(out, **how)) == verdicts(found), "a copy is judged as its original"
    files = {name: dict(changed(got(runs / name), got(folder / "copy" / name))) for name in before}
    return {"told": told(found), "copy": {name: each for name, each in files.items() if each}}


@pytest.mark.skipif(not golden.UPDATING, reason="rewrites what is told")
def test_what_is_told_is_rewritten(tmp_path: Path) -> None:
    rows = [row | read(row, tmp_path / f"{number}") for number, row in enumerate(ROWS)]
    tables.write_lines(FILE, rows)


@pytest.mark.parametrize("eighth", range(8))
def test_files_are_read_in_every_field_as_their_row_says(tmp_path: Path, eighth: int) -> None:
    @each("number", range(eighth, len(ROWS), 8), ids=lambda number: ROWS[number]["fact"])
    def as_written(number: int) -> None:
        row = ROWS[number]
        said = read(row, tmp_path / f"{number}")
        expected = {name: row[name] for name in ("told", "copy") if name in row}
        assert json.loads(json.dumps(said), parse_constant=str) == json.loads(
            json.dumps(expected), parse_constant=str
        )

    as_written()


def test_a_session_of_which_the_middle_is_left_out_says_nothing_of_its_agent(
    tmp_path: Path,
) -> None:
    began = "terminal_bench: the session of an installed agent shows if it began (1)"
    files = dict(next(row["files"] for row in ROWS if row["fact"] == began))
    (log,) = (name for name in files if name.endswith("agent.log"))
    files[log] = files[log].replace("INSTALL_SUCCESS\r\n", "x" * 5_000_000 + "\r\n")
    put(tmp_path, files)
    [run] = audit(tmp_path).runs
    assert (run.verdict.health.value, run.verdict.rule) == ("undecided", "not_recorded")
