"""What agents notice of pages that are open live, in a large batch in which calls go on.

    python -m benchmarks.live_pages [--rollouts 100000] [--pages 5] [--calls-per-s 200]
                                    [--seconds 20] [--rounds 3] [--keep FILE]
                                    [--control-process]

Agents call at a steady rate through a service of its own, in four parts of a round: no page is
open; pages are, at another service with a batch of its own, with which agents share nothing but
the machine; pages of their own batch are being opened, all at once; they are open. A page follows
the change events and is fetched again as its script does it, in a process of its own: in that of
the agents, what it takes to read a page would count as the service's. Printed are the agents' first
bytes in each part and their ratios, and how much CPU and memory the service takes. An absolute
figure says little of a shared machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median, quantiles

import httpx

from benchmarks import machine, subjects
from benchmarks.batch_scale import BATCH, fill
from benchmarks.rollouts import request
from benchmarks.run import build_tools, say
from benchmarks.subjects import Stage
from proxy.features.live.pages import CHANGE_HEADER

LIVE = 200  # running rollouts that call
CONNECTIONS = 32
PAUSE_S = 1.0  # as live.js waits between two fetches, at least, and four times what one took
PAGE = f"/ui/batches/{BATCH}"
NEIGHBOUR_CALLS_PER_S = 20  # so that its pages have something to tell
PATIENCE_S = 120.0


@dataclass(slots=True, kw_only=True)
class Part:
    """What was seen in one part of a round: first bytes of agents and pages, in seconds."""

    first_bytes_s: list[float] = field(default_factory=list)
    pages_s: list[float] = field(default_factory=list)
    cpu: float = 0.0  # cores that the service used

    def row(self, name: str, memory_mb: float) -> str:
        """A row of the table."""
        p50, p99 = (1e3 * percentile(self.first_bytes_s, share) for share in (50, 99))
        page = f"{1e3 * median(self.pages_s):.0f}" if self.pages_s else ""
        return (
            f"| {name} | {len(self.first_bytes_s):,} | {p50:.2f} | {p99:.2f} | {len(self.pages_s)}"
            f" | {page} | {100 * self.cpu:.0f} % | {memory_mb:.0f} |"
        )


HEADER = """\
| pages open | calls | first byte p50 ms | p99 ms | page fetches | median ms | CPU | MB |
|---|---:|---:|---:|---:|---:|---:|---:|"""


def percentile(values: Sequence[float], share: int) -> float:
    """Return a percentile of at least two values."""
    return quantiles(values, n=100, method="inclusive")[share - 1]


# --- who asks ------------------------------------------------------------------------------------


async def agents(port: int, per_s: int, part: Part) -> None:
    """Call at a steady rate until cancelled, whatever the answers take."""
    names = count()
    each = (_calls(port, per_s, names, n, part) for n in range(CONNECTIONS))
    await asyncio.gather(*each)


async def _calls(port: int, per_s: int, names: Iterator[int], place: int, part: Part) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    every_s = CONNECTIONS / per_s
    due = time.perf_counter() + every_s * place / CONNECTIONS
    with contextlib.closing(writer):
        while True:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            due += every_s
            began = time.perf_counter()
            writer.write(request(f"live{next(names) % LIVE}"))
            head = await reader.readuntil(b"\r\n\r\n")
            part.first_bytes_s.append(time.perf_counter() - began)
            assert head.startswith(b"HTTP/1.1 200"), head
            length = head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0]
            await reader.readexactly(int(length))


async def page(port: int, took_s: list[float], opened: asyncio.Event) -> None:
    """Keep a page open until cancelled: fetch it, and again when something has changed."""
    news: asyncio.Queue[str] = asyncio.Queue()
    limits = httpx.Timeout(PATIENCE_S)
    at = f"http://127.0.0.1:{port}"
    # No TLS is spoken: without authorities to load, which takes longer than a page.
    async with httpx.AsyncClient(base_url=at, timeout=limits, verify=False) as http:
        following = asyncio.create_task(_follow(http, news))
        told = ""
        try:
            while True:
                began = time.perf_counter()
                headers = {CHANGE_HEADER: told}
                (await http.get(PAGE, headers=headers)).raise_for_status()
                spent = time.perf_counter() - began
                took_s.append(spent)
                opened.set()
                await asyncio.sleep(max(PAUSE_S, 4 * spent))
                told = await news.get()
                while not news.empty():
                    told = news.get_nowait()
        finally:
            following.cancel()


async def _follow(http: httpx.AsyncClient, news: asyncio.Queue[str]) -> None:
    async with http.stream("GET", "/ui/live", params={"batch": BATCH}) as events:
        async for line in events.aiter_lines():
            if line.startswith("data: "):
                news.put_nowait(line.removeprefix("data: "))


async def _until_told(port: int, pages: int, told: Connection) -> list[float]:
    took_s: list[float] = []
    opened = [asyncio.Event() for _ in range(pages)]
    tasks = [asyncio.create_task(page(port, took_s, each)) for each in opened]
    for each in opened:
        await each.wait()
    told.send(None)
    stop = asyncio.create_task(asyncio.to_thread(told.recv))
    done, _ = await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()  # raises
    return took_s


def _view(port: int, pages: int, told: Connection) -> None:
    os.nice(19)  # browsers are on machines of their own
    told.send(None)  # all is loaded
    told.recv()
    told.send(asyncio.run(_until_told(port, pages, told)))


@contextlib.contextmanager
def viewing(port: int, pages: int, part: Part, *, opened: bool) -> Iterator[None]:
    """Have another process keep so many pages open, and take down how long each fetch took.

    Arguments:
        opened: begin when they are open, not when they are about to be.
    """
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    viewer = spawn.Process(target=_view, args=(port, pages, there), daemon=True)
    viewer.start()
    there.close()
    here.recv()
    here.send("begin")
    try:
        if opened:
            here.recv()
        yield
        if not opened:
            here.recv()
        here.send("end")
        part.pages_s += here.recv()
    finally:
        viewer.kill()
        viewer.join()


def _feed(port: int) -> None:
    asyncio.run(agents(port, NEIGHBOUR_CALLS_PER_S, Part()))


@contextlib.contextmanager
def fed(port: int) -> Iterator[None]:
    """Have another process call through a service now and then."""
    feeder = multiprocessing.get_context("spawn").Process(target=_feed, args=(port,), daemon=True)
    feeder.start()
    try:
        yield
    finally:
        feeder.kill()
        feeder.join()


# --- the service ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A service with a batch in which rollouts run."""

    port: int
    control_port: int
    pid: int

    async def part(
        self,
        seconds: float,
        *,
        per_s: int,
        pages: int = 0,
        of: Running | None = None,
        opened: bool = True,
    ) -> Part:
        """Have agents call for so long, with so many pages open of a service, or being opened."""
        part = Part()
        with contextlib.ExitStack() as viewed:
            if of is not None:
                viewed.enter_context(viewing(of.control_port, pages, part, opened=opened))
            cpu, began = machine.cpu_s(self.pid), time.perf_counter()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(agents(self.port, per_s, part), seconds)
            part.cpu = (machine.cpu_s(self.pid) - cpu) / (time.perf_counter() - began)
        return part


