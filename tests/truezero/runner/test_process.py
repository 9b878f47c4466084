"""Signals that are passed on, an agent that is stopped as doomed, and one that did not start."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import httpx
import pytest
import respx

from tests.truezero.sdk.test_client import URL, VERDICT
from truezero import Client
from truezero.runner.run import ProcessResult, _forwarding, _Watch, not_started

GROUP = 4_000_000  # more than there can be


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Collects the signals that would reach a group."""
    signals: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "killpg", lambda group, number: signals.append((group, number)))
    return signals


@pytest.mark.parametrize(("code", "shell"), [(0, 0), (3, 3), (-signal.SIGKILL, 137), (None, 0)])
def test_a_signal_is_128_and_its_number_to_a_shell(code: int | None, shell: int) -> None:
    assert ProcessResult(agent_code=code).shell_code == shell


def test_a_command_that_is_missing_differs_from_one_that_may_not_run() -> None:
    assert not_started(FileNotFoundError()) == (127, "command not found")
    assert not_started(PermissionError()) == (126, "cannot be executed")


def test_signals_reach_the_group_and_those_that_end_are_noted(sent: list[tuple[int, int]]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with _forwarding(GROUP) as ending:
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGTERM)
    assert sent == [(GROUP, signal.SIGUSR1), (GROUP, signal.SIGTERM)]
    assert ending == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is before


class Process:
    pid = GROUP


@respx.mock
def test_a_doomed_agent_is_stopped_once_and_a_service_that_is_away_dooms_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over, sent = threading.Event(), []

    def killpg(group: int, number: int) -> None:
        sent.append((group, number))
        over.set()

    monkeypatch.setattr(os, "killpg", killpg)
    monkeypatch.setattr("truezero.runner.run._WATCH_S", 0.0)
    monkeypatch.setattr("truezero.runner.run._GRACE_S", 30.0)
    answers: list[dict[str, Any]] = [
        {"status_code": 503},
        {"json": {**VERDICT, "doomed": False}},
        {"json": {**VERDICT, "doomed": True}},
    ]
    route = respx.get(url__startswith=f"{URL}/rollouts/r/verdict")
    route.side_effect = [httpx.Response(**{"status_code": 200, **answer}) for answer in answers]
    process: Any = Process()
    with Client(URL) as client:
        watch = _Watch(process, client, "r", over)
        watch.run()
    assert (watch.stopped, route.call_count) == (True, 3)
    assert sent == [(GROUP, signal.SIGTERM)], "it ended in time, and is not killed"
