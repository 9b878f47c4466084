"""Agents behind three services on one database, and a provider that really keeps its limit.

It prints the table of docs/measurements/pace.md. The provider counts what it answers and refuses;
what calls waited is read from the database.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import random
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median, quantiles

import httpx
from sqlalchemy import create_engine, func, select

from benchmarks import limiters, machine
from benchmarks.run import build_tools, say
from proxy.store.tables import exchanges
from tests.journeys.service import Service
from tests.postgres import Server, required
from tests.waiting import until

AGENTS = 64
SERVICES = 3
DELAY_MS = 200  # until the provider's first byte
PATHS = ("openai", "unpaced")  # the second one's calls do not wait
ASK = '{"model":"bench-model","messages":[{"role":"user","content":"%s"}]}'
_SETTLING_S = 1.5  # until what was recorded is in the database


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A provider, and what befalls it or a service once calls have gone on for ``warm_s``.

    ``requests`` and ``tokens`` are the provider's limits a minute. ``prompts`` are the smallest
    and the largest in bytes. ``pause_s``: an agent's, between two calls. ``limiter``: what paces
    calls instead of the service, by its name in `benchmarks.limiters`.
    """

    name: str
    requests: int = 0
    tokens: int = 0
    stated: bool = True
    pace: str = "learn"
    event: str | None = None  # kill, halve
    prompts: tuple[int, int] = (200, 200)
    pause_s: float = 0.0
    limiter: str = ""
    both: bool = False  # every other call goes by the upstream that is not paced
    warm_s: float = 15.0
    seconds: float = 30.0


LIMIT = 1_200
SCENARIOS = (
    Scenario(name="pace off", requests=LIMIT, pace="off"),
    Scenario(name="pace", requests=LIMIT, seconds=60),
    Scenario(name="LiteLLM's limits", requests=LIMIT, limiter="litellm", seconds=60),
    Scenario(
        name="Inspect's adaptive connections", requests=LIMIT, limiter="inspect", seconds=60
    ),
    Scenario(name="a service is killed", requests=LIMIT, event="kill", seconds=40),
    Scenario(name="the limit is halved", requests=LIMIT, event="halve", seconds=40),
    Scenario(
        name="tokens, prompts of 1 to 100 kB", requests=60_000, tokens=15_000_000,
        prompts=(1_000, 100_000), seconds=40,
    ),
    Scenario(name="the limit is not stated", requests=LIMIT, stated=False, seconds=40),
    Scenario(
        name="a limit far above need", requests=60_000, pause_s=1.0, both=True, warm_s=5, seconds=30
    ),
)  # fmt: skip


@dataclass(slots=True)
class Call:
    """One call as its agent saw it, 429s among it; times are monotonic seconds."""

    agent: int
    path: str
    began: float
    refusals: list[float] = field(default_factory=list)  # when
    first_byte_s: float = 0.0  # of the answer that was no 429
    ended: float = 0.0


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of the provider: calls, and how many requests and tokens its limits would allow."""

    answered: int
    refused: int
    requests: float
    tokens: float
    spent: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """A scenario's calls, and the figures that its table has."""

    scenario: Scenario
    calls: Sequence[Call]
    began: float  # of what is counted, warmed up
    use: float
    longest_wait_s: float | None = None
    refused: tuple[int, int] | None = None  # by the provider, where agents do not see it

    @property
    def counted(self) -> list[Call]:
        return [call for call in self.calls if call.ended and call.began >= self.began]

    def refusals(self, *, warm: bool) -> int:
        """Return how many 429s agents saw, before or after warming up."""
        if self.refused is not None:
            return self.refused[warm]
        return sum((at >= self.began) is warm for call in self.calls for at in call.refusals)

    @property
    def spread(self) -> float:
        """The slowest agent's mean time of a call against the fastest one's."""
        return spread([(call.agent, call.ended - call.began) for call in self.counted])

    @property
    def row(self) -> str:
        wait = "-" if self.longest_wait_s is None else f"{self.longest_wait_s:.1f} s"
        far = self.scenario.both
        return (
            f"| {self.scenario.name} | {len(self.counted)} | {self.refusals(warm=False)} "
            f"| {self.refusals(warm=True)} | {'-' if far else f'{self.use:.1%}'} "
            f"| {'-' if far else f'{self.spread:.2f}'} | {wait} |"
        )

    def first_bytes(self) -> Iterator[str]:
        """Return the times to the first byte, paced and not, of calls side by side."""
        for path in PATHS:
            times = [1_000 * call.first_byte_s for call in self.counted if call.path == path]
            name = "pace off" if path == "unpaced" else "pace"
            yield (
                f"| {name} | {len(times)} | {median(times):.2f} ms "
                f"| {quantiles(times, n=100)[98]:.2f} ms |"
            )


