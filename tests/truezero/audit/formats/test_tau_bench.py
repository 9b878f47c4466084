"""tau-bench: an exception is a reward of 0.0 there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.truezero.audit.harnesses import dump
from truezero.audit.formats import format_of
from truezero.audit.report import audit

NAME = "tool-calling-lab/m-1-0.0_range_0--1_user-other-llm_0612073827.json".replace("/", "_")
TALK = [
    {"role": "system", "content": "# Policy"},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c1", "name": "find", "content": "none"},
    {"role": "assistant", "content": "There is none."},
]  # fmt: skip


def run(task: int, *, reward: float, trial: int = 0, raised: str | None = None) -> dict[str, Any]:
    """Return a run as `EnvRunResult.model_dump` writes it."""
    info: dict[str, Any] = {"task": {"user_id": "u"}, "source": "user", "user_cost": 0.01}
    if raised is not None:
        trace = f'Traceback (most recent call last):\n  File "run.py", line 9, in _run\n{raised}\n'
        info = {"error": raised.partition(": ")[2], "traceback": trace}
    traj = [] if raised else TALK
    return {"task_id": task, "reward": reward, "info": info, "traj": traj, "trial": trial}


RUNS = [
    run(0, reward=1.0),
    run(0, reward=0.0, trial=1),
    run(1, reward=0.0, raised="litellm.exceptions.RateLimitError: slow down"),
    run(2, reward=0.0, raised="KeyError: 'reservation_id'"),
]


def test_conversations_are_answers_and_an_exception_is_read_by_its_class(tmp_path: Path) -> None:
    dump(tmp_path / NAME, RUNS)
    assert format_of(tmp_path).name == "tau-bench"
    report = audit(tmp_path)
    assert [(r.task, r.repeat, r.reward, r.verdict.health.value) for r in report.runs] == [
        ("0", 0, 1.0, "healthy"),
        ("0", 1, 0.0, "healthy"),
        ("1", 0, 0.0, "api_error"),
        ("2", 0, 0.0, "undecided"),
    ]
    assert report.runs[0].verdict.total_requests == 2
    assert {each.model for each in report.runs} == {"lab_m-1"}
    assert [each.task for each in report.false_zeros] == ["1"]


def test_a_copy_takes_the_reward_and_keeps_what_it_was(tmp_path: Path) -> None:
    dump(tmp_path / "runs" / "a.json", RUNS)
    audit(tmp_path / "runs", write=True)
    copy = tmp_path / "runs.audited"
    written = json.loads((copy / "a.json").read_text())
    assert [each["reward"] for each in written] == [1.0, 0.0, None, 0.0]
    assert [each.task for each in audit(copy).false_zeros] == ["1"]
