"""Kills the service at random moments under load, and looks for what it then does not know.

It reads what was recorded from the database and the verdicts from the service started anew.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from sqlalchemy import Engine, create_engine, func, select

from benchmarks import machine
from proxy.store.tables import exchanges, open_calls
from tests.fakes import answers
from tests.fakes.provider import Answer, Pause, Provider, Request, Step
from tests.journeys.service import Service
from tests.postgres import Server, binaries

_BURIED_S = 15.0  # three heartbeats
AGENTS = 24
CUT = 3  # calls at least that a kill cuts, of which one may end in the same moment
CALL = "x-call"  # names the call to the provider, so that both sides can be compared
ASK = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}], "stream": True}


class Thinking(Answer):
    """An answer that takes its time before its first byte."""

    def steps(self, method: str) -> Iterator[Step]:
        yield Pause(0.1)
        yield from super().steps(method)


SCRIPTS = (
    answers.chat(),
    answers.chat(),
    answers.chat_stream(),
    answers.chat_stream().stopping_after(1, Pause(0.05)).stopping_after(3, Pause(0.1)),
    answers.chat_stream().stopping_after(2, Pause(1.5)),  # under way whenever the kill comes
    Thinking(body=answers.chat().body),
    Answer(status=429, body=(b'{"error":{"code":"rate_limit_exceeded","message":"slow"}}',)),
)


@dataclass(slots=True)
class Call:
    """One call of an agent in a rollout of its own, as far as the agent saw it."""

    rollout: str
    base: str  # the service that was asked
    status: int | None = None  # known: the agent has the head
    finished: bool = False  # the agent has the last byte

    @property
    def under_way(self) -> bool:
        """Whether the agent waits for the rest of an answer."""
        return self.status is not None and not self.finished


@dataclass(slots=True)
class Tally:
    """What the rounds found; ``broken`` are sentences about what should never be."""

    rounds: int = 0
    calls: int = 0
    finished: int = 0
    begun: int = 0  # the head came, the last byte did not
    unheard: int = 0  # the provider was asked, no byte came back
    unheard_unknown: int = 0  # of those, not found afterwards: killed before the first commit
    lost: int = 0
    undecided: int = 0
    broken: list[str] = field(default_factory=list)


def play(request: Request) -> Answer:
    """Return what the provider answers: any of the scripts, by the call's name."""
    return random.Random(request.header(CALL)).choice(SCRIPTS)


async def agent(
    http: httpx.AsyncClient,
    base: str,
    names: Iterator[str],
    calls: list[Call],
    over: asyncio.Event,
) -> None:
    """Call after call, each in a rollout of its own, until nobody answers or all is over."""
    while not over.is_set():
        call = Call(next(names), base)
        calls.append(call)
        url = f"{base}/r/{call.rollout}/openai/v1/chat/completions"
        try:
            async with http.stream("POST", url, json=ASK, headers={CALL: call.rollout}) as answer:
                call.status = answer.status_code
                async for _ in answer.aiter_raw():
                    pass
            call.finished = True
        except httpx.TransportError:
            return


async def load_until_killed(
    services: Sequence[Service], doomed: Sequence[Service], names: Iterator[str], after_s: float
) -> list[Call]:
    """Agents at work, and the end of one service or all in the middle of it.

    At those that live on, each agent's last call comes to its end.
    """
    calls: list[Call] = []
    over = asyncio.Event()
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=10, limits=limits, verify=False) as http:
        working = [
            asyncio.create_task(agent(http, service.url, names, calls, over))
            for service in itertools.islice(itertools.cycle(services), AGENTS)
        ]
        while not any(call.finished for call in calls):  # noqa: ASYNC110  by any of them
            await asyncio.sleep(0.01)
        await asyncio.sleep(after_s)
        ends = {service.url for service in doomed}
        while sum(call.under_way and call.base in ends for call in calls) < CUT:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        for service in doomed:
            kill(service)
        over.set()
        await asyncio.gather(*working)
    return calls


