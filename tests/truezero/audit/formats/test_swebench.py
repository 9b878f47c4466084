from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.truezero.audit.copies import check_copy
from tests.truezero.audit.harnesses import dump, dump_lines, mini_trajectory
from tests.truezero.audit.scenarios import FAILURES, Scenario
from truezero.audit.report import audit

DEAD = FAILURES["auth"][0]
FALSE = Scenario(kind="k", number=1, calls=(DEAD,), reward=0.0, failed=True, raised=DEAD)


def prediction(name: str, patch: str | None) -> dict[str, Any]:
    return {"instance_id": name, "model_name_or_path": "m", "model_patch": patch}


def test_a_copys_report_lists_infrastructure_failures_and_their_reasons(tmp_path: Path) -> None:
    copy = check_copy("swebench", tmp_path)
    report = json.loads((copy / "gpt-5.run1.json").read_text())
    predictions = json.loads((copy / "preds.json").read_text())
    false = report["infra_failure_ids"]
    assert false
    assert report["infra_failure_instances"] == len(false)
    assert set(report["failure_reasons"]) == set(false)
    assert {name for name, each in predictions.items() if "truezero" in each} == set(false)
    assert {each["model_patch"] for name, each in predictions.items() if name in false} == {""}


def test_predictions_alone_leave_an_empty_patch_undecided(tmp_path: Path) -> None:
    records = [prediction("a", "diff"), prediction("b", ""), prediction("c", None)]
    for shape in (records, {each["instance_id"]: each for each in records}):
        dump(tmp_path / "preds.json", shape)
        found = audit(tmp_path / "preds.json")
        assert [run.verdict.health.value for run in found.runs] == ["healthy", *["undecided"] * 2]
        assert [run.reward for run in found.runs] == [None, 0.0, 0.0]
        assert found.score_reported is None, "nobody has scored them yet"
    dump_lines(tmp_path / "all_preds.jsonl", records)
    assert len(audit(tmp_path / "all_preds.jsonl").runs) == 3


def test_a_trajectory_beside_it_tells_why_a_patch_is_empty(tmp_path: Path) -> None:
    dump(tmp_path / "preds.json", {"k-1": prediction("k-1", "")})
    dump(tmp_path / "k-1" / "k-1.traj.json", mini_trajectory(FALSE))
    [run] = audit(tmp_path).runs
    assert (run.false_zero, run.verdict.fingerprint) == (True, "auth:401")


def test_an_instance_of_a_report_has_the_score_of_its_list(tmp_path: Path) -> None:
    report = {
        "resolved_ids": ["a"],
        "unresolved_ids": ["b"],
        "empty_patch_ids": ["c"],
        "error_ids": ["d"],
        "incomplete_ids": ["e"],
        "submitted_ids": ["a", "b", "c", "d"],
    }
    dump(tmp_path / "m.run.json", report)
    found = {run.task: (run.reward, run.verdict.health.value) for run in audit(tmp_path).runs}
    assert found == {
        "a": (1.0, "healthy"),
        "b": (0.0, "healthy"),
        "c": (0.0, "undecided"),
        "d": (0.0, "healthy"),
        "e": (0.0, "undecided"),
    }


def test_the_endings_of_agents_are_no_providers_failures(tmp_path: Path) -> None:
    for status in (
        "LimitsExceeded",
        "TimeExceeded",
        "RepeatedFormatError",
        "Submitted",
        "exit_cost",
    ):
        facts = mini_trajectory(
            Scenario(kind="k", number=1, calls=("ok",), reward=0.0, failed=False)
        )
        facts["info"]["exit_status"] = status
        dump(tmp_path / "preds.json", {"k-1": prediction("k-1", "")})
        dump(tmp_path / "k-1" / "k-1.traj.json", facts)
        [run] = audit(tmp_path).runs
        assert run.verdict.health.value == "healthy", status
