"""Lists as tables: what is unknown is a dash, and names cannot draw."""

from __future__ import annotations

from typing import Any

import pytest

from tests.proxy.api.test_list_formats import BARE
from truezero import models
from truezero.cli import output


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "180")


def test_a_pipe_gets_each_rollout_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    one = models.RolloutItem.model_validate({**BARE, "id": "r" * 200, "batch": "b" * 100})
    output.print_rollouts([one], more=False)
    _, line = capsys.readouterr().out.splitlines()
    assert line.split()[:2] == ["r" * 200, "b" * 100]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120])
def test_a_narrow_terminal_leaves_out_columns_and_breaks_no_name(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    facts = {
        "id": "swe-nightly-2026-11-24-task-123-0", "batch": "swe-nightly-2026-11-24",
        "task": "task-123", "health": "suspected_api_error", "fingerprint": "suspected:zero_signal",
        "total_tokens": 12_345, "cost_usd": 0.5,
    }  # fmt: skip
    output.print_rollouts([models.RolloutItem.model_validate({**BARE, **facts})], more=False)
    head, line = capsys.readouterr().out.splitlines()
    names = head.split()
    assert names[0] == "rollout"
    assert "reward" in names
    assert line.startswith("swe-nightly-2026-11-24-task-123-0 ")
    for column, cell in (("batch", facts["batch"]), ("health", facts["health"])):
        assert (f" {cell} " in line) is (column in names)
    assert len(line) <= max(width, len("swe-nightly-2026-11-24-task-123-0  reward"))


def test_a_rollout_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    facts = {
        "id": "r[1]\x1b", "batch": "b", "task": "t", "repeat": 2, "health": "api_error",
        "fingerprint": "auth:401", "total_tokens": 12_345, "cost_usd": 0.5, "created_at": 86_400,
    }  # fmt: skip
    items = [models.RolloutItem.model_validate({**BARE, **each}) for each in (facts, {"reward": 0})]
    output.print_rollouts(items, more=True)
    head, one, other, more = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["rollout", "batch", "task", "health"]
    assert one.split("  ")[0].startswith("r[1]")
    assert "\x1b" not in one
    for said in ("t #2", "api_error", "auth:401", "12,345", "$0.5000", "1970-01-02 00:00:00"):
        assert said in one
    assert other.split()[-6:-2] == ["–", "0", "–", "–"]
    assert "--limit" in more


def test_a_batch_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    counts: dict[str, Any] = dict.fromkeys(models.BatchItem.model_fields, 7)
    facts = {**counts, "batch": "b", "health": {}, "score_effective": 0.5, "score_ci": (0.25, 0.75),
             "valid": False, "cost_usd": None,
             "zeros": {"reported": 5, "not_measured": 2, "by_cause": {"auth": 2}}}  # fmt: skip
    output.print_batches([models.BatchItem.model_validate(facts)], more=False)
    _, line = capsys.readouterr().out.splitlines()
    for said in ("7 of 7", "2 of 5 zeros", "0.500", "0.250 to 0.750", " no ", " – "):
        assert said in line


def test_nothing_is_said_to_be_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_rollouts([], more=False)
    output.print_batches([], more=False)
    assert capsys.readouterr().out.split("\n") == ["no rollouts", "no batches", ""]
