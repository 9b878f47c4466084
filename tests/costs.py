"""The cost of each test in CPU seconds, its child processes among them: which are slow, and dear.

A machine's speed is taken out by the calibration loop: `make test` holds tests of up to a tenth of
it, and what is above is marked slow. An overrun is told, and fails nothing.

``--costs=FILE`` writes what each test cost; ``python -m tests.costs FILE`` takes the slow ones'
into `costs.json`, by which ``--loops N`` chooses: the cheapest slow tests, up to N calibration
loops in all, and whatever is marked ``promise``. What it leaves to `make all` is told at the end,
and written to ``--left=FILE``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import forked

CALIBRATION = 40_000_000
TABLE = Path(__file__).with_suffix(".json")
_SHARE = 10  # of the calibration loop a test of `make test` may cost: 1 / _SHARE
_OTHERS = 0.03  # loops of a slow test that the table does not name: most are PostgreSQL twins
_STARTED = pytest.StashKey[float]()
_ENDS = pytest.StashKey[str]()
_COST = "cpu_s"
_LEFT = pytest.StashKey[list[str]]()
_LEFT_OF_WORKER = "left_to_make_all"

Table = dict[str, dict[str, float]]  # by file and function, the calibration loops of one test


def tenth_s() -> float:
    """CPU seconds of a tenth of the calibration loop, `sum(i * i for i in range(40_000_000))`."""
    began = time.process_time()
    sum(i * i for i in range(CALIBRATION // _SHARE))
    return time.process_time() - began


def _spent() -> float:
    """CPU seconds of this process, its threads and the children it has waited for."""
    return sum(os.times()[:4]) + forked.cpu_s()


def _place(nodeid: str) -> tuple[str, str]:
    """The file of a test, and its function without parameters."""
    file, _, name = nodeid.partition("::")
    return file, name.partition("[")[0]


# --- choosing --------------------------------------------------------------------------------


def cheapest(
    items: Sequence[pytest.Item], loops: float, table: Mapping[str, Mapping[str, float]]
) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Divide tests into the cheapest, up to so many loops in all, and the others.

    Those that are kept stay in their order.
    """

    def cost(item: pytest.Item) -> float:
        file, function = _place(item.nodeid)
        return table.get(file, {}).get(function, _OTHERS)

    kept, used = set(), 0.0
    for item in sorted(items, key=cost):
        used += cost(item)
        if used > loops:
            break
        kept.add(item)
    return [i for i in items if i in kept], [i for i in items if i not in kept]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    loops = config.getoption("--loops")
    if loops is None:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    ours = [item for item in slow if not item.get_closest_marker("whole")]
    promised = {item for item in ours if item.get_closest_marker("promise")}
    cheap, _ = cheapest([item for item in ours if item not in promised], loops, read_table())
    chosen = promised.union(cheap)
    kept = [item for item in ours if item in chosen]
    left = [item.nodeid for item in slow if item not in chosen]
    config.stash[_LEFT] = left
    getattr(config, "workeroutput", {})[_LEFT_OF_WORKER] = left
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = kept


def read_table() -> Table:
    table: Table = json.loads(TABLE.read_text("utf-8"))
    return table


# --- measuring -------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", type=Path, metavar="FILE", help="write each test's CPU seconds")
    parser.addoption(
        "--loops", type=float, metavar="N", help="of slow tests the cheapest, N loops in all"
    )
    parser.addoption("--left", type=Path, metavar="FILE", help="write what --loops leaves out")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    item.stash[_STARTED] = _spent()
    item.stash[_ENDS] = "call" if nextitem is None else "teardown"
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test ends with its teardown, where a service it started ends too.

    In the last test's ends what all have shared, such as PostgreSQL: it ends with its call.
    """
    report = yield
    if call.when == item.stash[_ENDS]:
        report.user_properties.append((_COST, _spent() - item.stash[_STARTED]))
    return report


class Costs:
    """The costs of a run, gathered where its tests are handed out."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._file: Path | None = config.getoption("--costs")
        self._left_file: Path | None = config.getoption("--left")
        self._of: dict[str, float] = {}
        self._slow: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == _COST and isinstance(value, float):
                self._of[report.nodeid] = value
                if "slow" in report.keywords:
                    self._slow.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        left = getattr(node, "workeroutput", {}).get(_LEFT_OF_WORKER)
        if left is not None:
            self._config.stash[_LEFT] = left

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        limit_s = tenth_s() if self._of else 0.0
        if self._file:
            ordered = sorted(self._of.items(), key=lambda item: -item[1])
            costs = {test: round(cost, 4) for test, cost in ordered}
            measured = {"tenth_s": limit_s, "tests": costs, "slow": sorted(self._slow)}
            self._file.write_text(json.dumps(measured, indent=1) + "\n", "utf-8")
        if self._left_file:
            left = self._config.stash.get(_LEFT, [])
            self._left_file.write_text("".join(f"{test}\n" for test in left), "utf-8")
        over = {t: c for t, c in self._of.items() if c > limit_s and t not in self._slow}
        if over:
            terminalreporter.section("above a tenth of the calibration loop")
            for test, cost in sorted(over.items(), key=lambda item: -item[1]):
                terminalreporter.line(f"{cost:6.2f} of {limit_s:.2f} CPU s  {test}")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Costs(config))


# --- the table -------------------------------------------------------------------------------


def tabled(measured: Iterable[Mapping[str, Any]], before: Table) -> Table:
    """Make the table of slow tests from what ``--costs`` wrote: medians, in calibration loops.

    It names what costs above a tenth of one; what was not run keeps its cost of before.
    """
    of: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for run in measured:
        for test in run["slow"]:
            of[_place(test)].append(run["tests"][test] / run["tenth_s"] / _SHARE)
    costs = {(file, name): loops for file, names in before.items() for name, loops in names.items()}
    costs |= {place: round(statistics.median(of[place]), 1) for place in of}
    table: Table = {}
    for file, function in sorted(costs):
        if costs[file, function] > 1 / _SHARE:
            table.setdefault(file, {})[function] = costs[file, function]
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the table anew."""
    parser = argparse.ArgumentParser(prog="python -m tests.costs", description=__doc__)
    parser.add_argument("measured", type=Path, nargs="+", metavar="FILE")
    files: list[Path] = parser.parse_args(arguments).measured
    table = tabled((json.loads(file.read_text("utf-8")) for file in files), read_table())
    TABLE.write_text(json.dumps(table, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
