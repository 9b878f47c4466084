"""Load on three services behind nginx that lose processes and their database.

It compares what agents saw with what is recorded, and mends nothing: no fault is waited out.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import httpx
from sqlalchemy import Engine, create_engine, select

from benchmarks.kill import still_open
from proxy.store.tables import exchanges
from tests.cluster import TOKEN, Cluster, running
from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Answer, Pause, Provider, Request, Step
from tests.journeys.service import Service

TURNS = 6  # calls of a rollout
RETRIES = 2  # as OpenAI's and Anthropic's SDKs do by default, with their pauses
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 8.0
SETTINGS = {"BREAKER_THRESHOLD": "0"}  # dead keys are meant, and no reason to stop
_PATIENCE_S = 60.0

CALL, FATE = "x-call", "x-fate"  # names one attempt; says what its provider does
STREAM = {"model": "gpt-5", "messages": [], "stream": True}
WHOLE = {"model": "gpt-5", "messages": []}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How hard the cluster is driven, and how hard it is hit."""

    cycles: int = 6
    agents: int = 24
    down_s: float = 3.0  # how long what was killed or stopped stays so
    calm_s: float = 2.0  # between two faults


class Kind(StrEnum):
    """What a rollout's provider is like, and so what its verdict must be."""

    WELL = "well"
    STUMBLING = "stumbling"  # its first answer is a 503
    DEAD = "dead"  # its key is


HEALTH = {Kind.WELL: "healthy", Kind.STUMBLING: "healthy", Kind.DEAD: "api_error"}


class Phase(StrEnum):
    """What is being done to the cluster."""

    CALM = "calm"
    KILL = "a service is killed (-9)"
    DATABASE = "PostgreSQL restarts"
    ROLL = "all services roll"


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One request of an agent; ``exchange`` and ``status`` once it has the head."""

    rollout: str
    exchange: str | None = None
    status: int | None = None
    finished: bool = False


@dataclass(slots=True)
class Seen:
    """All that agents and harnesses saw."""

    rollouts: dict[str, Kind] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    calls: int = 0
    errors: Counter[tuple[Phase, str]] = field(default_factory=Counter)  # attempts, not retried
    failed: Counter[tuple[Phase, str]] = field(default_factory=Counter)  # calls, retries and all
    at_once: Counter[str] = field(default_factory=Counter)  # verdicts that were not what is true
    phase: Phase = Phase.CALM
    took_s: dict[str, list[float]] = field(default_factory=dict)
    last_error: float = 0.0


class Thinking(Answer):
    """An answer that takes its time before its first byte: a kill finds many such calls."""

    def steps(self, method: str) -> Iterator[Step]:
        yield Pause(random.uniform(0.2, 0.8))
        yield from super().steps(method)


def play(request: Request) -> Answer:
    """Answer as the attempt's fate wants it."""
    match request.header(FATE):
        case "dead":
            return answers.FAILURES[Api.CHAT][Fault.AUTH]
        case "down":
            return answers.FAILURES[Api.CHAT][Fault.PROVIDER_ERROR]
        case "slow":
            return answers.chat_stream().stopping_after(2, Pause(random.uniform(0.1, 1.0)))
        case "stream":
            return answers.chat_stream()
        case "thinking":
            return Thinking(body=answers.chat().body)
    return answers.chat()


def fates(kind: Kind) -> Iterator[str]:
    """Run a rollout's attempts one after another."""
    if kind is Kind.DEAD:
        yield from itertools.repeat("dead")
    if kind is Kind.STUMBLING:
        yield "down"
    while True:
        yield random.choice(("whole", "stream", "slow", "thinking", "thinking"))


