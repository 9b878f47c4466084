"""Charts show what was counted."""

from __future__ import annotations

import pytest

from proxy.control.upstreams import Timeline, TimelinePoint
from proxy.web import charts
from proxy.web.badges import CAUSES, HEALTHY, SUSPECTED

# --- bars ------------------------------------------------------------


def test_a_bar_is_filled_whole_in_proportion() -> None:
    drawn = charts.bar([(HEALTHY, 3), (CAUSES["auth"], 1), (SUSPECTED, 0)], "rollout")
    assert [(part.badge, part.count) for part in drawn.segments] == [
        (HEALTHY, 3), (CAUSES["auth"], 1),
    ]  # fmt: skip
    assert [part.x for part in drawn.segments] == [0, 75]
    assert sum(part.width for part in drawn.segments) == pytest.approx(100)
    assert drawn.label == "4 rollouts: 3 healthy, 1 auth"


def test_one_rollout_of_ten_thousand_is_still_seen() -> None:
    drawn = charts.bar([(HEALTHY, 9_999), (CAUSES["quota"], 1)], "rollout")
    assert drawn.segments[1].width > 0.5
    assert drawn.segments[1].x + drawn.segments[1].width == pytest.approx(100)


# --- failures over time ------------------------------------------------------------


def timeline(*failed: dict[str, int]) -> Timeline:
    points = [TimelinePoint(at=60.0 * n, calls=9, failed=counts) for n, counts in enumerate(failed)]
    return Timeline(step_s=60, points=points)


def test_columns_stand_on_the_base_and_keep_their_proportion() -> None:
    chart = charts.chart(timeline({"auth": 2, "quota": 4}, {}, {"auth": 1}))
    first, empty, last = chart.columns
    assert [(block.badge.name, block.count) for block in first.blocks] == [
        ("auth", 2),
        ("quota", 4),
    ]
    assert first.blocks[0].y + first.blocks[0].height == chart.height
    assert first.blocks[1].y + first.blocks[1].height == pytest.approx(first.blocks[0].y)
    assert first.blocks[1].height == pytest.approx(2 * first.blocks[0].height)
    assert empty.blocks == []
    assert last.blocks[0].height == pytest.approx(first.blocks[0].height / 2)
    assert (chart.most, chart.lines[-1]) == (6, (0, 6))
    assert {badge.name: n for badge, n in chart.totals} == {"auth": 3, "quota": 4}


@pytest.mark.parametrize(("most", "top"), [(1, 2), (3, 4), (6, 6), (17, 20), (21, 40), (801, 1000)])
def test_the_scale_ends_above_the_highest_column(most: int, top: int) -> None:
    assert charts.chart(timeline({"auth": most})).lines[-1][1] == top


def test_answered_calls_stand_on_the_failed_ones() -> None:
    drawn = charts.chart(timeline({"auth": 2}, {}), answered=True, height=90)
    first, second = drawn.columns
    assert [(block.badge, block.count) for block in first.blocks] == [
        (CAUSES["auth"], 2), (HEALTHY, 7),
    ]  # fmt: skip
    assert [(block.badge, block.count) for block in second.blocks] == [(HEALTHY, 9)]
    assert (drawn.height, first.blocks[0].y + first.blocks[0].height) == (90, 90)
    assert drawn.label.endswith("2 auth, 16 healthy")
