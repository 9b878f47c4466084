"""The worst findings with the file and line to look at, the report as files, and files not read."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.truezero.audit.harnesses import dump, dump_lines
from truezero.audit.findings import WORST, findings, line_of, lines
from truezero.audit.formats.mapped import field_map
from truezero.audit.report import AuditReport, audit
from truezero.audit.runs import AuditError, RunPlace
from truezero.cli import app

MAP = "id=n,score=ok,error=e,tokens=t,model=m"
DEAD = "openai.AuthenticationError: Error code: 401 - Incorrect API key provided"
SLOW = "litellm.RateLimitError: slow down"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345678\n"


def record(n: int, *, ok: bool = False, e: str | None = DEAD, m: str = "m-1") -> dict[str, object]:
    return {"n": f"run-{n}", "ok": ok, "e": e, "t": 0 if e else 40, "m": m}


RECORDS = [
    record(0, ok=True, e=None),
    record(1, ok=True),
    record(2, e=SLOW),
    record(3),
    record(4),
    record(5, m="<b>m-2</b>"),
]


def read(path: Path) -> AuditReport:
    return audit(path, fields=field_map(MAP))


def test_findings_of_one_cause_are_one_and_those_of_most_runs_come_first(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    dump_lines(file, RECORDS)
    found = findings(read(file))
    assert [(len(each.runs), each.points, each.place) for each in found] == [
        (2, False, f"{file}:4"),
        (1, False, f"{file}:3"),
        (1, False, f"{file}:6"),
        (1, True, f"{file}:2"),
    ]
    assert found[0].said == (
        "2 zeros of m-1: api_error [auth, permanent]: HTTP 401, by the run's own error"
    )
    assert found[3].said.startswith("1 score above zero of m-1: ")


def test_no_more_than_five_are_printed_and_none_where_there_are_none(tmp_path: Path) -> None:
    many = [record(n, m=f"m-{n}") for n in range(9)]
    dump_lines(tmp_path / "a.jsonl", many)
    said = list(lines(read(tmp_path / "a.jsonl")))
    assert (said[0], len(said)) == ("look here first:", 1 + 2 * WORST)
    dump_lines(tmp_path / "b.jsonl", [*RECORDS[:1], {**record(1), "e": "KeyError: 'x'", "t": 9}])
    assert list(lines(read(tmp_path / "b.jsonl"))) == []


def test_the_line_is_the_one_that_holds_the_words_of_the_error(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    quoted = 'ValueError: "x"\nhere – twice'
    dump(file, [{"n": 1, "e": None}, {"n": 2, "e": quoted}])
    at = next(n for n, line in enumerate(file.read_text().split("\n"), 1) if "ValueError" in line)
    assert line_of(RunPlace(file=file, words=quoted)) == at
    assert line_of(RunPlace(file=file, line=7, words=quoted)) == 7
    for place in (
        RunPlace(file=file),
        RunPlace(file=file, words="none"),
        RunPlace(file=tmp_path, words="x"),
    ):
        assert line_of(place) is None


def test_a_report_is_a_page_and_a_line_a_run_without_any_text_of_one(tmp_path: Path) -> None:
    dump_lines(tmp_path / "a.jsonl", RECORDS)
    folder = tmp_path / "made" / "report"
    command = ["audit", str(tmp_path / "a.jsonl"), "--map", MAP, "--report", str(folder)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 1, done.output
    assert f"report written to {folder / 'report.html'}\n" in done.stdout
    page = (folder / "report.html").read_text()
    assert "2 zeros of m-1: api_error [auth, permanent]" in page
    assert f"{tmp_path / 'a.jsonl'}:4" in page
    assert "&lt;b&gt;m-2&lt;/b&gt;" in page
    assert "<b>m-2" not in page
    runs = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    assert [(each["id"], each["finding"], each["line"]) for each in runs[:3]] == [
        ("run-0", None, 1),
        ("run-1", "points_without_a_measurement", 2),
        ("run-2", "false_zero", 3),
    ]
    assert "Incorrect API key" not in page + (folder / "runs.jsonl").read_text()
    told = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert told["worst"][0] == {
        "counts_as": "zero",
        "model": "m-1",
        "why": "api_error [auth, permanent]: HTTP 401, by the run's own error",
        "runs": 2,
        "look_at": f"{tmp_path / 'a.jsonl'}:4",
    }


def test_a_report_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    dump_lines(tmp_path / "a.jsonl", RECORDS)
    command = ["audit", str(tmp_path / "a.jsonl"), "--map", MAP]
    done = CliRunner().invoke(app, [*command, "--report", str(tmp_path / "a.jsonl" / "x")])
    assert (done.exit_code, "cannot write" in done.stderr) == (2, True)


# --- files that are not read ---


def test_pointers_and_broken_archives_beside_results_are_named(tmp_path: Path) -> None:
    dump_lines(tmp_path / "a.jsonl", RECORDS[:1])
    (tmp_path / "b.jsonl").write_text(POINTER)
    (tmp_path / "c.eval").write_bytes(b"PKbroken")
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as whole:
        whole.writestr("x", "y")
    done = CliRunner().invoke(app, ["audit", str(tmp_path), "--map", MAP])
    assert done.exit_code == 2
    assert "1 run\n" in done.stdout
    assert f"not read: {tmp_path / 'b.jsonl'}: a Git LFS pointer" in done.stdout
    assert f"not read: {tmp_path / 'c.eval'}: a broken archive" in done.stdout
    assert "d.zip" not in done.stdout


@pytest.mark.parametrize("content", [POINTER.encode(), b"PK\x03\x04cut off"])
def test_a_path_of_nothing_else_is_refused_by_what_it_holds(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x.eval"
    file.write_bytes(content)
    why = "fetch it with `git lfs pull`" if content.startswith(b"v") else "copy or download it"
    for path in (file, tmp_path):
        with pytest.raises(AuditError, match=f"{file}: .*{why}"):
            audit(path)


def test_a_line_with_a_terminals_colours_is_found_by_its_words(tmp_path: Path) -> None:
    file = tmp_path / "agent.log"
    file.write_text("\x1b[1mstart\x1b[0m\r\n\x1b[91mModuleNotFoundError\x1b[0m: No module\r\n")
    assert line_of(RunPlace(file=file, words="ModuleNotFoundError: No module")) == 2
