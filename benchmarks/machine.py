"""What the machine says: CPU time, memory, cores, ports, and which interpreter this is.

It reads /proc and starts nothing but processes it is asked for; Linux only.
"""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import IO


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cores() -> tuple[int, int] | None:
    """Return the core for what is measured and the one for the rest; None with a single core."""
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
    """Run a process on one core, terminated at the end of the ``with``."""
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
    """Return the command prefix that pins a command to one core."""
    return [] if core is None else ["taskset", "--cpu-list", str(core)]


def wait_for_port(
    port: int, process: subprocess.Popen[bytes], timeout_s: float = 30, *, apart: bool = False
) -> None:
    """Return once something listens; in the process's own network if it is ``apart``.

    Raises:
        RuntimeError: the process ended first, or nothing listened in time.
    """
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            if not apart:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            if _listens(process.pid, port):
                return
        time.sleep(0.01)
    raise RuntimeError(f"{process.args!r} does not listen on {port}")


def _listens(pid: int, port: int) -> bool:
    """Whether something does on that port in the network of a process: see proc(5)."""
    if Path(f"/proc/{pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
        return False
    tables = (Path(f"/proc/{pid}/net/{kind}").read_text() for kind in ("tcp", "tcp6"))
    sockets = (line.split() for table in tables for line in table.splitlines()[1:])
    return any(each[1].endswith(f":{port:04X}") and each[3] == "0A" for each in sockets)


def family(pid: int) -> list[int]:
    """Return a process and its descendants."""
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


def kernel_s(pid: int) -> float:
    """CPU seconds of those in the kernel, as its clock's ticks found it there (proc(5), stime).

    Of load that keeps time with those ticks, such as chunks every 10 ms, this says nothing.
    """
    ticks = 0
    for member in family(pid):
        with contextlib.suppress(OSError):
            ticks += int(Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Resident memory of a process family in MB."""
    pages = 0
    for member in family(pid):
        with contextlib.suppress(OSError):
            pages += int(Path(f"/proc/{member}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def busy_percent(seconds: float = 2.0) -> float:
    """How much of the machine's CPU is in use while this process waits."""
    busy, whole = _cpu_ticks()
    time.sleep(seconds)
    busy_then, whole_then = _cpu_ticks()
    return 100 * (busy_then - busy) / max(1, whole_then - whole)


def _cpu_ticks() -> tuple[int, int]:
    """Ticks in use and all ticks since boot, over all cores: /proc/stat, see proc(5)."""
    user, nice, system, idle, iowait, irq, softirq, steal, *_ = (
        int(ticks) for ticks in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    busy = user + nice + system + irq + softirq + steal
    return busy, busy + idle + iowait


def description(python: Path | None = None) -> dict[str, object]:
    """Describe the machine and an interpreter: a PGO build is 10-15 % faster.

    Raises:
        SystemExit: the other interpreter is of another version, so that compiled packages of
            this one's environment would not load in it.
    """
    return {
        **_interpreter(python),
        "kernel": platform.release(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "hyperthreads": hyperthreads(),
        "open_files": open_files(),
        "truezero": metadata.version("truezero"),
    }


_BUILD = """
import platform, sysconfig
flags = sysconfig.get_config_var("CONFIG_ARGS") or ""
built = "optimised" if "--enable-optimizations" in flags else "not optimised"
packaged = "'--prefix=/usr'" in flags  # a distribution turns it on by other means
print(platform.python_implementation(), platform.python_version(), sep=" ")
print("as the system has it" if packaged and built != "optimised" else built)
"""


def _interpreter(python: Path | None) -> dict[str, object]:
    told = subprocess.run([python or sys.executable, "-c", _BUILD], capture_output=True, check=True)
    name, build = told.stdout.decode().splitlines()
    ours = ".".join(platform.python_version_tuple()[:2])
    if not name.split()[1].startswith(f"{ours}."):
        raise SystemExit(f"{python} is {name}, and the packages here are for Python {ours}")
    return {"python": name, "python_build": build}


def raise_open_files(wanted: int = 65536) -> int:
    """Allow as many open files as may be had, here and in what is started; returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for most in (max(hard, wanted), hard):  # only root may go above the hard limit
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
            return most
    return soft


def open_files() -> int:
    """How many files this process, and those it starts, may open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def keep_to(core: int | None) -> None:
    """Move this process to one core, so that it disturbs no other."""
    if core is not None:
        os.sched_setaffinity(0, {core})


def hyperthreads() -> str:
    """Say which of the processors that may be used are one core's, as the kernel has it."""
    cores = set()
    for each in sorted(os.sched_getaffinity(0)):
        with contextlib.suppress(OSError):
            listed = f"/sys/devices/system/cpu/cpu{each}/topology/thread_siblings_list"
            cores.add(Path(listed).read_text().strip())
    if not cores:
        return "unknown"
    shared = sorted(core for core in cores if not core.isdigit())
    return f"processors {' and '.join(shared)} share a core" if shared else "none"


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
