from __future__ import annotations

import json
from itertools import chain
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
        assert found.parts[0].score_reported is None, "nobody has scored them yet"
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


def report(**lists: list[str]) -> dict[str, Any]:
    return {
        "submitted_ids": sorted(chain.from_iterable(lists.values())),
        "resolved_ids": [],
    } | lists


def test_each_submission_is_judged_by_itself(tmp_path: Path) -> None:
    """Side by side in folders, two models in one folder, and one that was evaluated twice."""
    for folder, model, patch in (("a", "m", "diff"), ("b", "m", ""), ("b", "org/n", "diff")):
        record = prediction("k-1", patch) | {"model_name_or_path": model}
        dump_lines(tmp_path / folder / f"{model[-1]}.jsonl", [record])
    dump(tmp_path / "a" / "results" / "r.json", report(resolved_ids=["k-1"]))
    dump(tmp_path / "b" / "org__n.run.json", report(unresolved_ids=["k-1"]))
    dump(tmp_path / "b" / "m" / "trajs" / "k-1.traj.json", mini_trajectory(FALSE))
    dump(tmp_path / "b" / "m.run.json", report(empty_patch_ids=["k-1"]))
    found = audit(tmp_path)
    assert {part.name: part.score_reported for part in found.parts} == {
        "a · m": 1.0, "b · m": 0.0, "b · org/n": 0.0,
    }  # fmt: skip
    assert {run.id for run in found.runs} == {"a/m:k-1", "b/m:k-1", "b/org/n:k-1"}
    dump(tmp_path / "a" / "results" / "again.json", report(unresolved_ids=["k-1"]))
    assert sorted(part.score_reported or 0.0 for part in audit(tmp_path).parts) == [
        0.0,
        0.0,
        0.0,
        1.0,
    ]


def test_a_verdict_marks_the_submission_that_it_is_of(tmp_path: Path) -> None:
    for folder in ("good", "bad"):
        dump_lines(tmp_path / "in" / folder / "preds.jsonl", [prediction("k-1", "")])
        dump(tmp_path / "in" / folder / "m.run.json", report(empty_patch_ids=["k-1"]))
    dump(tmp_path / "in" / "bad" / "k-1.traj.json", mini_trajectory(FALSE))
    audit(tmp_path / "in", write=True, out=tmp_path / "out")
    marked = [file.parent.name for file in (tmp_path / "out").rglob("*.json*")
              if "auth:401" in file.read_text()]  # fmt: skip
    assert marked == ["bad", "bad"]


def test_older_reports_are_read(tmp_path: Path) -> None:
    names = ("a", "b", "c", "d")
    dump_lines(tmp_path / "all_preds.jsonl", [prediction(name, "diff") for name in names])
    for older in (
        {"resolved": ["a"], "unresolved_ids": ["b", "c", "d"]},
        {"resolved": ["a"], "no_generation": ["b"], "no_logs": ["c"]},
        {"resolved": ["a"], "generated": ["a", "b", "c"], "applied": ["a", "b"], "no_apply": ["c"]},
    ):
        dump(tmp_path / "results" / "results.json", older)
        found = audit(tmp_path)
        assert [run.reward for run in sorted(found.runs, key=lambda run: run.task)] == [1, 0, 0, 0]
        assert found.parts[0].score_reported == 0.25


def test_what_left_no_prediction_is_a_run_too(tmp_path: Path) -> None:
    """A trajectory that just stops says neither that its agent failed nor that it was done."""
    answered = Scenario(kind="k", number=1, calls=("ok",), reward=0.0, failed=False)
    dump_lines(tmp_path / "all_preds.jsonl", [prediction("k-1", "diff")])
    for name, info, health in (
        ("k-2", {"exit_status": None}, "undecided"),
        ("k-3", {"exit_status": None, "submission": "diff"}, "healthy"),
        ("k-4", {"exit_status": "submitted"}, "healthy"),
        ("k-5", {"exit_status": "early_exit"}, "healthy"),
    ):
        facts = mini_trajectory(answered)
        dump(tmp_path / "trajs" / f"{name}.traj", facts | {"info": facts["info"] | info})
        run = next(run for run in audit(tmp_path).runs if run.task == name)
        assert (run.verdict.health.value, run.reward) == (health, None)
        assert run.no_measurement is (name == "k-5")
    dump(tmp_path / "m.r.json", report(resolved_ids=["k-1"], incomplete_ids=["k-2", "k-5"]))
    [part] = audit(tmp_path).parts
    assert (part.score_reported, part.scores.score_effective) == (1 / 3, 0.5)
    assert part.out == {"environment": 1}


def test_the_endings_of_swe_agent_are_read(tmp_path: Path) -> None:
    step = {"thought": "Exit due to retry error", "response": "ls", "action": "ls"}
    stats = {"api_calls": 5, "tokens_sent": 90, "tokens_received": 9}
    dump(tmp_path / "preds.json", {"k-1": prediction("k-1", "diff")})
    dump(tmp_path / "m.r.json", report(unresolved_ids=["k-1"]))
    for status, health, measured in (
        ("exit_api", "api_error", False),
        ("submitted (exit_api)", "api_error", False),
        ("submitted (exit_environment_error)", "healthy", False),
        ("submitted (exit_cost)", "healthy", True),
        ("exit_forfeit", "healthy", True),
        ("exit_error", "healthy", True),
    ):
        info = {"exit_status": status, "submission": "diff", "model_stats": stats}
        dump(tmp_path / "k-1.traj", {"trajectory": [step], "history": [], "info": info})
        [run] = audit(tmp_path).runs
        assert (run.verdict.health.value, not run.no_measurement) == (health, measured), status


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