HEADER = """\
| scenario | calls | 429s at first | 429s after | limit used | slowest / fastest | longest wait |
|---|--:|--:|--:|--:|--:|--:|"""
FIRST_BYTES = """\
| | calls | first byte, median | 99th percentile |
|---|--:|--:|--:|"""


def spread(times: Sequence[tuple[int, float]]) -> float:
    """Return the largest mean of an agent's times against the smallest."""
    by_agent: dict[int, list[float]] = {}
    for agent, took_s in times:
        by_agent.setdefault(agent, []).append(took_s)
    means = [fmean(each) for each in by_agent.values()]
    return max(means) / min(means)


def use(scenario: Scenario, before: Counts, after: Counts) -> float:
    """Return the part of the limit that was used between two counts, 1 for all of it."""
    if scenario.tokens:
        return (after.spent - before.spent) / (after.tokens - before.tokens)
    return (after.answered - before.answered) / (after.requests - before.requests)


class Provider:
    """The provider of ``tools/provider.c`` with a scenario's limits."""

    def __init__(self, port: int, process: subprocess.Popen[bytes]) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._process = process

    def counts(self) -> Counts:
        return Counts(**httpx.get(self.url).json())

    def halve(self) -> None:
        self._process.send_signal(signal.SIGUSR1)


@contextlib.contextmanager
def provider_of(scenario: Scenario, tools: Path) -> Iterator[Provider]:
    """Run the provider with a scenario's limits."""
    port = machine.free_port()
    command: list[str | Path] = [tools / "provider", str(port), f"delay={DELAY_MS}"]
    command.append(f"requests={scenario.requests}")
    if scenario.tokens:
        command.append(f"tokens={scenario.tokens}")
    if not scenario.stated:
        command.append("unstated")
    if scenario.limiter == "inspect":
        command.append("left=0")
    with machine.running(command, core=None) as process:
        machine.wait_for_port(port, process)
        yield Provider(port, process)


@contextlib.contextmanager
def services_of(scenario: Scenario, provider: Provider, database: str) -> Iterator[list[Service]]:
    """Run three services whose upstreams are the provider, one of them unpaced."""
    with ExitStack() as stack:
        services = []
        for _ in range(SERVICES):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="truezero-pace-"))
            home = Path(folder)
            (home / "truezero.toml").write_text(
                f'[upstreams.unpaced]\nurl = "{provider.url}"\npace = "off"\n'
            )
            service = Service(
                home, provider.url, DATABASE_URL=database, PACE=scenario.pace, LOG_LEVEL="warning"
            )
            services.append(service)
        starting = [threading.Thread(target=service.start) for service in services]
        for thread in starting:
            thread.start()
        for thread in starting:
            thread.join()
        for service in services:
            stack.callback(service.stop)
        yield services


def retry_after_s(headers: httpx.Headers, tries: int) -> float:
    """Return the wait before a call is tried again, as openai-python has it (_base_client.py)."""
    for name, unit_s in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        with contextlib.suppress(KeyError, ValueError):
            stated_s = float(headers[name]) * unit_s
            if 0 < stated_s <= 60:
                return stated_s
    return float(min(0.5 * 2**tries, 8.0))


async def agent(
    number: int,
    scenario: Scenario,
    services: Sequence[Service | limiters.Proxy],
    http: httpx.AsyncClient,
    calls: list[Call],
    over: asyncio.Event,
) -> None:
    """Call after call, a 429 tried again when it says so, as SDKs do it.

    One whose service is gone goes to the next, as behind nginx.
    """
    chosen = random.Random(number)
    paths = itertools.cycle(PATHS if scenario.both else PATHS[:1])
    at = number
    while not over.is_set():
        call = Call(number, next(paths), time.monotonic())
        calls.append(call)
        least, most = scenario.prompts
        body = ASK % ("x" * chosen.randint(least, most))
        while not call.ended and not over.is_set():
            service = services[at % len(services)]
            rollout = "" if scenario.limiter else f"/r/pace-{number}/{call.path}"
            url = f"{service.url}{rollout}/v1/chat/completions"
            began = time.monotonic()
            try:
                async with http.stream("POST", url, content=body) as answer:
                    now = time.monotonic()
                    await answer.aread()
            except httpx.TransportError:
                at += 1
                await asyncio.sleep(0.05)
                continue
            if answer.status_code == 429:
                wait_s = retry_after_s(answer.headers, len(call.refusals))
                call.refusals.append(now)
                await asyncio.sleep(wait_s * chosen.uniform(1.0, 1.25))
                continue
            assert answer.status_code == 200, answer.text
            call.first_byte_s, call.ended = now - began, time.monotonic()
        if scenario.pause_s:
            await asyncio.sleep(scenario.pause_s * chosen.uniform(0.5, 1.5))


