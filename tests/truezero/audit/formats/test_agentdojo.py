"""AgentDojo: utility and security are scores that need an answer each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.truezero.audit.harnesses import dump
from truezero.audit.formats import format_of
from truezero.audit.report import audit

ASKED = [
    {"role": "system", "content": [{"type": "text", "content": "You help."}]},
    {"role": "user", "content": [{"type": "text", "content": "Pay the bill."}]},
]
ANSWERED = [
    *ASKED,
    {"role": "assistant", "content": None, "tool_calls": [
        {"function": "pay", "args": {"sum": 5}, "id": "c1", "placeholder_args": None}]},
    {"role": "tool", "content": [{"type": "text", "content": "paid"}], "tool_call_id": "c1",
     "tool_call": {"function": "pay", "args": {}, "id": "c1"}, "error": None},
    {"role": "assistant", "content": [{"type": "text", "content": "Paid."}], "tool_calls": None},
]  # fmt: skip
DEAD = (
    "InternalServerError(\"Error code: 503 - {'error': {'message': 'busy', 'type': 'api_error'}}\")"
)


def stock(messages: list[Any], *, utility: bool, security: bool, error: str | None) -> Any:
    """Return a run as `TraceLogger` writes it."""
    return {
        "suite_name": "banking",
        "pipeline_name": "m-1",
        "user_task_id": "user_task_0",
        "injection_task_id": "injection_task_1",
        "attack_type": "direct",
        "injections": {},
        "messages": messages,
        "error": error,
        "utility": utility,
        "security": security,
        "duration": 4.2,
    }


def built(messages: list[Any], *, utility: bool, security: bool, error: str | None) -> Any:
    """Return a run of a suite that is built on it."""
    return {
        "run_id": "banking_t1_1",
        "suite_name": "banking_suite",
        "pipeline_name": "m-1",
        "task_id": "t1",
        "condition": "poison",
        "seed": 1,
        "messages": messages,
        "trace": [],
        "final_answer": "",
        "evaluation": {"utility": utility, "security": security, "outcome": "safe"},
        "error": error,
    }


@pytest.mark.parametrize("shape", [stock, built])
def test_a_run_without_an_answer_has_neither_score(tmp_path: Path, shape: Any) -> None:
    folder = tmp_path / "runs"
    dump(folder / "a" / "none.json", shape(ASKED, utility=False, security=True, error=DEAD))
    dump(folder / "b" / "none.json", shape(ANSWERED, utility=True, security=False, error=None))
    assert format_of(folder).name == "agentdojo"
    report = audit(folder, write=True)
    assert {(run.id, run.reward, run.verdict.fingerprint) for run in report.runs} == {
        ("a/none/utility", 0.0, "provider_error:503"),
        ("a/none/security", 1.0, "provider_error:503"),
        ("b/none/utility", 1.0, None),
        ("b/none/security", 0.0, None),
    }
    assert [run.id for run in report.false_zeros] == ["a/none/utility"]
    assert [run.id for run in report.false_points] == ["a/none/security"]
    assert {run.model for run in report.runs} == {"m-1"}
    copy = tmp_path / "runs.audited"
    written = json.loads((copy / "a" / "none.json").read_text())
    scores = written if shape is stock else written["evaluation"]
    assert (scores["utility"], scores["security"], written["error"]) == (None, None, DEAD)
    assert [run.id for run in audit(copy).false_points] == ["a/none/security"]


def test_a_failure_after_answers_cuts_the_run_off(tmp_path: Path) -> None:
    dump(tmp_path / "a.json", stock(ANSWERED, utility=False, security=True, error=DEAD))
    run, _ = audit(tmp_path / "a.json").runs
    assert (run.verdict.rule, run.verdict.total_requests) == ("interrupted", 3)
    assert run.task == "banking/user_task_0/direct/injection_task_1"