@dataclass(slots=True)
class Agent:
    """Rollout after rollout, each registered, run and reported as a harness does it."""

    seen: Seen
    http: httpx.AsyncClient
    harness: httpx.AsyncClient
    names: Iterator[int]

    async def work(self, until: Callable[[], bool]) -> None:
        """Go on until told; the rollout under way is finished."""
        while not until():
            await self.rollout()

    async def rollout(self) -> None:
        kind = random.choice(tuple(Kind))
        name = f"c{next(self.names)}"
        told = await self._ask("POST", "/rollouts", {"id": name, "batch": "load"})
        base = told["base_urls"]["openai"]
        self.seen.rollouts[name] = kind
        destiny = fates(kind)
        for _ in range(TURNS):
            self.seen.calls += 1
            await self._call(base, name, destiny)
            await asyncio.sleep(random.uniform(0.0, 0.1))
        outcome = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0.0}}
        await self._ask("POST", f"/rollouts/{name}/outcome", outcome)
        verdict = await self._ask("GET", f"/rollouts/{name}/verdict?wait=settled&timeout_s=10")
        if verdict["health"] not in (HEALTH[kind], "undecided"):
            sentence = f"{kind}: {verdict['health']} of {verdict['total_requests']} calls"
            self.seen.at_once[f"{sentence} ({self.seen.phase})"] += 1

    async def _call(self, base: str, rollout: str, destiny: Iterator[str]) -> None:
        """One call as an SDK makes it: what fails before its answer began is tried again."""
        for retries in range(RETRIES + 1):
            trouble, again = await self._attempt(base, rollout, next(destiny))
            if trouble is None and not again:
                return
            if trouble is not None:
                self.seen.errors[self.seen.phase, trouble] += 1
                self.seen.last_error = time.monotonic()
            if not again or retries == RETRIES:
                break
            pause = min(FIRST_PAUSE_S * 2**retries, LONGEST_PAUSE_S)
            await asyncio.sleep(pause * random.uniform(0.75, 1.0))
        if trouble is not None:
            self.seen.failed[self.seen.phase, trouble] += 1

    async def _attempt(self, base: str, rollout: str, fate: str) -> tuple[str | None, bool]:
        """Return what went wrong in transit, and whether an SDK would retry."""
        made = Attempt(rollout=rollout)
        self.seen.attempts.append(made)
        number = str(len(self.seen.attempts))
        headers = {CALL: number, FATE: fate, "authorization": "Bearer sk-1"}
        ask = WHOLE if fate in ("whole", "thinking", "dead", "down") else STREAM
        try:
            url = f"{base}/chat/completions"
            async with self.http.stream("POST", url, json=ask, headers=headers) as answer:
                made.exchange = answer.headers.get("x-truezero-exchange")
                made.status = answer.status_code
                async for _ in answer.aiter_raw():
                    pass
                made.finished = True
        except httpx.TransportError as error:
            if made.status is not None:
                return "cut after its head", False
            return f"no answer: {type(error).__name__}", True
        again = answer.status_code in (408, 409, 429) or answer.status_code >= 500
        if made.exchange is None:
            return f"{answer.status_code} by nginx", again
        refusal = answer.headers.get("x-truezero-refusal")
        return (f"{answer.status_code} {refusal}" if refusal else None), again

    async def _ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Ask the control plane as a patient harness does: again, until it answers."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            with contextlib.suppress(httpx.TransportError):
                answer = await self.harness.request(method, path, json=body)
                if answer.is_success:
                    found: dict[str, Any] = answer.json()
                    return found
                if answer.status_code < 500:
                    raise AssertionError(f"{path}: {answer.status_code} {answer.text}")
            assert time.monotonic() < deadline, f"{path} is not answered"
            await asyncio.sleep(0.3)


class Faults:
    """What is done to the cluster, one thing after another, until the time is over."""

    def __init__(self, cluster: Cluster, seen: Seen, pace: Pace) -> None:
        self._cluster = cluster
        self._seen = seen
        self._pace = pace

    async def cycle(self, number: int) -> None:
        """Each fault once; the service that is killed is another one each time."""
        for phase, work in (
            (Phase.KILL, lambda: self._kill(number % len(self._cluster.services))),
            (Phase.DATABASE, self._restart_database),
            (Phase.ROLL, self._roll),
        ):
            await asyncio.sleep(self._pace.calm_s)
            self._seen.phase, began = phase, time.monotonic()
            await asyncio.to_thread(work)
            if self._seen.last_error > began:
                self._took(f"{phase}: until the last error", self._seen.last_error - began)
            self._seen.phase = Phase.CALM

    def _kill(self, which: int) -> None:
        service = self._cluster.services[which]
        service.kill()
        time.sleep(self._pace.down_s)
        service.start()
        self._cluster.wait_until_ready()

    def _restart_database(self) -> None:
        self._cluster.server.stop()
        time.sleep(self._pace.down_s)
        self._cluster.server.start()
        self._took("PostgreSQL is back: until all is written", self._cluster.wait_until_ready())

    def _roll(self) -> None:
        for service in self._cluster.services:
            began = time.monotonic()
            service.stop()
            self._took("a service rolls: until it has let its calls end", time.monotonic() - began)
            service.start()
            self._took("a service rolls: until it is back", time.monotonic() - began)
            self._wait_until_asked(service)

    def _wait_until_asked(self, service: Service) -> None:
        """Return once nginx has passed the service a call: it leaves out what it found away."""
        deadline = time.monotonic() + _PATIENCE_S
        while not re.search(r"^truezero_exchanges_total\S* [1-9]", _metrics(service), re.M):
            assert time.monotonic() < deadline, "nginx passes no call to a service that is back"
            time.sleep(0.05)

    def _took(self, what: str, seconds: float) -> None:
        self._seen.took_s.setdefault(what, []).append(seconds)


