"""What a rollout costs on PostgreSQL with replicas: CPU time of services and server, by step.

    python -m benchmarks.rollouts [--replicas 2] [--rollouts 2000] [--calls-each 10]

Rollouts are registered by the hundred, make their calls on any replica, report their outcomes, and
the batch's summary is asked for, which judges them. CPU time is the kernel's count, so that other
work on the machine does not show; what so many rollouts a day take follows from it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

import httpx

from benchmarks import machine, subjects
from benchmarks.load import cpu_s
from benchmarks.run import build_tools, say
from benchmarks.scaling import Place, places, serving
from benchmarks.subjects import Stage, Subject

BATCH = "day"
REPEATS = 8
CHUNK = 500
CONNECTIONS = 32
DAY_S = 86_400
ASK = b'{"model":"mock-100-10","messages":[]}'
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """CPU milliseconds of one rollout in the services and in the database's server."""

    name: str
    services_ms: float
    server_ms: float
    per_s: float

    @property
    def row(self) -> str:
        """A row of the table."""
        return (
            f"| {self.name} | {self.services_ms:.2f} | {self.server_ms:.2f} | {self.per_s:,.0f} |"
        )


HEADER = """\
| step | services, CPU ms | PostgreSQL's server, CPU ms | rollouts/s here |
|---|---:|---:|---:|"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Replicas of the service on one database."""

    place: Place
    replicas: Sequence[Subject]
    rollouts: int
    calls_each: int

    def steps(self) -> Iterator[tuple[str, Callable[[], Awaitable[None]]]]:
        """Yield what is done with all rollouts, in order."""
        yield "registered, 500 at a time", self.register
        yield f"{self.calls_each} calls, not streamed", self.call
        yield "outcome reported", self.report
        yield "judged, and summed up", self.judge

    async def register(self) -> None:
        """Register all rollouts at the first replica."""
        async with self._client(0) as http:
            for start in range(0, self.rollouts, CHUNK):
                several = [
                    {"id": f"r{n}", "batch": BATCH, "task": f"t{n // REPEATS}",
                     "repeat": n % REPEATS, "repeats": REPEATS, "model": "mock-100-10"}
                    for n in range(start, min(start + CHUNK, self.rollouts))
                ]  # fmt: skip
                (await http.post("/rollouts/bulk", json={"rollouts": several})).raise_for_status()

    async def call(self) -> None:
        """Make all calls, each rollout's on one connection to one of the replicas."""
        names = iter(range(self.rollouts))
        await asyncio.gather(*(self._calls(n, names) for n in range(CONNECTIONS)))

    async def _calls(self, connection: int, names: Iterator[int]) -> None:
        port = self.replicas[connection % len(self.replicas)].port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.closing(writer):
            for name in names:
                for _ in range(self.calls_each):
                    writer.write(request(f"r{name}"))
                    head = await reader.readuntil(b"\r\n\r\n")
                    assert head.startswith(b"HTTP/1.1 200"), head
                    length = head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0]
                    await reader.readexactly(int(length))

    async def report(self) -> None:
        """Report each outcome at any replica."""
        names = iter(range(self.rollouts))
        await asyncio.gather(*(self._reports(n, names) for n in range(8)))

    async def _reports(self, place: int, names: Iterator[int]) -> None:
        async with self._client(place) as http:
            for name in names:
                outcome = {"status": "success", "prompts_executed": 1, "rewards": name % 2}
                answer = await http.post(f"/rollouts/r{name}/outcome", json=outcome)
                answer.raise_for_status()

    async def judge(self) -> None:
        """Ask for the batch's summary until every rollout is judged."""
        async with self._client(0) as http:
            while True:
                told = (await http.get(f"/batches/{BATCH}")).raise_for_status().json()
                if not told["outdated"] and not told["pending"]:
                    assert told["scored"] == self.rollouts, told
                    return
                await asyncio.sleep(0.05)

    def _client(self, place: int) -> httpx.AsyncClient:
        port = self.replicas[place % len(self.replicas)].port
        return httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S)

    async def measure(self) -> list[Step]:
        """Take all rollouts through each step."""
        found = []
        for name, work in self.steps():
            services, server, began = self._cpu(), self.place.cpu_s, time.perf_counter()
            await work()
            await asyncio.sleep(1)  # what is written a moment later counts as well
            passed = time.perf_counter() - began - 1
            spent = (self._cpu() - services, self.place.cpu_s - server)
            services_ms, server_ms = (1e3 * each / self.rollouts for each in spent)
            step = Step(
                name=name, services_ms=services_ms, server_ms=server_ms,
                per_s=self.rollouts / passed,
            )  # fmt: skip
            say(step.row)
            found.append(step)
        return found

    def _cpu(self) -> float:
        return sum(map(cpu_s, self.replicas))


def request(rollout: str) -> bytes:
    """Return a rollout's call as an agent sends it."""
    return (
        f"POST /r/{rollout}/openai{subjects.CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(ASK)}\r\n\r\n"
    ).encode() + ASK


def main() -> None:
    """Measure, and print the table with its sum and what a million a day take."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rollouts", description=__doc__)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--rollouts", type=int, default=2000)
    parser.add_argument("--calls-each", type=int, default=10)
    given = parser.parse_args()
    tools, port = build_tools(), machine.free_port()
    with contextlib.ExitStack() as stack:
        provider = stack.enter_context(machine.running([tools / "provider", str(port)], core=None))
        machine.wait_for_port(port, provider)
        stage = Stage(provider_port=port, patience_s=PATIENCE_S)
        *_, place = stack.enter_context(places())
        replicas = [stack.enter_context(serving(stage, place, 1)) for _ in range(given.replicas)]
        cluster = Cluster(
            place=place, replicas=replicas, rollouts=given.rollouts, calls_each=given.calls_each
        )
        say(f"{machine.description()}, {machine.busy_percent():.0f} % busy with other work")
        say(f"{place.name}, {given.replicas} replicas\n\n{HEADER}")
        steps = asyncio.run(cluster.measure())
    services, server = sum(s.services_ms for s in steps), sum(s.server_ms for s in steps)
    cores = [1e6 * each / 1e3 / DAY_S for each in (services, server)]
    say(f"a rollout: {services:.1f} + {server:.1f} CPU ms")
    say(f"a million a day: {cores[0]:.2f} cores of services, {cores[1]:.2f} of the server, mean")


if __name__ == "__main__":
    main()
