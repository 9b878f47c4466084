"""Measures what the capacity model is fitted to: processes, sizes, commits, streams, reads.

    python -m benchmarks.scaling [--only relay disk …]

It judges nothing; CPU time is the kernel's count, for on a machine that is shared or small the
clock tells of others. Written to docs/scaling.json, the page by `benchmarks.scaling_report`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from benchmarks import capacity, commits, figures, machine, scaling_report, subjects, verdicts
from benchmarks.load import Bench, cpu_s, number
from benchmarks.rows import Numbers
from benchmarks.run import build_tools, say
from benchmarks.subjects import Stage, Subject
from proxy.store.database import Database
from proxy.store.tables import EXCHANGE_COLUMNS
from tests.postgres import Server, binaries

Point = dict[str, float | str]
Points = dict[str, list[Point]]

WORKERS = (1, 2, 4)
GROUPS = (1, 16, 64, 500)
SIZES = (100_000, 1_000_000, 10_000_000)
REQUESTS = (400, 100_000)  # bytes of a request's body
SMALL_ROLLOUTS = 25
SQLITE, POSTGRESQL = capacity.SQLITE, capacity.POSTGRESQL


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A database to measure: its URL, and the server's process where there is one."""

    name: str
    url: str
    pid: int | None = None

    @property
    def cpu_s(self) -> float:
        """CPU seconds of its server so far; 0 where it runs in ours."""
        return machine.cpu_s(self.pid) if self.pid else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What this run is to measure, and with which tools."""

    bench: Bench
    seconds: float
    sizes: Sequence[int]
    postgres_sizes: Sequence[int]


@contextlib.contextmanager
def places() -> Iterator[list[Place]]:
    """A new database of each kind; PostgreSQL's server waits for its disk, as outside tests."""
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = str(home / "t.db")
        Database(file).prepare()
        found = [Place(name=SQLITE, url=f"sqlite:///{file}")]
        programs = binaries()
        if programs is None:
            say("PostgreSQL is not installed: its points are left out")
        else:
            server = Server(programs, synced=True)
            stack.callback(server.destroy)
            server.create()
            url = stack.enter_context(server.database())
            found.append(Place(name=POSTGRESQL, url=url, pid=server.pid))
        yield found


@contextlib.contextmanager
def serving(stage: Stage, place: Place, workers: int) -> Iterator[Subject]:
    """``truezero serve`` on a database, with so many processes on one port."""
    port = machine.free_port()
    with tempfile.TemporaryDirectory() as home:
        env = subjects.serve_env(stage, Path(home)) | {
            "TRUEZERO_DATABASE_URL": place.url,
            "TRUEZERO_SPILL_DIR": home,
        }
        command = [*subjects.serve_command(port), "--workers", str(workers)]
        with machine.running(command, core=None, env=env, cwd=Path(home)) as process:
            machine.wait_for_port(port, process)
            time.sleep(1 + workers / 2)  # the port stands before the last process does
            path = f"/r/bench/openai{subjects.CHAT}"
            yield Subject(name="truezero", port=port, path=path, pid=process.pid)


def _exchanges(asked: Asked, place: Place, subject: Subject, *options: str) -> Point:
    """Exchanges/s, and CPU µs of the service and of the database's server for one."""
    ask = ("-c", "64", *options)
    asked.bench.ask(subject, "-d", "1", *ask)
    ours, theirs = cpu_s(subject), place.cpu_s
    counted = asked.bench.ask(subject, "-d", str(asked.seconds), *ask)
    ours, theirs = cpu_s(subject) - ours, place.cpu_s - theirs
    done = number(counted["ok"])
    return {
        "per_s": done / number(counted["seconds"]),
        "cpu_us": ours / done * 1e6,
        "database_cpu_us": theirs / done * 1e6,
    }


