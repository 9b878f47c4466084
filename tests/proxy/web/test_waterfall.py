"""Calls stand where they were in time, in the list and on the timeline of all."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.web import badges
from proxy.web.badges import CAUSES, HEALTHY
from proxy.web.charts import WIDTH, call_timeline, waterfall


def call(n: int, **facts: Any) -> dict[str, Any]:
    return {
        "id": f"x{n}", "started_at": 100.0 + 10 * n, "duration_s": 4.0, "first_byte_s": 1.0,
        "ending": "complete", "subcategory": None, "request_digest": None, **facts,
    }  # fmt: skip


def test_calls_stand_where_they_were_in_time() -> None:
    first, second = waterfall([call(0), call(1, duration_s=10.0)], [], now=0)
    assert (first.x, first.width) == pytest.approx((0, 20))
    assert (second.x, second.width) == pytest.approx((50, 50))
    assert (second.offset_s, second.number) == (10.0, 2)


def test_a_failed_call_shows_the_pause_after_it_and_what_repeats_it() -> None:
    calls = [
        call(0, subcategory="rate_limit", request_digest="d"),
        call(1, request_digest="d"),
        call(2, request_digest="e"),
    ]
    failed, repeat, other = waterfall(calls, ["x0"], now=0)
    assert failed.waited_s == pytest.approx(6.0)
    assert failed.wait == pytest.approx((100 * 4 / 24, 100 * 6 / 24))
    assert (repeat.retry_of, other.retry_of, repeat.waited_s) == (1, None, None)
    assert (failed.evidence, repeat.evidence) == (True, False)


def test_a_call_in_flight_reaches_until_now() -> None:
    (open_call,) = waterfall(
        [call(0, ending=None, duration_s=None, first_byte_s=None)], [], now=130.0
    )
    assert (open_call.width, open_call.badge.name) == (100, "open")


def test_a_finding_marks_the_calls_that_show_it() -> None:
    found = [{"level": "suspect", "check": "starved", "evidence": ["x1"]}]
    first, second = waterfall([call(0), call(1)], [], now=0, findings=found)
    assert (first.findings, second.findings) == ([], [(badges.LEVELS["suspect"], "starved")])


def test_no_calls_are_no_waterfall() -> None:
    assert waterfall([], [], now=0) == []


def test_only_the_calls_shown_are_drawn_where_they_are_among_all() -> None:
    calls = [call(0, subcategory="auth", request_digest="d"), call(1), call(2, request_digest="d")]
    shown = {"x2": {**calls[2], "model": "gpt-5"}}
    (last,) = waterfall(calls, [], now=0, details=shown)
    assert (last.number, last.retry_of, last.call["model"]) == (3, 1, "gpt-5")
    assert (last.x, last.offset_s) == pytest.approx((100 * 20 / 24, 20.0))


def test_a_timeline_has_a_stroke_for_each_call_at_the_second_it_began() -> None:
    calls = [call(n, role="agent") for n in range(3)]
    calls[1]["subcategory"] = "quota"
    calls.append(call(3, role="judge", subcategory="auth"))
    drawn = call_timeline(calls, now=0)
    assert [*drawn.rows] == ["agent", "judge"]
    agent, label = drawn.rows["agent"]
    assert [(badge, path.count("M")) for badge, path in agent] == [
        (HEALTHY, 2), (CAUSES["quota"], 1),
    ]  # fmt: skip
    assert label == "3 calls of the agent over 34.0 s: 2 answered, 1 quota"
    assert drawn.rows["judge"][0][0][1].startswith("M882 0"), "30 of 34 s, as tall as failures are"
    assert drawn.ticks[:2] == [(0.0, "0 s"), (pytest.approx(100 * 10 / 34), "10 s")]
    assert dict(drawn.legend) == {HEALTHY: 2, CAUSES["quota"]: 1, CAUSES["auth"]: 1}


def test_a_timeline_of_many_calls_has_no_more_strokes_than_it_is_wide() -> None:
    calls = [call(n, role="agent", subcategory="auth" if n == 777 else None) for n in range(9000)]
    drawn = call_timeline(calls, now=0)
    strokes = {badge: path.count("M") for badge, path in drawn.rows["agent"][0]}
    assert strokes[CAUSES["auth"]] == 1
    assert strokes[HEALTHY] <= WIDTH + 1
    assert dict(drawn.legend) == {HEALTHY: 8999, CAUSES["auth"]: 1}
