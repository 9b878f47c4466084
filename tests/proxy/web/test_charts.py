"""Pictures and words: what is drawn and said is what was counted."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.control.timeline import Timeline, TimelinePoint, quantile
from proxy.web import badges, charts, format
from proxy.web.badges import CAUSES, HEALTHY, SUSPECTED


def call(n: int, **facts: Any) -> dict[str, Any]:
    return {
        "id": f"x{n}", "started_at": 100.0 + 10 * n, "duration_s": 4.0, "first_byte_s": 1.0,
        "ending": "complete", "subcategory": None, "request_digest": None, **facts,
    }  # fmt: skip


# --- bars ------------------------------------------------------------


def test_a_bar_is_filled_whole_in_proportion() -> None:
    drawn = charts.bar([(HEALTHY, 3), (CAUSES["auth"], 1), (SUSPECTED, 0)], "rollout")
    assert [(part.mark, part.count) for part in drawn.segments] == [
        (HEALTHY, 3), (CAUSES["auth"], 1),
    ]  # fmt: skip
    assert [part.x for part in drawn.segments] == [0, 75]
    assert sum(part.width for part in drawn.segments) == pytest.approx(100)
    assert drawn.label == "4 rollouts: 3 healthy, 1 auth"


def test_one_rollout_of_ten_thousand_is_still_seen() -> None:
    drawn = charts.bar([(HEALTHY, 9_999), (CAUSES["quota"], 1)], "rollout")
    assert drawn.segments[1].width > 0.5
    assert drawn.segments[1].x + drawn.segments[1].width == pytest.approx(100)


def test_every_rollout_of_a_batch_has_a_mark() -> None:
    summary = {
        "rollouts": 20,
        "health": {
            "healthy": 5, "api_error": 6, "suspected_api_error": 2, "undecided": 3, "not_judged": 1,
        },
        "subcategory": dict.fromkeys(CAUSES, 1),
    }  # fmt: skip
    counted = badges.counted(summary)
    assert sum(count for _, count in counted) == 20
    assert {mark.label: count for mark, count in counted}["open"] == 3


def test_no_two_marks_share_a_name_or_a_shape() -> None:
    kinds = [HEALTHY, SUSPECTED, badges.NOT_JUDGED, badges.UNDECIDED, *CAUSES.values()]
    assert len({mark.name for mark in kinds}) == len(kinds)
    assert len({mark.shape for mark in kinds}) == len(kinds)


# --- failures over time ------------------------------------------------------------


def moments(*failed: dict[str, int]) -> Timeline:
    found = [TimelinePoint(at=60.0 * n, calls=9, failed=counts) for n, counts in enumerate(failed)]
    return Timeline(step_s=60, moments=found)


def test_columns_stand_on_the_base_and_keep_their_proportion() -> None:
    chart = charts.chart(moments({"auth": 2, "quota": 4}, {}, {"auth": 1}))
    first, empty, last = chart.columns
    assert [(block.mark.name, block.count) for block in first.blocks] == [("auth", 2), ("quota", 4)]
    assert first.blocks[0].y + first.blocks[0].height == chart.height
    assert first.blocks[1].y + first.blocks[1].height == pytest.approx(first.blocks[0].y)
    assert first.blocks[1].height == pytest.approx(2 * first.blocks[0].height)
    assert empty.blocks == []
    assert last.blocks[0].height == pytest.approx(first.blocks[0].height / 2)
    assert (chart.most, chart.lines[-1]) == (6, (0, 6))
    assert {mark.name: n for mark, n in chart.totals} == {"auth": 3, "quota": 4}


@pytest.mark.parametrize(("most", "top"), [(1, 2), (3, 4), (6, 6), (17, 20), (21, 40), (801, 1000)])
def test_the_scale_ends_above_the_highest_column(most: int, top: int) -> None:
    assert charts.chart(moments({"auth": most})).lines[-1][1] == top


# --- waterfalls ------------------------------------------------------------


def test_calls_stand_where_they_were_in_time() -> None:
    first, second = charts.waterfall([call(0), call(1, duration_s=10.0)], [], now=0)
    assert (first.x, first.width) == pytest.approx((0, 20))
    assert (second.x, second.width) == pytest.approx((50, 50))
    assert (second.offset_s, second.number) == (10.0, 2)


def test_a_failed_call_shows_the_pause_after_it_and_what_repeats_it() -> None:
    calls = [
        call(0, subcategory="rate_limit", request_digest="d"),
        call(1, request_digest="d"),
        call(2, request_digest="e"),
    ]
    failed, repeat, other = charts.waterfall(calls, ["x0"], now=0)
    assert failed.waited_s == pytest.approx(6.0)
    assert failed.wait == pytest.approx((100 * 4 / 24, 100 * 6 / 24))
    assert (repeat.retry_of, other.retry_of, repeat.waited_s) == (1, None, None)
    assert (failed.evidence, repeat.evidence) == (True, False)


def test_a_call_in_flight_reaches_until_now() -> None:
    (open_call,) = charts.waterfall(
        [call(0, ending=None, duration_s=None, first_byte_s=None)], [], now=130.0
    )
    assert (open_call.width, open_call.mark.name) == (100, "open")


def test_nothing_called_is_no_picture() -> None:
    assert charts.waterfall([], [], now=0) == []


# --- words ------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "said"), [(1, "100%"), (0.9999, "99.9%"), (0.5, "50%"), (0, "0%"), (None, "–")]
)
def test_a_share_is_never_rounded_up_to_all(share: float | None, said: str) -> None:
    assert format.percent(share) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.424, "0.42 s"), (12.44, "12.4 s"), (30, "30 s"), (60, "1 min"), (200, "3 min 20 s"),
        (7500, "2 h 5 min"), (266_400, "3 d 2 h"), (None, "–"),
    ],
)  # fmt: skip
def test_seconds_are_as_long_as_they_need(value: float | None, said: str) -> None:
    assert format.seconds(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0"), (9_999, "9,999"), (54_321, "54k"), (1_234_567, "1.2M"), (None, "–")],
)
def test_sums_are_short_and_unknown_ones_no_zero(value: float | None, said: str) -> None:
    assert format.short(value) == said


@pytest.mark.parametrize(
    ("value", "said"), [(12.345, "$12.35"), (0.0123, "$0.0123"), (0, "$0.00"), (None, "–")]
)
def test_money_is_said_to_the_digit_that_counts(value: float | None, said: str) -> None:
    assert format.dollars(value) == said


@pytest.mark.parametrize(
    ("past", "said"), [(1, "just now"), (59, "59 s ago"), (61, "1 min ago"), (90_000, "1 d ago")]
)
def test_times_are_told_from_now(past: float, said: str) -> None:
    assert format.ago(1e9, 1e9 + past) == said


def test_a_command_survives_a_shell() -> None:
    assert format.shell("a b'c") == """'a b'"'"'c'"""


VERDICT = {
    "health": "healthy", "provisional": False, "scoreable": "yes", "doomed": False,
    "error": None, "rule": "healthy", "subcategory": None, "fingerprint": None,
    "transient": None, "total_requests": 3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "rewards", "said"),
    [
        ({}, {"reward": 0.0}, "this zero is true"),
        ({}, {"reward": 1.0}, "what it scored counts"),
        ({"provisional": True}, None, "So far the model answers"),
        (
            {"health": "api_error", "rule": "all_failed", "subcategory": "auth",
             "error": "api_error [auth, permanent]: HTTP 401 on 3 of 3 calls"},
            {"reward": 0.0},
            "(auth: HTTP 401 on 3 of 3 calls), so its score does not count",
        ),
        ({"health": "suspected_api_error", "rule": "zero_signal"}, None, "Nobody can tell"),
        ({"health": "not_judged", "rule": "not_judged"}, None, "nothing to judge"),
        ({"health": "undecided", "total_requests": 0}, None, "No call has ended yet"),
    ],
)  # fmt: skip
def test_a_verdict_is_one_plain_sentence(
    changed: dict[str, Any], rewards: dict[str, float] | None, said: str
) -> None:
    outcome = None if rewards is None else {"rewards": rewards}
    sentence = format.sentence({**VERDICT, **changed}, outcome)
    assert said in sentence
    assert sentence.endswith(".")


def test_every_rule_and_health_has_words() -> None:
    from classifier.verdicts import Health

    for health in Health:
        assert format.sentence({**VERDICT, "health": health.value}, None)


def test_a_quantile_leaves_the_unknown_out() -> None:
    assert quantile([3.0, None, 1.0, 2.0], 0.5) == 2.0
    assert quantile([5.0], 0.95) == 5.0
    assert quantile([None], 0.5) is None