def relay(asked: Asked) -> Iterator[Point]:
    """Exchanges of 1.5 kB by processes, on each database."""
    for workers in WORKERS:
        with places() as found:
            for place in found:
                with serving(asked.bench.stage, place, workers) as subject:
                    point = _exchanges(asked, place, subject)
                yield {"database": place.name, "workers": workers, **point}


def requests(asked: Asked) -> Iterator[Point]:
    """What a larger request costs, in one process on SQLite."""
    for size in REQUESTS:
        with places() as found, serving(asked.bench.stage, found[0], 1) as subject:
            point = _exchanges(asked, found[0], subject, "-b", str(size))
        yield {"request_kb": size / 1000, "cpu_us": point["cpu_us"]}


def streams(asked: Asked) -> Iterator[Point]:
    """Memory by streams open at once, each number in a process of its own."""
    measured: dict[int, Callable[[Bench, Subject], Numbers]] = {
        1000: figures.thousand_streams,
        5000: figures.five_thousand_streams,
    }
    yield {"streams": 0, "mb": 0.0}
    for many, measure in measured.items():
        with subjects.truezero(asked.bench.stage) as subject:
            yield {
                "streams": many,
                "mb": (measure(asked.bench, subject)["mb_per_1000"] or 0) * many / 1000,
            }


def chunks(asked: Asked) -> Iterator[Point]:
    """CPU µs of an SSE chunk."""
    with subjects.truezero(asked.bench.stage) as subject:
        yield {"cpu_us": figures.cpu_per_chunk(asked.bench, subject)["cpu_us"] or 0.0}


def group_commits(asked: Asked) -> Iterator[Point]:
    """How long a group of calls takes to be written down as begun and as ended, by its size."""
    with places() as found:
        for place, size in itertools.product(found, GROUPS):
            commits.commits(place.url, f"warm{size}", size, asked.seconds / 5)
            theirs = place.cpu_s
            took, cpu = commits.commits(place.url, f"m{size}", size, asked.seconds / 2)
            calls = len(took) * size
            yield {
                "database": place.name, "calls": size, "ms": median(took) * 1e3,
                "cpu_us": cpu / calls * 1e6,
                "database_cpu_us": (place.cpu_s - theirs) / calls * 1e6,
            }  # fmt: skip


def writers(asked: Asked) -> Iterator[Point]:
    """Calls/s that several processes write into one database, in groups of 16."""
    with places() as found:
        for place, processes in itertools.product(found, WORKERS):
            per_s = commits.together(place.url, processes, asked.seconds / 2)
            yield {"database": place.name, "processes": processes, "per_s": per_s}


