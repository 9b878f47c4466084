"""Comparisons and reruns as text: lists are short and say how to get the rest."""

from __future__ import annotations

from typing import Any

import pytest

from tests.truezero.models.test_reports import EMPTY
from truezero import models
from truezero.cli import output


def side(batch: str, score: float | None) -> dict[str, Any]:
    return {
        "batch": batch, "total": 20, "scoreable": 19, "scored": 19, "coverage": 0.95,
        "score_effective": score, "score_ci": None if score is None else (0.2, 0.6),
    }  # fmt: skip


def task(name: str, change: str, a: float | None, b: float | None) -> dict[str, Any]:
    scores = [
        {"score": score, "measured": int(score is not None), "repeats": 1, "rollout_ids": ["r"]}
        for score in (a, b)
    ]
    difference = None if a is None or b is None else b - a
    return {
        "task": name,
        "change": change,
        "difference": difference,
        "a": scores[0],
        "b": scores[1],
    }


def comparison(tasks: list[dict[str, Any]], **more: Any) -> models.BatchComparison:
    counts = {change: sum(each["change"] == change for each in tasks) for change in
              ("broken", "fixed", "unmeasured_b", "unchanged")}  # fmt: skip
    facts = {
        "a": side("last [night]", 0.4), "b": side("tonight", 0.5), "compared": 18, "score_a": 0.4,
        "score_b": 0.5, "difference": 0.1, "difference_ci": (-0.05, 0.25), "counts": counts,
        "without_task": 0, "tasks": tasks, "next": None,
    }  # fmt: skip
    return models.BatchComparison.model_validate({**facts, **more})


MIXED = [
    *(task(f"broken-{n}", "broken", 1.0, 0.0) for n in range(12)),
    task("fixed", "fixed", 0.0, 1.0),
    task("fake", "unmeasured_b", 1.0, None),
    task("same", "unchanged", 1.0, 1.0),
]


def test_a_comparison_says_what_it_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_comparison(comparison(MIXED), most=10)
    said = capsys.readouterr().out
    assert "difference B - A: +0.100 (95 % -0.050 to 0.250) over the 18 tasks" in said
    assert "A  last [night]  0.400  0.200 to 0.600  19 of 20" in said
    assert "broken, lower in B: 12" in said
    assert "  broken-9  1.000 → 0.000\n  and 2 more: --all lists them\n" in said
    assert "not measured in B, tonight: 1\n  fake  1.000 → –\n" in said
    assert "same" not in said
    output.print_comparison(comparison(MIXED), most=None)
    assert "broken-11" in capsys.readouterr().out


def test_batches_without_a_common_task_have_no_difference(
    capsys: pytest.CaptureFixture[str],
) -> None:
    nothing = dict.fromkeys(("score_a", "score_b", "difference", "difference_ci"))
    output.print_comparison(comparison([], compared=0, **nothing), most=10)
    assert "no task was measured in both: nothing to compare" in capsys.readouterr().out


def reruns(**lists: list[dict[str, Any]]) -> models.Reruns:
    kinds = {
        name: {"count": sum(group["count"] for group in groups), "groups": groups}
        for name, groups in lists.items()
    }
    return models.Reruns.model_validate({**EMPTY, "running": 2, **kinds})


def group(cause: str, count: int, fix: str | None = None, **item: Any) -> dict[str, Any]:
    items = [
        {"task": "a b", "repeat": n, "rollout_id": f"{cause}-{n}", "attempt": 1, "after_s": None}
        | item
        for n in range(count)
    ]
    return {"cause": cause, "fix": fix, "count": count, "items": items}


FOUND = reruns(
    transient=[group("down", 12, after_s=2.5)],
    fix_first=[group("auth:401", 1, "replace the API key", task=None, repeat=None)],
    unmeasured=[group("never_started", 1, rollout_id=None)],
)


def test_what_to_run_again_is_said_by_cause_with_what_to_fix(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output.print_reruns(FOUND, [], most=10)
    said = capsys.readouterr().out
    assert "transient: 12 (run again now)\n  down, 12\n    down-0 after 2.5 s\n" in said
    assert "    and 2 more: --ids --only transient\n" in said
    assert "  auth:401, 1: replace the API key\n    auth:401-0\n" in said
    assert "    a b, repeat 0\n" in said
    assert "2 rollouts still running" in said
    assert "skipped" not in said
    output.print_reruns(FOUND, ["skipped"], most=10)
    said = capsys.readouterr().out
    assert "skipped: 0" in said
    assert "transient" not in said


def test_nothing_to_run_again_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_reruns(reruns(), [], most=10)
    assert "b: nothing to run again" in capsys.readouterr().out


def test_ids_and_commands_are_lines_for_other_programs() -> None:
    everything = ["transient", "fix_first", "unmeasured"]
    assert len(list(output.rerun_ids(FOUND, everything))) == 13, "what never started has no id"
    assert list(output.rerun_ids(FOUND, ["fix_first"])) == ["auth:401-0"]
    (first, *_) = output.commands(FOUND, ["transient"])
    assert first == "truezero run --batch b --task 'a b' --repeat 0 --attempt 1 -- $AGENT"
    assert list(output.commands(FOUND, ["fix_first"])) == ["truezero run --batch b -- $AGENT"]
