"""Numbers, times and verdicts as text."""

from __future__ import annotations

import pytest

from classifier.rules import RULES, WARNINGS
from classifier.weighing import WEIGHED
from proxy.web import format


@pytest.mark.parametrize(
    ("share", "text"), [(1, "100%"), (0.9999, "99.9%"), (0.5, "50%"), (0, "0%"), (None, "–")]
)
def test_a_share_is_never_rounded_up_to_all(share: float | None, text: str) -> None:
    assert format.percent(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.424, "0.42 s"), (12.44, "12.4 s"), (30, "30 s"), (60, "1 min"), (200, "3 min 20 s"),
        (7500, "2 h 5 min"), (266_400, "3 d 2 h"), (None, "–"),
    ],
)  # fmt: skip
def test_seconds_are_as_long_as_they_need(value: float | None, text: str) -> None:
    assert format.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (9_999, "9,999"), (54_321, "54k"), (1_234_567, "1.2M"), (None, "–")],
)
def test_sums_are_short_and_unknown_ones_no_zero(value: float | None, text: str) -> None:
    assert format.short(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12.345, "$12.35"),
        (0.0123, "$0.0123"),
        (0, "$0.00"),
        (None, "–"),
        (2e-5, "<$0.0001"),
        (5e-5, "$0.0001"),
    ],
)
def test_money_is_said_to_the_digit_that_counts(value: float | None, text: str) -> None:
    assert format.dollars(value) == text


@pytest.mark.parametrize(
    ("past", "text"), [(1, "just now"), (59, "59 s ago"), (61, "1 min ago"), (90_000, "1 d ago")]
)
def test_times_are_told_from_now(past: float, text: str) -> None:
    assert format.ago(1e9, 1e9 + past) == text


def test_a_command_survives_a_shell() -> None:
    assert format.shell("a b'c") == """'a b'"'"'c'"""


def test_every_rule_and_warning_has_words() -> None:
    assert {rule.__name__.strip("_") for rule in RULES} == format.RULES.keys() - {"healthy"}
    assert {*(name for name, _ in WARNINGS), *WEIGHED} == format.WARNINGS.keys()


def test_a_duration_has_three_digits_and_its_unit() -> None:
    values = [0.0001234, 0.0064, 0.0719, 0.20945958200002224, 0.9996, 12.345]
    said = ["0.123 ms", "6.4 ms", "71.9 ms", "209 ms", "1.00 s", "12.3 s"]
    assert [format.took(each) for each in values] == said
