"""Copies with verdicts, of generated runs of each kind: each says them where its harness looks."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path

import pytest

from classifier.__main__ import judge_export
from classifier.verdicts import Verdict
from tests.truezero.audit.copies import check_copy
from tests.truezero.audit.harnesses import truezero
from tests.truezero.audit.scenarios import KINDS, scenarios
from truezero.audit.report import audit


def test_a_copy_is_an_export_still(tmp_path: Path) -> None:
    copy = check_copy("truezero", tmp_path, over=True) / "export.jsonl"
    lines = copy.read_text().splitlines()
    marked = [record for record in map(json.loads, lines) if "truezero" in record]
    assert {record["record"] for record in marked} == {"rollout"}
    original = (tmp_path / "runs" / "export.jsonl").read_text().splitlines()
    assert judge_export(lines) == judge_export(original)


def test_verdicts_are_those_of_classify(tmp_path: Path) -> None:
    truezero(tmp_path, scenarios(2 * len(KINDS)))
    lines = (tmp_path / "export.jsonl").read_text().splitlines()
    expected: dict[str, Verdict] = {verdict.rollout_id: verdict for verdict in judge_export(lines)}
    assert {run.id: run.verdict for run in audit(tmp_path).runs} == expected


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


@pytest.mark.slow
def test_a_copy_carries_an_exception_that_harbor_knows_and_no_reward(tmp_path: Path) -> None:
    copy = check_copy("harbor", tmp_path)
    trials = [json.loads(file.read_text()) for file in copy.rglob("result.json")]
    marked = [each for each in trials if "truezero" in each]
    assert {each["verifier_result"] for each in marked} == {None}
    names = {each["exception_info"]["exception_type"] for each in marked}
    assert {"AgentAuthenticationError", "ApiUsageLimitError", "APIResponseValidationError"} <= names


def test_a_copy_invalidates_samples_as_inspect_does(tmp_path: Path) -> None:
    copy = check_copy("inspect", tmp_path)
    log = json.loads((copy / "log.json").read_text())
    marked = [each for each in log["samples"] if each.get("invalidation")]
    assert log["invalidated"]
    assert marked
    for each in marked:
        assert each["invalidation"]["author"] == "truezero"
        assert all(math.isnan(score["value"]) for score in each["scores"].values())
        assert {score["reason"] for score in each["scores"].values()} == {
            each["invalidation"]["reason"]
        }


def test_a_copy_is_as_the_callback_would_have_left_it(tmp_path: Path) -> None:
    copy = check_copy("maseval", tmp_path)
    reports = [json.loads(line) for line in (copy / "benchmark.jsonl").read_text().splitlines()]
    marked = [each for each in reports if "truezero" in each["traces"]]
    assert marked
    for each in marked:
        assert each["eval"] is None
        assert each["status"] in ("environment_error", "unknown_execution_error")
        assert each["error"]["error_message"]


def test_a_copy_says_why_in_the_field_for_errors(tmp_path: Path) -> None:
    copy = check_copy("openhands", tmp_path)
    records = [json.loads(text) for text in (copy / "output.jsonl").read_text().splitlines()]
    marked = [each for each in records if "truezero" in each]
    assert marked
    assert all(each["error"] for each in marked)


def test_a_copys_rewards_are_null_and_its_errors_say_why(tmp_path: Path) -> None:
    copy = check_copy("verifiers", tmp_path)
    episodes = [json.loads(line) for line in (copy / "traces.jsonl").read_text().splitlines()]
    traces = [trace for episode in episodes for trace in episode["traces"] if "truezero" in trace]
    assert traces
    for trace in traces:
        assert set(trace["rewards"].values()) == {None}
        assert not trace["ok"]
        assert trace["errors"][-1]["type"] == "ProviderError"
    rows = [json.loads(line) for line in (copy / "results.jsonl").read_text().splitlines()]
    marked = [each for each in rows if "truezero" in each]
    assert {each["reward"] for each in marked} == {None}


def test_a_copy_tags_every_row_of_a_session(tmp_path: Path) -> None:
    copy = check_copy("litellm", tmp_path)
    rows = json.loads((copy / "spend.json").read_text())
    with (copy / "spend.csv").open(newline="") as file:
        rows += list(csv.DictReader(file))
    tagged = [each for each in rows if "truezero:" in each["request_tags"]]
    assert tagged
    assert all("truezero" in json.loads(each["metadata"]) for each in tagged)


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
