from __future__ import annotations

import json
from pathlib import Path

import pytest

from classifier.__main__ import judge_export
from classifier.verdicts import Verdict
from tests.truezero.audit.copies import check_copy
from tests.truezero.audit.harnesses import truezero
from tests.truezero.audit.scenarios import KINDS, scenarios
from truezero.audit.report import audit
from truezero.audit.runs import AuditError


def test_a_copy_is_an_export_still(tmp_path: Path) -> None:
    copy = check_copy("truezero", tmp_path) / "export.jsonl"
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


def test_an_outcome_alone_is_marked_itself(tmp_path: Path) -> None:
    outcome = {"record": "outcome", "rollout_id": "r", "status": "success", "prompts_executed": 1}
    (tmp_path / "x.jsonl").write_text(json.dumps({**outcome, "rewards": {"reward": 0.0}}) + "\n")
    found = audit(tmp_path, write=True)
    assert [run.false_zero for run in found.runs] == [True]
    written = json.loads((tmp_path.with_name(f"{tmp_path.name}.audited") / "x.jsonl").read_text())
    assert written["truezero"]["rule"] == "zero_signal"


def test_a_line_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"record": "outcome"}\n')
    with pytest.raises(AuditError, match=r"x\.jsonl: line 1: rollout_id"):
        audit(tmp_path)
