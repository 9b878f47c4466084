from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.truezero.audit.copies import check_copy
from tests.truezero.audit.harnesses import dump_lines
from truezero.audit.report import audit

USED = {
    "accumulated_cost": 0.1,
    "accumulated_token_usage": {"prompt_tokens": 9, "completion_tokens": 1},
}


def line(**fields: Any) -> dict[str, Any]:
    tested = {"git_patch": "", "report": {"resolved": False}}
    return {"instance_id": "t", "test_result": tested, "metrics": USED, "error": None, **fields}


def judged(folder: Path, **fields: Any) -> Any:
    dump_lines(folder / "output.jsonl", [line(**fields)])
    return audit(folder).runs[0]


def test_a_copy_says_why_in_the_field_for_errors(tmp_path: Path) -> None:
    copy = check_copy("openhands", tmp_path)
    records = [json.loads(text) for text in (copy / "output.jsonl").read_text().splitlines()]
    marked = [each for each in records if "truezero" in each]
    assert marked
    assert all(each["error"] for each in marked)


def test_what_the_runtime_calls_its_models_failure_is_one(tmp_path: Path) -> None:
    named = {
        "STATUS$ERROR_LLM_OUT_OF_CREDITS": "quota:402",
        "STATUS$ERROR_LLM_AUTHENTICATION": "auth:401",
        "STATUS$ERROR_LLM_SERVICE_UNAVAILABLE": "provider_error:503",
        "AgentStuckInLoopError: Agent got stuck in a loop": None,
        "RuntimeError: Agent reached maximum iteration. Current iteration: 30": None,
    }
    assert {e: judged(tmp_path, error=e).verdict.fingerprint for e in named} == named


def test_counts_that_a_cost_contradicts_are_unknown(tmp_path: Path) -> None:
    none = {"prompt_tokens": 0, "completion_tokens": 0}
    for cost, health in ((0.2, "undecided"), (0.0, "suspected_api_error")):
        metrics = {"accumulated_cost": cost, "accumulated_token_usage": none}
        assert judged(tmp_path, metrics=metrics).verdict.health.value == health


def test_a_resolved_instance_scores_and_an_empty_patch_does_not(tmp_path: Path) -> None:
    for tested, reward in (
        ({"git_patch": "d", "report": {"resolved": True}}, 1.0),
        ({"git_patch": "d"}, None),
        ({"git_patch": ""}, 0.0),
        ({"score": True}, 1.0),
    ):
        assert judged(tmp_path, test_result=tested).reward == reward


def test_attempts_are_told_apart(tmp_path: Path) -> None:
    dump_lines(tmp_path / "output.jsonl", [line(attempt=1), line(attempt=2)])
    assert [run.attempt for run in audit(tmp_path).runs] == [0, 1]


def test_an_agent_that_only_said_what_it_was_told_did_not_act(tmp_path: Path) -> None:
    told = [{"source": "agent", "action": "system"}, {"source": "user", "action": "message"}]
    assert judged(tmp_path, history=told).verdict.rule == "empty_answers"
    acted = [*told, {"source": "agent", "action": "run"}]
    assert judged(tmp_path, history=acted).verdict.health.value == "healthy"


def test_an_empty_patch_that_was_not_evaluated_has_no_score_yet(tmp_path: Path) -> None:
    run = judged(tmp_path, test_result={"git_patch": ""})
    assert (run.reward, run.filled) == (0.0, True)
    assert audit(tmp_path).parts[0].score_reported is None
    run = judged(tmp_path)
    assert (run.reward, run.filled) == (0.0, False)
    assert audit(tmp_path).parts[0].score_reported == 0.0