def _metrics(service: Service) -> str:
    return service.http.get("/metrics").text


async def _under_load(cluster: Cluster, pace: Pace) -> Seen:
    seen, over = Seen(), asyncio.Event()
    names = itertools.count()
    headers = {"authorization": f"Bearer {TOKEN}"}
    limits = httpx.Limits(max_connections=None)
    async with (
        httpx.AsyncClient(verify=False, timeout=30, limits=limits) as agents,
        httpx.AsyncClient(base_url=cluster.url, headers=headers, timeout=30) as harness,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(pace.agents):
            group.create_task(Agent(seen, agents, harness, names).work(over.is_set))
        faults = Faults(cluster, seen, pace)
        for number in range(pace.cycles):
            await faults.cycle(number)
        await asyncio.sleep(pace.calm_s)
        over.set()
    return seen


@dataclass(frozen=True, slots=True)
class Found:
    """What the record says beside what was seen; ``wrong`` counts sentences that should not be."""

    lost: int
    undecided: int
    wrong: Counter[str]


def compare(cluster: Cluster, seen: Seen, provider: Provider) -> Found:
    """Look for each attempt in the database, and for each rollout's verdict at a service."""
    engine = create_engine(cluster.database)
    wait_until_buried(engine)
    cluster.server.settle()  # until then any verdict may be undecided
    facts = select(*(exchanges.c[name] for name in ("id", "rollout_id", "ending", "status")))
    with engine.connect() as connection:
        rows = connection.execute(facts).all()
    engine.dispose()
    known = {row.id: (row.rollout_id, row.ending, row.status) for row in rows}
    wrong: Counter[str] = Counter()
    for made in seen.attempts:
        wrong.update(_differences(made, known))
    asked = Counter(request.header(CALL) for request in tuple(provider.requests))
    wrong["requests that the provider had twice"] = sum(count > 1 for count in asked.values())
    lost = Counter(rollout for rollout, ending, _ in known.values() if ending == "lost")
    undecided = 0
    for (name, kind), service in zip(
        seen.rollouts.items(), itertools.cycle(cluster.services), strict=False
    ):
        health = service.verdict(name)["health"]
        excused = health == "undecided" and name in lost
        undecided += excused
        if health != HEALTH[kind] and not excused:
            wrong[f"a rollout whose provider is {kind} is {health}"] += 1
    return Found(lost.total(), undecided, +wrong)


def _differences(made: Attempt, known: dict[str, tuple[str, str, int | None]]) -> Iterator[str]:
    if made.exchange is None:
        return
    found = known.get(made.exchange)
    if found is None:
        yield "finished and not known" if made.finished else "begun and not known"
    elif found[0] != made.rollout:
        yield "in another's rollout"
    elif made.finished and found[1:] != ("complete", made.status):
        yield f"finished with {made.status}, known as {found[1]} with {found[2]}"


def wait_until_buried(engine: Engine, patience_s: float = 45.0) -> None:
    """Return when no call of a dead service is open any more, or fail."""
    deadline = time.monotonic() + patience_s
    while left := still_open(engine):
        assert time.monotonic() < deadline, f"{left} calls of dead services are still open"
        time.sleep(0.2)


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run."""

    seen: Seen
    found: Found

    def lines(self) -> Iterator[str]:
        """Return the figures of docs/measurements/reliability.md."""
        seen, found = self.seen, self.found
        finished = sum(made.finished and made.exchange is not None for made in seen.attempts)
        yield f"{len(seen.rollouts)} rollouts, {seen.calls} calls, {len(seen.attempts)} requests"
        yield f"{finished} finished; {found.lost} found lost, {found.undecided} verdicts undecided"
        for title, errors in (("without retries", seen.errors), ("with retries", seen.failed)):
            yield f"{errors.total()} errors {title}"
            yield from (f"  {count} x {what}: {phase}" for (phase, what), count in errors.items())
        for what, took in seen.took_s.items():
            yield f"{what}: {max(took):.1f} s at most, of {len(took)}"
        yield from (f"at once {count} x {what}" for what, count in seen.at_once.items())
        yield from (f"WRONG {count} x {what}" for what, count in found.wrong.items())


def run(cluster: Cluster, provider: Provider, pace: Pace) -> Report:
    """Load the cluster, do each fault to it, again and again, and compare."""
    seen = asyncio.run(_under_load(cluster, pace))
    return Report(seen, compare(cluster, seen, provider))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=6, help="of half a minute each")
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    random.seed(options.seed)
    with Provider(play) as provider, running(provider.url, **SETTINGS) as cluster:
        report = run(cluster, provider, Pace(cycles=options.cycles))
    print("\n".join(report.lines()))
    sys.exit(bool(report.found.wrong))


if __name__ == "__main__":
    main()
