"""`truezero compare`: lists are short and say how to get the rest."""

from __future__ import annotations

from typing import Any

import pytest

from truezero import models
from truezero.cli.compare import print_comparison


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
    print_comparison(comparison(MIXED), most=10)
    said = capsys.readouterr().out
    assert "difference B - A: +0.100 (95 % -0.050 to 0.250) over the 18 tasks" in said
    assert "A  last [night]  0.400  0.200 to 0.600  19 of 20" in said
    assert "lower in B: 12" in said
    assert "  broken-9  1.000 → 0.000\n  and 2 more: --all lists them\n" in said
    assert "not measured in B, tonight: 1\n  fake  1.000 → –\n" in said
    assert "same" not in said
    print_comparison(comparison(MIXED), most=None)
    assert "broken-11" in capsys.readouterr().out


def test_batches_without_a_common_task_have_no_difference(
    capsys: pytest.CaptureFixture[str],
) -> None:
    nothing = dict.fromkeys(("score_a", "score_b", "difference", "difference_ci"))
    print_comparison(comparison([], compared=0, **nothing), most=10)
    assert "no task was measured in both: nothing to compare" in capsys.readouterr().out
