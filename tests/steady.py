"""``make test-steady``: each file of `make test` again and again while every core is kept busy.

A round is one pytest over all files, in an order of its own; ten go round, one after the other. It
says of each at once what failed, and at the end how often, and where the output of its round is.

It is a plugin of that pytest too, which writes down what failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

_TESTS: Final = Path(__file__).parent
_FAILURES: Final = "STEADY_FAILURES"  # names the file that the plugin writes to
_BURN: Final = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down a test that failed, where its output is collected and not where it ran."""
    written = os.environ.get(_FAILURES)
    if report.failed and written and "PYTEST_XDIST_WORKER" not in os.environ:
        with Path(written).open("a") as file:
            file.write(json.dumps(f"{report.nodeid} ({report.when})") + "\n")


@contextlib.contextmanager
def burning() -> Iterator[int]:
    """A process for each core that counts without end, as important as the tests; how many."""
    cores = len(os.sched_getaffinity(0))
    burners = [subprocess.Popen([sys.executable, "-S", "-c", _BURN]) for _ in range(cores)]
    try:
        yield cores
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def tried(files: Sequence[str], output: Path, *, workers: str) -> tuple[list[str], int]:
    """Run the files once: the tests that failed, and pytest's exit status."""
    failures = output.with_suffix(".failed")
    failures.unlink(missing_ok=True)
    command = [
        sys.executable, "-m", "pytest", "-p", "tests.steady", "-p", "no:cacheprovider",
        "-n", workers, "--maxprocesses", "8", "--dist", "loadfile", "--no-loadscope-reorder",
        "-m", "not slow", "-rfE", *files,
    ]  # fmt: skip
    environment = {**os.environ, _FAILURES: str(failures), "PYTHONPATH": str(_TESTS.parent)}
    with output.open("w") as file:
        done = subprocess.run(
            command, cwd=_TESTS.parent, env=environment, stdout=file, stderr=file, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    failed = failures.read_text().splitlines() if failures.exists() else []
    failures.unlink(missing_ok=True)
    return [json.loads(line) for line in failed], done.returncode


def last_line(output: Path) -> str:
    return output.read_text(errors="replace").rstrip().rpartition("\n")[2]


def main() -> int:
    """Go round; 1 where anything failed in any round."""
    parser = argparse.ArgumentParser(prog="make test-steady", description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="rounds  [default: 10]")
    parser.add_argument("--files", nargs="*", help="files of tests  [default: all]")
    parser.add_argument("--at-once", type=int, default=1, help="rounds at once  [default: 1]")
    parser.add_argument("--workers", default="auto", help="as pytest's -n  [default: auto]")
    parser.add_argument("--seed", type=int, default=0, help="of the order of the files")
    parser.add_argument("--output", type=Path, default=_TESTS.parent / ".venv" / "steady")
    options = parser.parse_args()
    root = _TESTS.parent
    files = options.files or sorted(
        file.relative_to(root).as_posix() for file in _TESTS.rglob("test_*.py")
    )
    options.output.mkdir(parents=True, exist_ok=True)
    shuffled = random.Random(options.seed)
    failed: dict[str, list[Path]] = defaultdict(list)

    def go_round(number: int, order: Sequence[str]) -> None:
        output = options.output / f"round-{number:02}.txt"
        began = time.monotonic()
        names, status = tried(order, output, workers=options.workers)
        for name in names or ["pytest itself"] * bool(status):
            failed[name].append(output)
        took = time.monotonic() - began
        line = f"  {number:2}  {took:5.0f} s  {last_line(output)}"
        print(line, *(f"      {name}" for name in names), sep="\n", flush=True)

    with burning() as cores, ThreadPoolExecutor(options.at_once) as rounds:
        print(f"{len(files)} files, {options.times} times, {cores} cores kept busy", flush=True)
        orders = [shuffled.sample(files, len(files)) for _ in range(options.times)]
        list(rounds.map(go_round, range(1, options.times + 1), orders))
    for name, where in sorted(failed.items(), key=lambda each: -len(each[1])):
        print(f"{len(where)} of {options.times}: {name}", *where, sep="\n    ")
    print(f"{len(failed)} failed in {options.times} rounds" if failed else "steady: none failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
