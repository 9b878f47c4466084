"""What no machine changes: opcodes and Python calls, and processor instructions by callgrind.

Instructions are those of the process that serves, counted by callgrind over so many exchanges one
after another: what one takes that is only warmed up is taken off. So a ratio to nginx is one of
work, and the same on each processor; caches and branch prediction have no part in it.
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
from benchmarks.rows import Numbers, Round

COUNTED = ("truezero", "compiled", "nginx")
_PATIENCE_S = 180  # under valgrind all takes some fifty times as long
_MANY = 200
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
    """Return the instructions of an exchange, for who is installed.

    Raises:
        RuntimeError: there is no valgrind, or it counted nothing.
    """
    if shutil.which("valgrind") is None:
        raise RuntimeError("valgrind is not installed (Debian: apt-get install valgrind)")
    found: Round = {}
    for name in COUNTED:
        with contextlib.suppress(FileNotFoundError):
            base = _total(bench, name)
            found[name] = {
                "exchange": (_total(bench, name, *_EXCHANGES) - base) / _MANY,
            }
    return found


def _total(bench: Bench, name: str, *options: str) -> int:
    """Return the instructions from start to end, of a process warmed up and then asked so."""
    with tempfile.TemporaryDirectory() as folder:
        under = ("valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/%p")
        stage = dataclasses.replace(bench.stage, under=under, patience_s=_PATIENCE_S)
        with subjects.STANDS[name](stage) as subject:
            bench.ask(subject, *_WARM)
            if options:
                bench.ask(subject, *options)
        totals = [_TOTALS.search(file.read_text()) for file in Path(folder).iterdir()]
    if not any(totals):
        raise RuntimeError(f"{name}: valgrind counted nothing")
    return sum(int(found[1]) for found in totals if found)


_TOTALS = re.compile(r"^totals: (\d+)", re.MULTILINE)
