from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.house import ROOT
from tests.truezero.audit.harnesses import dump_lines, maseval_report
from tests.truezero.audit.scenarios import FAILURES, FILTERED, Scenario
from truezero.audit.formats import FORMATS
from truezero.cli import app

HONEST = Scenario(kind="solved", number=1, calls=("ok",), reward=1.0, failed=False)
FALSE = Scenario(kind="doomed", number=2, calls=(FAILURES["auth"][0],), reward=0.0, failed=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [maseval_report(run, adapted=True) for run in (HONEST, FALSE)]
    dump_lines(tmp_path / "results" / "benchmark.jsonl", lines)
    return tmp_path / "results"


def test_an_audit_prints_the_corrected_score_and_exits_with_1(folder: Path) -> None:
    done = CliRunner().invoke(app, ["audit", str(folder)])
    assert done.exit_code == 1, done.output
    assert "score: published 0.500 → corrected 1.000" in done.stdout
    assert "  doomed-2: api_error [auth, permanent]: HTTP 401 on 1 of 1 call" in done.stdout


def test_an_audit_that_finds_nothing_exits_with_0(tmp_path: Path) -> None:
    dump_lines(tmp_path / "benchmark.jsonl", [maseval_report(HONEST, adapted=True)])
    done = CliRunner().invoke(app, ["audit", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["score_effective"] == 1.0


def test_a_path_that_cannot_be_read_exits_with_2_and_lists_the_formats(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["audit", str(tmp_path)])
    assert done.exit_code == 2
    assert "Traceback" not in done.stderr
    assert all(each.name in done.stderr for each in FORMATS)


def test_a_copy_is_written_beside_the_path_or_where_it_is_asked_for(folder: Path) -> None:
    beside, asked = folder.with_name("results.audited"), folder.with_name("asked")
    for options, place in ((["--write"], beside), (["--out", str(asked)], asked)):
        done = CliRunner().invoke(app, ["audit", str(folder), *options])
        assert f"verdicts written to {place}" in done.stdout
        assert '"environment_error"' in (place / "benchmark.jsonl").read_text()


def test_the_guide_has_a_row_for_each_format() -> None:
    guide = (ROOT / "docs" / "guides" / "audit.md").read_text(encoding="utf-8")
    assert [each.name for each in FORMATS if f"| {each.title} (`{each.name}`) |" not in guide] == []


def test_an_audit_of_what_cannot_be_judged_exits_with_3(tmp_path: Path) -> None:
    kept = {"instance_id": "a", "model_name_or_path": "m"}
    dump_lines(tmp_path / "preds.jsonl", [{**kept, "model_patch": ""}])
    done = CliRunner().invoke(app, ["audit", str(tmp_path)])
    assert done.exit_code == 3, done.output
    assert "nothing could be judged\n" in done.stdout
    dump_lines(tmp_path / "preds.jsonl", [{**kept, "model_patch": "diff"}])
    done = CliRunner().invoke(app, ["audit", str(tmp_path)])
    assert (done.exit_code, "nothing could be judged" in done.stdout) == (0, False)


def test_a_filter_is_to_an_audit_what_a_batch_would_have_said_it_is(tmp_path: Path) -> None:
    run = Scenario(kind="asked", number=1, calls=(FILTERED,), reward=0.0, failed=True)
    dump_lines(tmp_path / "benchmark.jsonl", [maseval_report(run, adapted=True)])
    for options, code, said in (
        ([], 1, "  asked-1: api_error [rejected_request, permanent]: HTTP 400 on 1 of 1 call"),
        (["--content-filter", "failure"], 1, "false zeros: 1"),
        (["--content-filter", "answer"], 0, "published 0.000 → corrected 0.000"),
    ):
        done = CliRunner().invoke(app, ["audit", str(tmp_path), *options])
        assert (done.exit_code, said in done.stdout) == (code, True), done.output
    assert CliRunner().invoke(app, ["audit", str(tmp_path), "--content-filter", "x"]).exit_code == 2


def test_records_of_any_shape_are_read_by_a_map_and_no_copy_of_them_is_written(
    tmp_path: Path,
) -> None:
    dead = "openai.AuthenticationError: Error code: 401 - Incorrect API key provided"
    dump_lines(tmp_path / "a.jsonl", [{"run": "a", "passed": False, "error": dead}])
    command = ["audit", str(tmp_path / "a.jsonl"), "--map", "id=run,score=passed,error=error"]
    done = CliRunner().invoke(app, command)
    assert (done.exit_code, "mapped records, 1 run\n" in done.stdout) == (1, True)
    assert "--write: mapped records" in CliRunner().invoke(app, [*command, "--write"]).stderr
