"""What befalls requests is counted by cause, and logged once a second each."""

from __future__ import annotations

import logging

import pytest

from proxy.inbound.asgi import INTERVAL_S, RefusalCounter, refused_calls, refused_requests


def test_each_cause_is_logged_once_a_second_with_what_was_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 100.0
    log = RefusalCounter("it was ", clock=lambda: now)
    for _ in range(3):
        log.note("wet")
    log.note("cold")
    now += INTERVAL_S * 0.9
    log.note("wet")
    now += INTERVAL_S * 0.1
    log.note("wet")
    log.note("cold")
    assert caplog.messages == [
        "it was wet", "it was cold", "it was wet (3 more unlogged)", "it was cold",
    ]  # fmt: skip
    assert log.counts == {"wet": 5, "cold": 2}


def test_a_line_has_the_level_it_is_given(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="truezero"):
        refused_requests().note("invalid")
        refused_calls().note("bad_path")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "refused a control request: invalid"),
        ("WARNING", "refused an agent's request: bad_path"),
    ]
