from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from tests.truezero.audit.copies import check_copy
from tests.truezero.audit.harnesses import dump, dump_lines
from truezero.audit.report import audit


def row(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "request_id": f"{number}",
        "call_type": "acompletion",
        "startTime": f"2026-11-01T00:00:0{number}",
        "model": "gpt-5",
        "custom_llm_provider": "openai",
        "session_id": "s",
        "status": "success",
        "prompt_tokens": 9,
        "completion_tokens": 3,
        "metadata": {},
        "request_tags": [],
        **fields,
    }


def failed(number: int, **fields: Any) -> dict[str, Any]:
    told = {
        "error_code": "429",
        "error_class": "RateLimitError",
        "error_message": "You exceeded your current quota: check your plan and billing.",
    }
    return row(number, status="failure", metadata={"error_information": told}, **fields)


def test_a_copy_tags_every_row_of_a_session(tmp_path: Path) -> None:
    copy = check_copy("litellm", tmp_path)
    rows = json.loads((copy / "spend.json").read_text())
    with (copy / "spend.csv").open(newline="") as file:
        rows += list(csv.DictReader(file))
    tagged = [each for each in rows if "truezero:" in each["request_tags"]]
    assert tagged
    assert all("truezero" in json.loads(each["metadata"]) for each in tagged)


def test_rows_are_calls_of_their_session_in_order_of_time(tmp_path: Path) -> None:
    dump_lines(tmp_path / "log.jsonl", [failed(2), row(1), row(3, session_id="t")])
    verdicts = {run.id: run.verdict for run in audit(tmp_path).runs}
    assert (verdicts["s"].rule, verdicts["s"].fingerprint) == ("interrupted", "quota:429")
    assert verdicts["t"].health.value == "healthy"
    assert verdicts["s"].lane == "openai/gpt-5/-"


def test_a_log_has_no_rewards_and_says_so(tmp_path: Path) -> None:
    dump(tmp_path / "log.json", {"data": [row(1)]})
    [run] = audit(tmp_path).runs
    assert run.reward is None
    assert {"reward", "outcome"} <= set(run.unknown)


def test_calls_without_a_session_are_judged_together_and_it_is_said(tmp_path: Path) -> None:
    dump(tmp_path / "log.json", [row(1, session_id=None), row(2, session_id="")])
    [run] = audit(tmp_path).runs
    assert run.id == "(no session_id)"
    assert "rollout" in run.unknown


def test_embeddings_are_no_calls_to_a_model_under_test(tmp_path: Path) -> None:
    dump(tmp_path / "log.json", [failed(1, call_type="aembedding"), row(2)])
    assert audit(tmp_path).runs[0].verdict.total_requests == 1


def test_tags_of_an_operator_stay(tmp_path: Path) -> None:
    dump(tmp_path / "log.json", [failed(1, request_tags=["team-a"])])
    found = audit(tmp_path, write=True)
    [written] = json.loads((Path(str(found.written)) / "log.json").read_text())
    assert written["request_tags"] == ["team-a", "truezero:quota:429"]