@contextlib.contextmanager
def running(
    home: Path,
    provider: int,
    rollouts: int,
    calls_each: int,
    *,
    filled: Path,
    control_process: bool = False,
) -> Iterator[Running]:
    """Run a service on a batch of so many judged rollouts, and register those that will call.

    Arguments:
        filled: a database with that batch, which is made where there is none.
        control_process: whether the control plane has a process of its own.
    """
    stage = Stage(provider_port=provider, patience_s=PATIENCE_S)
    if not filled.exists():
        fill(filled, rollouts, calls_each)
    shutil.copyfile(filled, home / "bench.db")
    port = control_port = machine.free_port()
    command, env = subjects.serve_command(port), subjects.serve_env(stage, home)
    if control_process:
        control_port = machine.free_port()
        env |= {"TRUEZERO_CONTROL_PORT": str(control_port), "TRUEZERO_CONTROL_PROCESS": "true"}
    with machine.running(command, core=None, env=env, cwd=home) as process:
        machine.wait_for_port(port, process, PATIENCE_S)
        with httpx.Client(base_url=f"http://127.0.0.1:{control_port}", timeout=PATIENCE_S) as http:
            http.get("/readyz").raise_for_status()
            several = [
                {"id": f"live{n}", "batch": BATCH, "task": f"live-{n // 8}", "repeat": n % 8}
                for n in range(LIVE)
            ]
            http.post("/rollouts/bulk", json={"rollouts": several}).raise_for_status()
        yield Running(port=port, control_port=control_port, pid=process.pid)


async def measure(service: Running, neighbour: Running, given: argparse.Namespace) -> None:
    """Print each part of each round, and the ratios over all of them."""
    for each in (service, neighbour):  # what the first ones load
        await service.part(3, per_s=given.calls_per_s, pages=1, of=each)
    say(f"{machine.description()}, {machine.busy_percent():.0f} % busy with other work\n\n{HEADER}")
    seen: dict[str, list[Part]] = {name: [] for name, _, _ in _PARTS}
    for _ in range(given.rounds):
        for name, opened, seconds in _PARTS:
            found = await service.part(
                seconds or given.seconds,
                per_s=given.calls_per_s,
                pages=given.pages,
                of={"none": None, "neighbour's": neighbour}.get(name, service),
                opened=opened,
            )
            say(found.row(name, machine.resident_mb(service.pid)))
            seen[name].append(found)
    for share in (50, 99):
        none, others, opening, own = (
            [percentile(part.first_bytes_s, share) for part in parts] for parts in seen.values()
        )
        say(
            f"p{share}: {_ratio(own, none):.2f} times without pages, {_ratio(own, others):.2f} "
            f"times with a neighbour's; {_ratio(opening, none):.2f} times while they are opened"
        )


# Name, whether pages are open when it begins, and seconds, None: as asked for.
_PARTS = (
    ("none", True, None), ("neighbour's", True, None), ("opening", False, 2.0), ("own", True, None),
)  # fmt: skip


def _ratio(values: Sequence[float], to: Sequence[float]) -> float:
    """The median over the rounds."""
    return median(a / b for a, b in zip(values, to, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=100_000)
    parser.add_argument("--calls-each", type=int, default=10)
    parser.add_argument("--pages", type=int, default=5)
    parser.add_argument("--calls-per-s", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="keep the filled database here, to use it again")
    parser.add_argument("--control-process", action="store_true", help="serve pages from another")
    given = parser.parse_args()
    tools, port = build_tools(), machine.free_port()
    with (
        tempfile.TemporaryDirectory() as home,
        tempfile.TemporaryDirectory() as another,
        machine.running([tools / "provider", str(port)], core=None) as provider,
    ):
        machine.wait_for_port(port, provider)
        filled = given.keep or Path(home) / "filled.db"
        of = (port, given.rollouts, given.calls_each)
        with (
            running(
                Path(home), *of, filled=filled, control_process=given.control_process
            ) as service,
            running(Path(another), *of, filled=filled) as neighbour,
            fed(neighbour.port),
        ):
            asyncio.run(measure(service, neighbour, given))


if __name__ == "__main__":
    main()
