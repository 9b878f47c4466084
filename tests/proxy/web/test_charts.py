"""Charts show what was counted."""

from __future__ import annotations

import re

import pytest

from proxy.control.upstreams import Latencies, TimelinePoint, UpstreamPoint
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


# --- along time ------------------------------------------------------------


def points(*failed: dict[str, int], calls: int = 9) -> list[TimelinePoint]:
    return [
        TimelinePoint(at=60.0 * n, calls=calls, failed=counts) for n, counts in enumerate(failed)
    ]


def blocks(chart: charts.TimeChart, badge: str) -> list[tuple[float, float, float]]:
    """Where the columns of a badge begin from the left and from the top, and their heights."""
    (path,) = [path for each, path in chart.plot.paths if each.name == badge]
    numbers = re.findall(r"M([\d.]+) ([\d.]+)h[\d.]+v([\d.]+)h-[\d.]+z", path)
    return [(float(x), float(y), float(tall)) for x, y, tall in numbers]


def test_failed_calls_stand_on_the_base_before_all_calls() -> None:
    chart = charts.failures(points({"auth": 2, "quota": 4}, {}, {"auth": 1}, calls=10), 60)
    (x, y, tall), (later, _, half) = blocks(chart, "auth")
    ((beside, above, twice),) = blocks(chart, "quota")
    assert (x, later) == pytest.approx((beside, x + 2000 / 3), abs=0.1)
    assert (y + tall, above + twice) == (chart.height, y)
    assert (twice, half) == (2 * tall, tall / 2)
    assert {(y, tall) for _, y, tall in blocks(chart, "all-calls")} == {(0, chart.height)}
    assert len(blocks(chart, "all-calls")) == 3
    behind, _ = chart.plot.paths[0]
    assert behind.name == "all-calls"
    assert chart.lines == [(120, "0"), (60, "5"), (0, "10")]


def test_a_table_has_the_values_of_each_step_and_of_all() -> None:
    chart = charts.failures(points({"auth": 2, "quota": 4}, {}, {"auth": 1}, calls=1000), 60)
    assert chart.heads == ["auth", "quota", "all calls"]
    assert [step.values for step in chart.steps] == [
        ["2", "4", "1,000"], ["0", "0", "1,000"], ["1", "0", "1,000"],
    ]  # fmt: skip
    assert [step.failed for step in chart.steps] == [6, 0, 1]
    assert chart.whole == ["3", "4", "3,000"] == [count for _, count in chart.plot.totals]
    assert chart.plot.label.endswith("3 auth, 4 quota, 3,000 all calls")
    assert (chart.start, chart.end) == (0, 180)


def test_one_failed_call_of_a_thousand_is_still_seen() -> None:
    chart = charts.failures(points({"auth": 1}, calls=1000), 60)
    ((_, y, tall),) = blocks(chart, "auth")
    assert tall >= 1
    assert y + tall == chart.height


def test_few_calls_are_seen_to_be_more_than_those_that_failed() -> None:
    chart = charts.failures(
        [
            TimelinePoint(at=0.0, calls=3, failed={"auth": 1, "quota": 1}),
            TimelinePoint(at=60.0, calls=1, failed={"auth": 1}),
            TimelinePoint(at=120.0, calls=1000, failed={}),
        ],
        60,
    )
    (_, some, _), (_, all_of_one, _), _ = blocks(chart, "all-calls")
    (_, of_one, _) = blocks(chart, "auth")[1]
    ((_, highest, _),) = blocks(chart, "quota")
    assert some < highest
    assert all_of_one == of_one


@pytest.mark.parametrize(("most", "top"), [(1, 2), (3, 4), (6, 6), (17, 20), (21, 40), (801, 1000)])
def test_the_scale_ends_above_the_highest_column(most: int, top: int) -> None:
    chart = charts.failures(points({"auth": 1}, calls=most), 60)
    assert chart.lines[-1] == (0, f"{top:,}")


WHOLE = Latencies(
    calls=1, first_byte_p50_s=0.3, first_byte_p95_s=0.5, duration_p50_s=3.0, duration_p95_s=4.0
)


def latencies(p50: float | None, p95: float | None) -> charts.TimeChart | None:
    known = UpstreamPoint(at=60, calls=1, failed={}, first_byte_p50_s=p50, first_byte_p95_s=p95)
    unknown = UpstreamPoint(at=0, calls=0, failed={})
    return charts.latencies([unknown, known], 60, WHOLE)


def test_first_bytes_are_drawn_only_where_they_are_known() -> None:
    chart = latencies(1.0, 2.0)
    assert chart is not None
    assert {badge.name: path for badge, path in chart.plot.paths} == {
        "p50": "M500.0 33.0h500.0", "p95": "M500.0 0.0h500.0",
    }  # fmt: skip
    assert [step.values for step in chart.steps] == [["–", "–"], ["1.00 s", "2.00 s"]]
    assert chart.whole == ["0.30 s", "0.50 s"]
    assert latencies(None, None) is None


@pytest.mark.parametrize(
    ("most", "lines"),
    [
        (0.0, ["0", "1 s"]),
        (0.07, ["0", "0.05 s", "0.1 s"]),
        (0.3, ["0", "0.1 s", "0.2 s", "0.3 s"]),
        (1.54, ["0", "1 s", "2 s"]),
        (42.0, ["0", "20 s", "40 s", "60 s"]),
        (700.0, ["0", "500 s", "1000 s"]),
    ],
)
def test_the_axis_of_latencies_has_round_seconds_from_zero(most: float, lines: list[str]) -> None:
    chart = latencies(most, most)
    assert chart is not None
    assert [text for _, text in chart.lines] == lines
    heights = [y for y, _ in chart.lines]
    assert heights == sorted(heights, reverse=True)
    assert (heights[0], heights[-1]) == (chart.height, 0)
