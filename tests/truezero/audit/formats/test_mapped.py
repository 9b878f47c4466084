"""Records of any shape, by a map of their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.truezero.audit.harnesses import dump, dump_lines
from truezero.audit.formats.mapped import field_map
from truezero.audit.report import AuditReport, audit
from truezero.audit.runs import AuditError
from truezero.cli import app

MAP = "id=run,task=case.name,model=llm,score=result.passed,error=result.error,tokens=usage.total"
DEAD = "openai.AuthenticationError: Error code: 401 - Incorrect API key provided"


def record(run: str, *, passed: Any, error: str | None = None, total: int = 90) -> dict[str, Any]:
    return {"run": run, "case": {"name": f"case-{run}"}, "llm": "lab/m-1",
            "result": {"passed": passed, "error": error}, "usage": {"total": total}}  # fmt: skip


RECORDS = [record("a", passed=True), record("b", passed=False, error=DEAD, total=0)]


def read(path: Path, said: str = MAP) -> AuditReport:
    return audit(path, fields=field_map(said))


def check(report: AuditReport) -> None:
    assert [(run.id, run.task, run.model, run.reward) for run in report.runs] == [
        ("a", "case-a", "lab/m-1", 1.0),
        ("b", "case-b", "lab/m-1", 0.0),
    ]
    assert [run.verdict.fingerprint for run in report.runs] == [None, "auth:401"]
    assert [run.false_zero for run in report.runs] == [False, True]


def test_json_json_lines_and_csv_are_read_by_their_names(tmp_path: Path) -> None:
    for shape in (RECORDS, {"made": "today", "runs": RECORDS}, {"x": RECORDS[0], "y": RECORDS[1]}):
        dump(tmp_path / "a.json", shape)
        check(read(tmp_path / "a.json"))
    dump_lines(tmp_path / "b.jsonl", RECORDS)
    check(read(tmp_path / "b.jsonl"))
    (tmp_path / "c.csv").write_text(
        "run,case.name,llm,result.passed,result.error,usage.total\n"
        f'a,case-a,lab/m-1,True,,90\nb,case-b,lab/m-1,0,"{DEAD}",0\n'
    )
    check(read(tmp_path / "c.csv"))
    for each in RECORDS:
        dump(tmp_path / "folder" / each["run"] / "meta.json", each)
    check(read(tmp_path / "folder"))


def test_a_star_stands_for_each_run_in_a_record(tmp_path: Path) -> None:
    runs = {
        "run-1": {"ok": True, "error": None, "turns": 4, "tokens": 0},
        "run-2": {"ok": False, "error": DEAD, "turns": 0, "tokens": 0},
    }
    dump(tmp_path / "m" / "case.json", {"task": "case", "runs": runs})
    said = "id=@path,task=task,score=runs.*.ok,error=runs.*.error,turns=runs.*.turns,"
    first, second = read(tmp_path, f"{said}tokens=runs.*.tokens").runs
    assert (first.id, first.task, first.repeat) == ("m/case.json/run-1", "case", 0)
    assert (first.verdict.health.value, first.verdict.total_tokens) == ("healthy", None)
    assert (second.repeat, second.verdict.fingerprint, second.false_zero) == (1, "auth:401", True)
    listed = {"task": "case", "runs": list(runs.values())}
    dump(tmp_path / "m" / "case.json", listed)
    assert len(read(tmp_path, f"{said}tokens=runs.*.tokens").runs) == 2


# (turns, tokens, health)
COUNTED = (
    (3, 0, "healthy"),
    (3, None, "healthy"),
    (0, 40, "healthy"),
    (0, 0, "suspected_api_error"),
    (None, 0, "suspected_api_error"),
    (0, None, "undecided"),
    (None, None, "undecided"),
)


@pytest.mark.parametrize(("turns", "tokens", "health"), COUNTED)
def test_turns_are_made_and_tokens_are_counted(
    tmp_path: Path, turns: int | None, tokens: int | None, health: str
) -> None:
    dump(tmp_path / "a.json", [{"n": "a", "u": turns, "t": tokens}, {"n": "b", "u": 1, "t": 1}])
    run, _ = read(tmp_path / "a.json", "id=n,turns=u,tokens=t").runs
    assert run.verdict.health.value == health


def test_the_same_id_again_is_a_repeat_and_an_error_may_be_an_object(tmp_path: Path) -> None:
    error = {
        "type": "insufficient_quota",
        "message": "You exceeded your current quota",
        "status": 429,
    }
    dump_lines(tmp_path / "a.jsonl", [{"n": 7, "e": None, "o": "4"}, {"n": 7, "e": error, "o": ""}])
    first, second = read(tmp_path / "a.jsonl", "id=n,error=e,output=o").runs
    assert [(run.id, run.repeat) for run in (first, second)] == [("7", 0), ("7#1", 1)]
    assert (first.verdict.health.value, second.verdict.subcategory) == ("healthy", "quota")


# (map, words of the error)
WRONG = (
    ("run=id", "'run=id' is no field=name; fields: id, task"),
    ("id", "'id' is no field=name"),
    ("score=result.passed", "id=… is missing"),
    ("id=a.*.x,score=b.*.y", "name one list"),
    ("id=run,score=result.pased", ("no record of .* has score=result.pased; the last one has run, "
     "case.name, llm, result.passed, result.error, usage.total")),
    ("id=run,score=llm", "a.json: score=llm is a text, neither a number nor true or false"),
    ("id=usage", "a.json: id=usage is an object, and names no run"),
)  # fmt: skip


@pytest.mark.parametrize(("said", "words"), WRONG)
def test_a_map_that_does_not_fit_is_refused_with_what_is_there(
    tmp_path: Path, said: str, words: str
) -> None:
    dump(tmp_path / "a.json", RECORDS)
    with pytest.raises(AuditError, match=words):
        read(tmp_path / "a.json", said)


def test_the_command_takes_a_map_and_writes_no_copy_of_records_it_does_not_know(
    tmp_path: Path,
) -> None:
    dump(tmp_path / "a.json", RECORDS)
    command = ["audit", str(tmp_path / "a.json"), "--map", MAP]
    done = CliRunner().invoke(app, command)
    assert (done.exit_code, "mapped records, 2 runs" in done.stdout) == (1, True)
    assert "--write: mapped records" in CliRunner().invoke(app, [*command, "--write"]).stderr
