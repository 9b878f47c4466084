"""What each test costs in CPU seconds, its child processes among them, and which cost too much.

A machine's speed is taken out by a calibration loop: `make test` holds tests of up to a tenth of
it, and what is above is marked slow. An overrun is told, and fails nothing.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests import forked

CALIBRATION = 40_000_000
_SHARE = 10  # of the calibration loop a test of `make test` may cost: 1 / _SHARE
_STARTED = pytest.StashKey[float]()
_COST = "cpu_s"


def tenth_s() -> float:
    """CPU seconds of a tenth of the calibration loop, `sum(i * i for i in range(40_000_000))`."""
    began = time.process_time()
    sum(i * i for i in range(CALIBRATION // _SHARE))
    return time.process_time() - began


def _spent() -> float:
    """CPU seconds of this process, its threads and the children it has waited for."""
    return sum(os.times()[:4]) + forked.cpu_s()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--costs", type=Path, metavar="FILE", help="write each test's CPU seconds there, as JSON"
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[_STARTED] = _spent()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test ends with its teardown, where a service it started ends too."""
    report = yield
    if call.when == "teardown":
        report.user_properties.append((_COST, _spent() - item.stash[_STARTED]))
    return report


class Costs:
    """The costs of a run, gathered where its tests are handed out."""

    def __init__(self, limit_s: float, file: Path | None) -> None:
        self._limit_s = limit_s
        self._file = file
        self._of: dict[str, float] = {}
        self._slow: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == _COST and isinstance(value, float):
                self._of[report.nodeid] = value
                if "slow" in report.keywords:
                    self._slow.add(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._file:
            ordered = sorted(self._of.items(), key=lambda item: -item[1])
            costs = {test: round(cost, 4) for test, cost in ordered}
            self._file.write_text(json.dumps({"tenth_s": self._limit_s, "tests": costs}, indent=1))
        over = {t: c for t, c in self._of.items() if c > self._limit_s and t not in self._slow}
        if over:
            terminalreporter.section("above a tenth of the calibration loop")
            for test, cost in sorted(over.items(), key=lambda item: -item[1]):
                terminalreporter.line(f"{cost:6.2f} of {self._limit_s:.2f} CPU s  {test}")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Costs(tenth_s(), config.getoption("--costs")))
