"""What the machine says: CPU time, memory, cores, ports, and which interpreter this is.

It reads /proc and starts nothing but processes it is asked for; Linux only.
"""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import subprocess
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cores() -> tuple[int, int] | None:
    """The core for what is measured and the one for the rest; None where there is one only."""
    allowed = sorted(os.sched_getaffinity(0))
    return (allowed[0], allowed[1]) if len(allowed) > 1 else None


@contextlib.contextmanager
def running(
    command: Sequence[str | Path],
    *,
    core: int | None,
    log: IO[bytes] | int = subprocess.DEVNULL,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A process on one core, terminated at the end of the ``with``."""
    process = subprocess.Popen(
        [*pinned(core), *map(str, command)], stdout=log, stderr=log, env=env, cwd=cwd
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def pinned(core: int | None) -> list[str]:
    """What to put before a command so that it stays on one core."""
    return [] if core is None else ["taskset", "--cpu-list", str(core)]


def wait_for_port(port: int, process: subprocess.Popen[bytes], timeout_s: float = 30) -> None:
    """Return once something listens.

    Raises:
        RuntimeError: the process ended first, or nothing listened in time.
    """
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.01)
    raise RuntimeError(f"{process.args!r} does not listen on {port}")


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for member in found:
        found += children.get(member, [])
    return found


def cpu_s(pid: int) -> float:
    """CPU seconds that a process family has used so far, all threads, to the nanosecond."""
    spent = 0
    for member in family(pid):
        for task in Path(f"/proc/{member}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                spent += int(task.read_text().split()[0])
    return spent / 1e9


def resident_mb(pid: int) -> float:
    """Resident memory of a process family in MB."""
    pages = 0
    for member in family(pid):
        with contextlib.suppress(OSError):
            pages += int(Path(f"/proc/{member}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def description() -> dict[str, object]:
    """The machine and the interpreter: an optimised build (PGO) is 10-15 % faster."""
    flags = sysconfig.get_config_var("CONFIG_ARGS") or ""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "python_build": "optimised" if "--enable-optimizations" in flags else "not optimised",
        "kernel": platform.release(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
