"""What it costs to keep and move a database: time and memory of each command, by its size.

    python -m benchmarks.moving [--exchanges 100000 1000000]

Each command runs once as users run it, its start included, on rollouts of 1,000 calls; what others
do on the machine lengthens the seconds, but hardly the seconds of CPU. PostgreSQL
is a server of its own in a temporary folder, without fsync, where its binaries are installed.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.machine import description
from benchmarks.verdicts import PER_ROLLOUT, fill
from proxy.store.database import Database
from tests.postgres import Server, binaries

FULL = ("export", "--full", "--database", "a.db", "--out")
COPY = ("db", "copy", "--from", "a.db", "--to")
COMMANDS: tuple[tuple[str, ...], ...] = (
    (*FULL, "a.jsonl"),
    ("import", "a.jsonl", "--database", "b.db"),
    ("import", "a.jsonl", "--database", "b.db"),
    (*FULL, "a", "--format", "parquet"),
    ("import", "a", "--database", "c.db"),
    (*COPY, "d.db"),
    (*COPY, "d.db", "--verify-only"),
    ("db", "backup", "e.db", "--database", "a.db"),
)
TO_POSTGRES: tuple[tuple[str, ...], ...] = (
    (*COPY, "{url}"),
    ("export", "--full", "--database", "{url}", "--out", "p.jsonl"),
)


def cost(folder: Path, words: tuple[str, ...], rows: int) -> dict[str, object]:
    """Run one command; what it took."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "truezero", *words]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    peak, ended = 0.0, 0
    while not ended:
        peak = max(peak, peak_mb(process.pid))
        time.sleep(0.01)
        ended, status, used = os.wait4(process.pid, os.WNOHANG)
    took = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    cpu = used.ru_utime + used.ru_stime
    return {
        "command": " ".join(words),
        "exchanges": rows,
        "seconds": round(took, 2),
        "cpu_s": round(cpu, 2),
        "rows_per_cpu_s": round(rows / cpu),
        "peak_mb": round(peak),
    }


def peak_mb(pid: int) -> float:
    """The most memory a process has had; what wait4 tells begins with its parent's."""
    with suppress(OSError, ValueError, IndexError):
        status = Path(f"/proc/{pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    return 0.0


@contextmanager
def postgres() -> Iterator[str | None]:
    """The URL of an empty database; None where PostgreSQL is not installed."""
    programs = binaries()
    if programs is None:
        yield None
        return
    server = Server(programs)
    try:
        server.create()
        with server.database(prepared=False) as url:
            yield url
    finally:
        server.destroy()


def measure(exchanges: int) -> Iterator[dict[str, object]]:
    """Every command on a database of so many exchanges."""
    folder = Path(tempfile.mkdtemp(prefix="truezero-moving-"))
    try:
        database = Database(str(folder / "a.db"))
        database.prepare()
        database.deployment.secret("salt")
        database.close()
        fill(folder / "a.db", 0, exchanges // PER_ROLLOUT)
        for words in COMMANDS:
            yield cost(folder, words, exchanges)
        with postgres() as url:
            for words in TO_POSTGRES if url else ():
                placed = tuple(word.format(url=url) for word in words)
                yield cost(folder, placed, exchanges) | {"command": " ".join(words)}
            if url:
                same = filecmp.cmp(folder / "a.jsonl", folder / "p.jsonl", shallow=False)
                assert same, "PostgreSQL's archive is another"
    finally:
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exchanges", type=int, nargs="+", default=[100_000, 1_000_000])
    chosen = parser.parse_args()
    print(json.dumps(description()))
    for exchanges in chosen.exchanges:
        for found in measure(exchanges):
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
