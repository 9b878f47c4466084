"""MCPMark: runs beside each other in folders, or by task in the files of its aggregator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.truezero.audit.harnesses import dump
from truezero.audit.formats import format_of
from truezero.audit.report import audit

SPENT = "litellm.AuthenticationError: AuthenticationError: AcmeException - the quota is exhausted"


def meta(error: str | None = None, *, success: bool = False, tokens: int | None = 9) -> Any:
    """Return a run as `save_meta_json` writes it."""
    return {
        "task_name": "desk__tidy",
        "model_name": "m-1",
        "mcp": "filesystem",
        "time": {"start": "2026-01-01T00:00:00", "end": "2026-01-01T00:10:00"},
        "execution_result": {"success": success, "error_message": error},
        "token_usage": {} if tokens is None else {"total_tokens": tokens},
        "turn_count": 3 if tokens else 0,
    }


# (error, tokens, health, whether it leaves the score)
ENDINGS = (
    (None, 9, "healthy", False),
    ("Max turns (100) exceeded", 9, "healthy", False),
    ("Execution timed out after 600 seconds", 9, "healthy", False),
    ("Expecting ',' delimiter: line 3 column 4 (char 90)", 9, "healthy", False),
    ("'NoneType' object is not subscriptable", 9, "healthy", False),
    ("litellm.BadRequestError: AcmeException - input tokens limit is 4096", 9, "healthy", False),
    (SPENT, 9, "api_error", True),
    ("State Duplication Error", None, "not_judged", True),
    ("Notion Connection refused", 9, "healthy", True),
    ("Postgres MCP service error", 0, "not_judged", True),
    ("Github Operation timed out", 9, "healthy", False),
    ("unhandled errors in a TaskGroup (1 sub-exception)", 9, "healthy", True),
    ("'ModelResponse' object has no attribute 'choice'", 9, "healthy", True),
)


@pytest.mark.parametrize(("error", "tokens", "health", "left_out"), ENDINGS)
def test_each_ending_is_the_models_the_providers_or_the_harnesss(
    tmp_path: Path, error: str | None, tokens: int | None, health: str, left_out: bool
) -> None:
    dump(
        tmp_path / "exp" / "m-1__x" / "run-1" / "desk__tidy" / "meta.json",
        meta(error, tokens=tokens),
    )
    [run] = audit(tmp_path).runs
    assert (run.verdict.health.value, run.left_out) == (health, left_out)
    assert (run.id, run.evaluation) == ("exp/m-1__x/run-1/desk__tidy", "exp/m-1__x")


def test_a_task_that_passed_before_an_error_stays_and_messages_are_answers(tmp_path: Path) -> None:
    dump(tmp_path / "r" / "run-1" / "a" / "meta.json", meta(SPENT, success=True))
    dump(tmp_path / "r" / "run-2" / "a" / "meta.json", meta(tokens=None))
    counts = {"token_usage": {"total_tokens": 0}, "turn_count": 3}
    dump(tmp_path / "r" / "run-3" / "a" / "meta.json", {**meta(), **counts})
    dump(tmp_path / "r" / "run-2" / "a" / "messages.json", [{"role": "assistant", "content": "ok"}])
    assert format_of(tmp_path).name == "mcpmark"
    runs = audit(tmp_path).runs
    assert [(r.repeat, r.reward, r.verdict.health.value, r.left_out) for r in runs] == [
        (0, 1.0, "api_error", False),
        (1, 0.0, "healthy", False),
        (2, 0.0, "healthy", False),
    ]


@pytest.mark.parametrize("lifted", [False, True])
def test_the_aggregators_files_hold_the_runs_of_a_task_and_a_copy_is_run_again(
    tmp_path: Path, lifted: bool
) -> None:
    runs = {"run-1": meta(SPENT), "run-2": meta(success=True)}
    if lifted:
        runs = {
            name: {**each["execution_result"], "token_usage": each["token_usage"]}
            for name, each in runs.items()
        }
    task = {"task": "desk__tidy", "service": "filesystem", "model": "m-1", "runs": runs}
    file = Path("model_results") / "m-1" / "desk__tidy.json"
    dump(tmp_path / "x" / file, task)
    report = audit(tmp_path / "x", write=True)
    assert [(r.id[-5:], r.model, r.score) for r in report.runs] == [
        ("run-1", "m-1", None),
        ("run-2", "m-1", 1.0),
    ]
    copy = json.loads((tmp_path / "x.audited" / file).read_text())["runs"]
    result = copy["run-1"] if lifted else copy["run-1"]["execution_result"]
    assert result["success"] is None
    assert result["error_message"].startswith("Agent execution failed: ")
    assert copy["run-2"] == runs["run-2"]
    again = audit(tmp_path / "x.audited")
    assert [r.verdict for r in again.runs] == [r.verdict for r in report.runs]
