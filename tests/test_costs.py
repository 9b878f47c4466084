"""The costs of tests: choosing the cheapest slow ones, and the table by which that is done."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import costs

PROGRAM = """
import pytest, subprocess, sys
BUSY = "import time\\nwhile time.process_time() < {}: pass"

def work(): subprocess.run([sys.executable, "-S", "-c", BUSY.format(1)])

@pytest.fixture(scope="session")
def shared():
    yield
    work()

def test_cheap(): pass
def test_a_child_that_is_busy(shared): work()

@pytest.mark.slow
def test_dear(): pass
@pytest.mark.slow
def test_unknown(): pass
@pytest.mark.slow
@pytest.mark.promise
def test_kill(): pass
@pytest.mark.slow
@pytest.mark.whole
def test_for_make_all(): pass
"""


class Item(NamedTuple):
    nodeid: str


def chosen(loops: float) -> tuple[list[str], list[str]]:
    names = ("t.py::dear[1]", "t.py::new", "t.py::cheap[a::b]", "u.py::T::cheap", "t.py::dear[2]")
    table = {"t.py": {"dear": 5.0, "cheap": 0.2}, "u.py": {"T::cheap": 0.3}}  # new: 0.03
    items: Any = [Item(name) for name in names]
    kept, left = costs.cheapest(items, loops, table)
    return [each.nodeid for each in kept], [each.nodeid for each in left]


def test_the_cheapest_are_kept_up_to_so_many_loops_in_the_order_they_have() -> None:
    assert chosen(0.5) == (
        ["t.py::new", "t.py::cheap[a::b]"],
        ["t.py::dear[1]", "u.py::T::cheap", "t.py::dear[2]"],
    )
    assert chosen(5.6)[1] == ["t.py::dear[2]"]
    assert chosen(11)[1] == []
    assert chosen(0)[0] == []


def test_the_table_has_the_median_of_a_slow_function_in_loops_and_nothing_of_others() -> None:
    times = {"t.py::f[1]": 1.0, "t.py::f[2]": 2.0, "t.py::g": 9.0, "t.py::twin": 0.1}
    fast = {"tenth_s": 0.2, "tests": times}
    slow = {"tenth_s": 0.4, "tests": {"t.py::f[1]": 8.0}, "slow": ["t.py::f[1]"]}
    before = {"t.py": {"f": 8.0, "twin": 4.0, "left": 6.0}}
    table = costs.tabled([{**fast, "slow": [*times][:2] + [*times][3:]}, slow], before)
    assert table == {"t.py": {"f": 1.0, "left": 6.0}}  # of 0.5, 1.0 and 2.0; the other was not run


ROOT = Path(__file__).parent.parent
COMPILED = (ROOT / "tests/proxy/compiled.txt").read_text().split()


@pytest.mark.parametrize(
    "listed",
    [
        pytest.param(
            [f"{file}::{name}" for file, names in costs.read_table().items() for name in names],
            id="costs.json",  # `python -m tests.costs` writes it anew
        ),
        pytest.param(COMPILED, id="compiled.txt"),
    ],
)
def test_every_test_that_a_table_names_is_there(listed: list[str]) -> None:
    of = {name: name.split("::") for name in listed}
    texts = {file: (ROOT / file).read_text("utf-8") for file, *_ in of.values()}
    gone = [name for name, (file, *_, test) in of.items() if f"def {test}(" not in texts[file]]
    assert not gone


def test_what_covers_the_compiled_modules_stands_once_and_in_order() -> None:
    assert sorted(set(COMPILED)) == COMPILED


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_tells_its_overruns_and_what_it_leaves_and_fails_of_neither(
    tmp_path: Path, workers: str
) -> None:
    (tmp_path / "test_program.py").write_text(PROGRAM)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  promise\n  slow\n  whole\n")

    def run(*options: str) -> str:
        command = [sys.executable, "-m", "pytest", "-p", "tests.costs", "-n", workers, *options]
        return subprocess.run(
            command, cwd=tmp_path, env={"PYTHONPATH": str(costs.TABLE.parents[1])},
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip

    out = run("-m", "not slow", "--costs", "costs.json")
    told = out.partition("above a tenth of the calibration loop")[2]
    assert "test_program.py::test_a_child_that_is_busy" in told
    assert "test_cheap" not in told
    measured = json.loads((tmp_path / "costs.json").read_text())
    assert 0.9 < measured["tests"]["test_program.py::test_a_child_that_is_busy"] < 1.9
    out = run("-m", "slow", "--loops", "0.05", "--left", "left.txt")
    assert "2 passed" in out
    assert (tmp_path / "left.txt").read_text().splitlines() == [
        "test_program.py::test_unknown", "test_program.py::test_for_make_all",
    ]  # fmt: skip