def disk(asked: Asked) -> Iterator[Point]:
    """Bytes of a database by its exchanges, and CPU of a verdict in it."""
    with places() as found:
        for place in found:
            filled = 0
            for size in asked.sizes if place.name == SQLITE else asked.postgres_sizes:
                say(f"  {place.name}: {size:,} exchanges are written")
                _fill(place, filled, size // verdicts.PER_ROLLOUT)
                filled = size // verdicts.PER_ROLLOUT
                point: Point = {"database": place.name, "exchanges": size}
                yield {**point, "bytes": _bytes(place), **asyncio.run(_verdicts(place, filled))}


def _fill(place: Place, first: int, last: int) -> None:
    """Rollouts numbered from first up to last, 1,000 calls each, past the service."""
    if place.name == SQLITE:
        verdicts.fill(Path(place.url.removeprefix("sqlite:///")), first, last)
        return
    import psycopg  # noqa: PLC0415  an extra

    dsn = place.url.replace("+psycopg", "")
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        with cursor.copy("COPY rollouts (id, created_at) FROM STDIN") as copy:
            for name in range(first, last):
                copy.write_row((f"rollout-{name}", verdicts.FIRST_AT + name))
        columns = ", ".join(EXCHANGE_COLUMNS)
        with cursor.copy(f"COPY exchanges ({columns}) FROM STDIN") as copy:
            for row in itertools.chain.from_iterable(map(verdicts.calls, range(first, last))):
                copy.write_row(row)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def _bytes(place: Place) -> float:
    if place.name == SQLITE:
        with closing(sqlite3.connect(place.url.removeprefix("sqlite:///"))) as file:
            pages, size = (
                file.execute(f"PRAGMA page_{what}").fetchone()[0] for what in ("count", "size")
            )
            return float(pages * size)
    import psycopg  # noqa: PLC0415  an extra

    with psycopg.connect(place.url.replace("+psycopg", "")) as connection:
        found = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert found is not None
        return float(found[0])


async def _verdicts(place: Place, filled: int) -> Point:
    """CPU ms of a verdict over 1,000 calls and over one, ours and the database's."""
    database = Database(place.url)
    asked = verdicts.desk(database)
    small = f"small-{filled}"
    await verdicts.make_batch(asked, database, small, SMALL_ROLLOUTS, 0)
    verdicts.as_the_service_runs()
    of_one = [f"{small}-{n}" for n in range(SMALL_ROLLOUTS)]
    step = max(1, filled // SMALL_ROLLOUTS)
    of_many = [f"rollout-{n}" for n in range(0, filled, step)][:SMALL_ROLLOUTS]
    one, many = [await _judged(place, database, names) for names in (of_one, of_many)]
    database.close()
    return {
        f"verdict_{calls}_{name}": ms
        for calls, said in ((1, one), (1000, many))
        for name, ms in said.items()
    }


async def _judged(place: Place, database: Database, names: Sequence[str]) -> dict[str, float]:
    asked, theirs, took = verdicts.desk(database), place.cpu_s, []
    for name in names:
        began = time.process_time()
        await asked.verdict(name)
        took.append((time.process_time() - began) * 1e3)
    return {"cpu_ms": median(took), "database_cpu_ms": (place.cpu_s - theirs) / len(names) * 1e3}


MEASURES: dict[str, Callable[[Asked], Iterator[Point]]] = {
    "relay": relay,
    "requests": requests,
    "streams": streams,
    "chunks": chunks,
    "commits": group_commits,
    "writers": writers,
    "disk": disk,
}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--seconds", type=float, default=4, help="of load, each point")
    parser.add_argument("--exchanges", type=int, nargs="+", default=SIZES, help="in SQLite")
    parser.add_argument("--postgres-exchanges", type=int, nargs="+", default=SIZES)
    parser.add_argument("--only", nargs="*", choices=list(MEASURES), default=list(MEASURES))
    parser.add_argument("--file", type=Path, default=scaling_report.DATA)
    return parser.parse_args()


def main() -> None:
    """Measure what was asked for, keep what else the file has, and simulate anew."""
    asked = options()
    machine.raise_open_files()
    tools, port = build_tools(), machine.free_port()
    found = json.loads(asked.file.read_text()) if asked.file.exists() else {"points": {}}
    found["machine"], found["others_percent"] = machine.description(), machine.busy_percent()
    say(f"on {found['machine']}, of which others take {found['others_percent']:.0f} %")
    with machine.running([tools / "provider", str(port)], core=None) as provider:
        machine.wait_for_port(port, provider)
        run = Asked(
            bench=Bench(
                load=tools / "load", stage=Stage(provider_port=port), seconds=asked.seconds,
                load_core=None,
            ),
            seconds=asked.seconds,
            sizes=sorted(asked.exchanges),
            postgres_sizes=sorted(asked.postgres_exchanges),
        )  # fmt: skip
        for name in asked.only:
            found["points"][name] = []
            for point in MEASURES[name](run):
                say(f"  {name}: {point}")
                found["points"][name].append(point)
            asked.file.write_text(json.dumps(found, indent=1) + "\n")
    say("100,000 rollouts are simulated")
    found["demand"] = asdict(capacity.simulate(capacity.Assumed()))
    asked.file.write_text(json.dumps(found, indent=1) + "\n")
    say(f"written to {asked.file}; the page: python -m benchmarks.scaling_report")


if __name__ == "__main__":
    main()
