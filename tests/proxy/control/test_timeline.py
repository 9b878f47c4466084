"""A batch's calls over time, in steps of a round length."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.control.upstreams import build_timeline


def row(step: int, calls: int, subcategory: str | None = None) -> dict[str, Any]:
    return {"step": step, "calls": calls, "subcategory": subcategory}


def test_calls_of_a_step_are_counted_together_and_failures_by_cause() -> None:
    rows = [row(10, 3), row(10, 2, "auth"), row(10, 1, "quota"), row(11, 4)]
    timeline = build_timeline(rows, 1, 60)
    assert timeline.step_s == 1
    first, second = timeline.points
    assert (first.at, first.calls, first.failed) == (10, 6, {"auth": 2, "quota": 1})
    assert (second.at, second.calls, second.failed) == (11, 4, {})


def test_a_step_without_calls_is_a_point_too() -> None:
    timeline = build_timeline([row(0, 1), row(4, 1)], 1, 60)
    assert [(point.at, point.calls) for point in timeline.points] == [
        (0, 1), (1, 0), (2, 0), (3, 0), (4, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("last_s", "step_s"),
    [(59, 1), (100, 2), (600, 10), (3600, 60), (86_400, 1800), (10 * 86_400, 21_600),
     (400 * 86_400, 7 * 86_400)],
)  # fmt: skip
def test_the_length_of_a_step_is_round(last_s: int, step_s: int) -> None:
    timeline = build_timeline([row(0, 1), row(last_s, 1)], 1, 60)
    assert timeline.step_s == step_s
    assert sum(point.calls for point in timeline.points) == 2
    assert len(timeline.points) <= 61


def test_a_step_is_no_finer_than_the_rows() -> None:
    assert build_timeline([row(0, 1), row(1, 1)], 300, 60).step_s == 300