async def watch(
    scenario: Scenario, provider: Provider, services: Sequence[Service | limiters.Proxy]
) -> Seen:
    """Have agents call for a scenario's time, and count from its event on."""
    calls: list[Call] = []
    over = asyncio.Event()
    headers = {"authorization": "Bearer sk-bench", "content-type": "application/json"}
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(headers=headers, timeout=120, limits=limits) as http:
        working = [
            asyncio.create_task(agent(number, scenario, services, http, calls, over))
            for number in range(AGENTS)
        ]
        await asyncio.sleep(scenario.warm_s)
        before, began = await asyncio.to_thread(provider.counts), time.monotonic()
        if scenario.event == "kill" and isinstance(services[0], Service):
            await asyncio.to_thread(services[0].kill)
        elif scenario.event == "halve":
            provider.halve()
        await asyncio.sleep(scenario.seconds)
        after = await asyncio.to_thread(provider.counts)
        over.set()
        for task in working:
            task.cancel()
        ended = await asyncio.gather(*working, return_exceptions=True)
    for each in ended:
        if isinstance(each, Exception):
            raise each
    return Seen(scenario, calls, began, use(scenario, before, after))


def watch_inspect(scenario: Scenario, provider: Provider) -> Seen:
    """Have Inspect's agents call for a scenario's time; it tries 429s again itself.

    The bucket is empty at first: they begin with few connections, and would be minutes about it.
    """
    with limiters.inspect(provider.url, agents=AGENTS, count=SERVICES) as agents:
        until(lambda: len({n % SERVICES for n, *_ in agents.calls()}) == SERVICES, within_s=120)
        first = provider.counts().refused
        time.sleep(scenario.warm_s)
        before, began = provider.counts(), time.monotonic()
        time.sleep(scenario.seconds)
        after = provider.counts()
        calls = [Call(n, PATHS[0], start, ended=end) for n, start, end in agents.calls()]
    refused = (before.refused - first, after.refused - before.refused)
    return Seen(scenario, calls, began, use(scenario, before, after), refused=refused)


def longest_wait_s(database: str) -> float | None:
    """Return how long a call waited for its turn at most; None if none has to."""
    time.sleep(_SETTLING_S)
    engine = create_engine(database)
    with engine.connect() as connection:
        found = connection.execute(select(func.max(exchanges.c.held_s))).scalar()
    engine.dispose()
    return None if found is None else float(found)


def run(scenario: Scenario, server: Server, tools: Path) -> Seen:
    """Run a scenario on services and a database of its own, or with another limiter.

    Raises:
        FileNotFoundError: that is not installed.
    """
    if scenario.limiter == "inspect":
        with provider_of(scenario, tools) as provider:
            return watch_inspect(scenario, provider)
    if scenario.limiter:
        with (
            provider_of(scenario, tools) as provider,
            limiters.litellm(provider.url, requests=LIMIT, count=SERVICES) as proxies,
        ):
            return asyncio.run(watch(scenario, provider, proxies))
    with (
        server.database() as database,
        provider_of(scenario, tools) as provider,
        services_of(scenario, provider, database) as services,
    ):
        seen = asyncio.run(watch(scenario, provider, services))
        return replace(seen, longest_wait_s=longest_wait_s(database))


def main() -> None:
    """Run the scenarios and print their table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pace", description=__doc__)
    parser.add_argument("--only", metavar="PATTERN", default="", help="of scenarios' names")
    options = parser.parse_args()
    tools, server = build_tools(), Server(required())
    try:
        server.create()
        busy = machine.busy_percent()
        say(f"{machine.description()}, {busy:.0f} % busy with other work")
        print(f"\n{HEADER}", flush=True)
        beside = None
        for scenario in (each for each in SCENARIOS if re.search(options.only, each.name)):
            try:
                seen = run(scenario, server, tools)
            except FileNotFoundError as missing:
                say(f"{scenario.name} is not installed: {missing}")
                continue
            print(seen.row, flush=True)
            beside = seen if scenario.both else beside
        if beside is not None:
            print("", FIRST_BYTES, *beside.first_bytes(), sep="\n")
    finally:
        server.destroy()


if __name__ == "__main__":
    main()