def kill(service: Service) -> None:
    """End every process of the service at once, as the kernel would for want of memory."""
    for pid in machine.family(service.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    service.kill()


def one_round(
    services: Sequence[Service],
    provider: Provider,
    engine: Engine,
    names: Iterator[str],
    tally: Tally,
) -> None:
    """Load, kill, start again, and compare what was seen with what is known."""
    provider.requests.clear()
    doomed = random.sample(services, random.randint(1, len(services)))
    calls = asyncio.run(load_until_killed(services, doomed, names, random.uniform(0.05, 0.6)))
    asked = {request.header(CALL) for request in tuple(provider.requests)}
    for service in doomed:
        service.start()
    known = endings(engine, [call.rollout for call in calls])
    tally.rounds += 1
    tally.calls += len(calls)
    for call in calls:
        compare(call, known.get(call.rollout), asked=call.rollout in asked, tally=tally)
    for rollout in [name for name, (ending, _) in known.items() if ending == "lost"][:10]:
        health = random.choice(services).verdict(rollout)["health"]
        tally.undecided += health == "undecided"
        if health != "undecided":
            tally.broken.append(f"{rollout}: a lost call, and yet {health}")


def compare(call: Call, known: tuple[str, int | None] | None, *, asked: bool, tally: Tally) -> None:
    """Count one call, and say what is wrong with what is known of it."""
    if call.finished:
        tally.finished += 1
        if known != ("complete", call.status):
            tally.broken.append(f"{call.rollout}: finished with {call.status}, known as {known}")
    elif call.status is not None:
        tally.begun += 1
        if known is None:
            tally.broken.append(f"{call.rollout}: the agent had its head, and nothing is known")
    elif asked:
        tally.unheard += 1
        tally.unheard_unknown += known is None
    tally.lost += known is not None and known[0] == "lost"


def still_open(engine: Engine) -> int:
    """How many calls have been noted and have not ended."""
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(open_calls)) or 0


def endings(engine: Engine, rollouts: list[str]) -> dict[str, tuple[str, int | None]]:
    """How each rollout's call ended, as the database says; a file must be sound.

    A worker that outlived the kill by a moment is found dead at the next heartbeat only.
    """
    deadline = time.monotonic() + _BURIED_S
    while still_open(engine) and time.monotonic() < deadline:
        time.sleep(0.2)
    facts = select(exchanges.c.rollout_id, exchanges.c.ending, exchanges.c.status)
    with engine.connect() as connection:
        if engine.name == "sqlite":
            sound = connection.exec_driver_sql("PRAGMA integrity_check").scalar()
            assert sound == "ok", sound
        rows = connection.execute(facts).all()
    assert (left := still_open(engine)) == 0, f"{left} calls of dead processes are still open"
    asked = set(rollouts)
    return {rollout: (ending, status) for rollout, ending, status in rows if rollout in asked}


def run(
    home: Path,
    rounds: int,
    *,
    url: str | None = None,
    workers: int = 1,
    services: int = 1,
    seed: int | None = None,
) -> Tally:
    """So many rounds on one database: PostgreSQL's at ``url``, else a file of SQLite's.

    Of several ``services`` at least one is killed each time.
    """
    random.seed(seed)
    tally = Tally()
    names = (f"k{number}" for number in itertools.count())
    settings = {"WORKERS": str(workers), "LOG_LEVEL": "warning"}
    if url is not None:
        settings["DATABASE_URL"] = url
    with contextlib.ExitStack() as stack:
        provider = stack.enter_context(Provider(play))
        running = [
            stack.enter_context(Service(home, provider.url, **settings)) for _ in range(services)
        ]
        engine = create_engine(url or f"sqlite:///{running[0].database}")
        for number in range(rounds):
            one_round(running, provider, engine, names, tally)
            if (number + 1) % 20 == 0:
                print(f"{number + 1} rounds, {tally.calls} calls", file=sys.stderr, flush=True)
        engine.dispose()
    return tally


@contextlib.contextmanager
def postgresql() -> Iterator[str]:
    """Create a database on a separate server."""
    programs = binaries()
    assert programs is not None, "PostgreSQL is not installed here"
    server = Server(programs)
    try:
        server.create()
        with server.database() as url:
            yield url
    finally:
        server.destroy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1, help="of one service")
    parser.add_argument("--services", type=int, default=1, help="on one database")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--postgresql", action="store_true", help="on a server of its own")
    options = parser.parse_args()
    on = postgresql() if options.postgresql else contextlib.nullcontext(None)
    with tempfile.TemporaryDirectory() as home, on as url:
        how = {
            "workers": options.workers, "services": options.services, "seed": options.seed,
        }  # fmt: skip
        tally = run(Path(home), options.rounds, url=url, **how)
    print(f"{tally.rounds} kills under load, {tally.calls} calls")
    print(f"  {tally.finished} of which agents had the last byte: all recorded as they ended")
    print(f"  {tally.begun} more of which agents had the head: all known")
    print(f"  {tally.unheard} more that the provider was asked: {tally.unheard_unknown} unknown")
    print(f"  {tally.lost} found lost; the verdicts of {tally.undecided} asked for: undecided")
    if tally.broken:
        causes = Counter(sentence.partition(": ")[2] for sentence in tally.broken)
        print("\n".join(f"BROKEN {count} × {cause}" for cause, count in causes.items()))
        sys.exit(1)


if __name__ == "__main__":
    main()
