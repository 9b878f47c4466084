"""The monthly partitions that are wanted; test_postgres.py has calls in them."""

from __future__ import annotations

from datetime import UTC, datetime

from proxy.store.partitions import begin, wanted


def at(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[misc, arg-type]


def test_this_month_and_the_next_two_are_wanted_across_the_year() -> None:
    months = wanted(at(2026, 11, 30, 23, 59, 59))
    assert [month.name for month in months] == [
        "exchanges_2026_11", "exchanges_2026_12", "exchanges_2027_01",
    ]  # fmt: skip
    assert months[0].start == at(2026, 11, 1)
    assert [month.end for month in months[:-1]] == [month.start for month in months[1:]]


def test_a_month_begins_at_midnight_utc_of_its_first_day() -> None:
    for moment in (at(2028, 2, 1), at(2028, 2, 29, 23, 59, 59)):
        assert begin(moment) == at(2028, 2, 1)
