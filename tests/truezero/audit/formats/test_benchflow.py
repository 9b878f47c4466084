"""benchflow's folders: what they say, and its own diagnostics in the copy."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.truezero.audit.copies import check_copy
from tests.truezero.audit.harnesses import dump
from truezero.audit.formats.benchflow import BENCHFLOW
from truezero.audit.report import audit
from truezero.audit.runs import FinishedRun


def result(task: str = "t", name: str = "t__1", **fields: Any) -> dict[str, Any]:
    agent = {"total_tokens": 9, "usage_source": "provider_response"}
    return {
        "task_name": task, "rollout_name": name, "n_prompts": 1, "n_tool_calls": 1,
        "rewards": {"reward": 0.0}, "agent_result": agent, "error": None,
        "started_at": "2026-11-01 10:00:00", **fields,
    }  # fmt: skip


def read(folder: Path) -> list[FinishedRun]:
    assert BENCHFLOW.recognises(folder)
    return [run for run in BENCHFLOW.read(folder) if isinstance(run, FinishedRun)]


@pytest.mark.slow
def test_a_copy_carries_benchflows_own_diagnostics(tmp_path: Path) -> None:
    copy = check_copy("benchflow", tmp_path)
    records = [json.loads(file.read_text()) for file in copy.rglob("result.json")]
    marked = [each for each in records if "truezero" in each]
    assert marked
    for each in marked:
        info = each["api_error_info"] or each["suspected_api_error_info"]
        assert each["rewards"] is None
        assert each["error_category"] in ("api_error", "suspected_api_error")
        assert info["total_requests"] >= info["failed_requests"]
    said = {each["error"] for each in marked}
    assert any(
        re.search(r"\[(auth|quota)/permanent\] HTTP \d+ on (\d)/\2 requests$", e) for e in said
    )
    assert any(re.search(r"\[[a-z_]+/(transient|permanent)\] HTTP \d+$", e) for e in said), (
        "no count"
    )


def test_runs_of_one_task_are_its_attempts_by_their_start(tmp_path: Path) -> None:
    dump(tmp_path / "b" / "result.json", result(name="b", started_at="2026-11-01 09:00:00"))
    dump(tmp_path / "a" / "result.json", result(name="a"))
    assert [(run.id, run.attempt) for run in read(tmp_path)] == [("b", 0), ("a", 1)]


def test_a_reviewers_run_and_what_lies_below_a_trial_are_no_trials(tmp_path: Path) -> None:
    dump(tmp_path / "a" / "result.json", result())
    dump(tmp_path / "a" / "review" / "result.json", result(name="inner"))
    dump(tmp_path / "b" / "result.json", result(name="r", purpose="reviewer"))
    assert [run.id for run in read(tmp_path)] == ["a"]


def test_unavailable_usage_is_unknown_and_not_zero(tmp_path: Path) -> None:
    silent = {"total_tokens": 0, "usage_source": "unavailable"}
    dump(tmp_path / "a" / "result.json", result(agent_result=silent, n_tool_calls=0))
    [run] = read(tmp_path)
    assert run.tokens is None
    assert audit(tmp_path).runs[0].verdict.health.value == "undecided"


def test_benchflows_own_verdicts_are_taken_over(tmp_path: Path) -> None:
    counted = {"subcategory": "quota", "status_counts": {"429": 3}, "transient": False}
    none = {"total_tokens": 0, "n_tool_calls": 0}
    bare: dict[str, Any] = {"error": "e", "agent_result": {}, "n_tool_calls": 0}
    dump(tmp_path / "a" / "result.json", result("a", **bare, api_error_info=counted))
    dump(tmp_path / "b" / "result.json", result("b", **bare, suspected_api_error_info=none))
    quota, suspected = (run.verdict for run in audit(tmp_path).runs)
    assert (quota.fingerprint, quota.failed_requests) == ("quota:429", 3)
    assert suspected.rule == "zero_signal"


def test_a_single_result_is_a_path_too(tmp_path: Path) -> None:
    dump(tmp_path / "x" / "result.json", result(name="t__1"))
    assert [run.id for run in read(tmp_path / "x" / "result.json")] == ["t__1"]
    assert [run.id for run in read(tmp_path / "x")] == ["t__1"]
