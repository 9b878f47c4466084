"""What no machine changes: opcodes and Python calls, and processor instructions by callgrind.

Instructions are those of the process that serves, counted by callgrind over so many exchanges one
after another, once it is warmed up. Caches and branch prediction have no part in it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import subjects
from benchmarks.load import Bench
from benchmarks.rows import OURS, Numbers, Round
from benchmarks.subjects import Subject

_PATIENCE_S = 180  # under valgrind all takes some fifty times as long
_MANY = 200
_ROUNDS = 3  # the least counts: in one of the first the table of prices is loaded, by the metrics
_ONE_BY_ONE = ("-c", "1", "-d", str(_PATIENCE_S))
_WARM, _EXCHANGES = (*_ONE_BY_ONE, "-n", "100"), (*_ONE_BY_ONE, "-n", str(_MANY))
_NAMES = {"a plain exchange": "exchange", "a chunk of a stream": "chunk"}


def counts(bench: Bench) -> Numbers:
    """Return opcodes and Python calls of what the hot path does, by `benchmarks.counts`."""
    command = [bench.stage.python or sys.executable, "-m", "benchmarks.counts", "--json"]
    env = subjects.clean_env() | {"PYTHONPATH": subjects.python_path(bench.stage.python)}
    done = subprocess.run(command, env=env, cwd=subjects.ROOT, capture_output=True, check=True)
    numbers: Numbers = {}
    for what, (opcodes, calls) in json.loads(done.stdout).items():
        name = _NAMES.get(what, "large" if "kB" in what else "stream")
        numbers |= {f"{name}_opcodes": opcodes, f"{name}_calls": calls}
    return numbers


def instructions(bench: Bench) -> Round:
    """Return the instructions of an exchange, of truezero and its compiled copy.

    Raises:
        RuntimeError: there is no valgrind, or it counted nothing.
    """
    if shutil.which("valgrind") is None:
        raise RuntimeError("valgrind is not installed (Debian: apt-get install valgrind)")
    found: Round = {}
    for name in OURS:
        with contextlib.suppress(FileNotFoundError), tempfile.TemporaryDirectory() as folder:
            under = ("valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/%p")
            stage = dataclasses.replace(bench.stage, under=under, patience_s=_PATIENCE_S)
            with subjects.STANDS[name](stage) as subject:
                bench.ask(subject, *_WARM)
                dumped(subject, Path(folder))
                rounds = [_round(bench, subject, Path(folder)) for _ in range(_ROUNDS)]
                found[name] = {"exchange": min(rounds) / _MANY}
    return found


def _round(bench: Bench, subject: Subject, folder: Path) -> int:
    bench.ask(subject, *_EXCHANGES)
    return dumped(subject, folder)


def dumped(subject: Subject, folder: Path) -> int:
    """Return the instructions since the last dump.

    Raises:
        RuntimeError: callgrind wrote none.
    """
    before = set(folder.iterdir())
    command = ["callgrind_control", "--dump", str(subject.pid)]
    subprocess.run(command, capture_output=True, check=True)
    for file in set(folder.iterdir()) - before:
        if (total := _TOTALS.search(file.read_text())) and int(total[1]):
            return int(total[1])
    raise RuntimeError(f"{subject.name}: callgrind counted nothing")


_TOTALS = re.compile(r"^totals: (\d+)", re.MULTILINE)
