"""The time that a page is about, and its words and addresses."""

from __future__ import annotations

from proxy.web.context import read_time_range

NOW = 1_790_000_000.0


def test_a_window_ends_now() -> None:
    chosen = read_time_range(NOW, 3600, None, None)
    assert (chosen.since, chosen.until, chosen.query) == (NOW - 3600, None, "window=3600")
    assert chosen.words == "the last 1 h"
    assert chosen.named("a", "b") == {"a": "2026-09-21T13:13:20"}


def test_a_range_wins_over_a_window() -> None:
    chosen = read_time_range(NOW, 3600, NOW - 60, NOW)
    assert (chosen.since, chosen.until, chosen.window) == (NOW - 60, NOW, None)
    assert chosen.words == "2026-09-21 14:12:20 to 2026-09-21 14:13:20 UTC"
    assert chosen.query == "since=2026-09-21T14%3A12%3A20&until=2026-09-21T14%3A13%3A20"


def test_a_range_may_go_on() -> None:
    chosen = read_time_range(NOW, 3600, NOW - 60, None)
    assert chosen.words == "2026-09-21 14:12:20 to now"
    assert chosen.query == "since=2026-09-21T14%3A12%3A20"
