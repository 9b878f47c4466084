"""Exchanges per second and CPU time of an exchange, by database and number of processes.

    python -m benchmarks.scaling [--workers 1 2 4] [--seconds 4]

Prints the table of docs/measurements/scaling.md. CPU time is the kernel's count: on a
shared or small machine the clock measures others as well.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import machine, subjects
from benchmarks.load import Bench, cpu_s, number
from benchmarks.run import build_tools, say
from benchmarks.subjects import Stage, Subject
from proxy.store.database import Database
from tests.postgres import Server, binaries


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A database under test: its URL, and the process of its server where there is one."""

    name: str
    url: str
    pid: int | None = None

    @property
    def cpu_s(self) -> float:
        """CPU seconds of its server so far; 0 where it runs in the service's process."""
        return machine.cpu_s(self.pid) if self.pid else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What was measured: exchanges per second, and CPU µs of one in service and database."""

    database: str
    workers: int
    per_s: float
    cpu_us: float
    database_cpu_us: float

    @property
    def row(self) -> str:
        """A row of the table."""
        counts = f"{self.workers} | {self.per_s:,.0f} | {self.cpu_us:.3g}"
        return f"| {self.database} | {counts} | {self.database_cpu_us:.3g} |"


@contextlib.contextmanager
def places() -> Iterator[list[Place]]:
    """Create a new database of each kind; PostgreSQL syncs to disk, as in production."""
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = str(home / "t.db")
        Database(file).prepare()
        databases = [Place(name="SQLite", url=f"sqlite:///{file}")]
        programs = binaries()
        if programs is None:
            say("PostgreSQL is not installed: its rows are left out")
        else:
            server = Server(programs, synced=True)
            stack.callback(server.destroy)
            server.create()
            url = stack.enter_context(server.database())
            databases.append(Place(name="PostgreSQL", url=url, pid=server.pid))
        yield databases


@contextlib.contextmanager
def serving(stage: Stage, place: Place, workers: int) -> Iterator[Subject]:
    """Run ``truezero serve`` on a database with this many processes on one port."""
    port = machine.free_port()
    with tempfile.TemporaryDirectory() as home:
        env = subjects.serve_env(stage, Path(home)) | {
            "TRUEZERO_DATABASE_URL": place.url,
            "TRUEZERO_SPILL_DIR": home,
        }
        command = [*subjects.serve_command(port), "--workers", str(workers)]
        with machine.running(command, core=None, env=env, cwd=Path(home)) as process:
            machine.wait_for_port(port, process)
            time.sleep(1 + workers / 2)  # the port is open before the last process is up
            path = f"/r/bench/openai{subjects.CHAT}"
            yield Subject(name="truezero", port=port, path=path, pid=process.pid)


def measure(bench: Bench, place: Place, workers: int) -> Point:
    """Put the service under a load of 1.5 kB exchanges on 64 connections."""
    with serving(bench.stage, place, workers) as subject:
        bench.ask(subject, "-d", "1", "-c", "64")
        service, server = cpu_s(subject), place.cpu_s
        counted = bench.ask(subject, "-d", f"{bench.seconds:g}", "-c", "64")
        service, server = cpu_s(subject) - service, place.cpu_s - server
    done = number(counted["ok"])
    return Point(
        database=place.name,
        workers=workers,
        per_s=done / number(counted["seconds"]),
        cpu_us=service / done * 1e6,
        database_cpu_us=server / done * 1e6,
    )


HEADER = """\
| database | processes | exchanges/s | CPU µs each | CPU µs of PostgreSQL's server |
|---|---:|---:|---:|---:|"""


def main() -> None:
    """Measure every combination and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--seconds", type=float, default=4, help="of load for each row")
    parser.add_argument("--workers", type=int, nargs="+", default=(1, 2, 4))
    options = parser.parse_args()
    machine.raise_open_files()
    tools, port = build_tools(), machine.free_port()
    say(f"{machine.description()}, {machine.busy_percent():.0f} % busy with other work\n\n{HEADER}")
    with machine.running([tools / "provider", str(port)], core=None) as provider:
        machine.wait_for_port(port, provider)
        bench = Bench(
            load=tools / "load", stage=Stage(provider_port=port), seconds=options.seconds,
            load_core=None,
        )  # fmt: skip
        for workers in options.workers:
            with places() as databases:
                for place in databases:
                    say(measure(bench, place, workers).row)


if __name__ == "__main__":
    main()
