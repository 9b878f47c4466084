"""``make soak``: hours of agents, providers and disks that fail, and whether the record is true.

Every call's answer carries a number of its own, so that one in another's rollout would show.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx
import orjson
from sqlalchemy import Engine, create_engine

from benchmarks import machine
from benchmarks.kill import postgresql
from proxy.outbound import errors
from proxy.outbound.request import UpstreamRequest
from proxy.outbound.transport import Http1Transport
from tests.fakes import answers
from tests.fakes.asking import Asked, send
from tests.fakes.provider import Answer, Cut, Pause, Provider, Request
from tests.journeys.service import Service

NUMBER = "x-number"  # the call's own; its answer says so many tokens were read
FATE = "x-fate"  # what its provider does
ROLLOUT_CALLS = 25
LOCK_EVERY_S, LOCK_S = 60.0, 3.0  # another process takes the database file
TICK_S = 0.01
CALL_S = 60.0  # after which a call counts as unanswered

# What becomes of a call, and how often in a thousand.
FATES = {
    "whole": 400, "stream": 330, "slow": 60, "rate_limited": 50, "broken": 50,
    "cut": 40, "closed": 30, "left": 40,
}  # fmt: skip
# An agent that means to leave may find, on a busy machine, that its answer is complete by then.
ENDINGS = {
    "cut": ("cut_upstream",), "closed": ("cut_upstream",), "left": ("left_by_agent", "complete"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Made:
    """A call as its agent knows it; no status where the service itself had to answer."""

    rollout: str
    number: int
    fate: str
    status: int | None = None


@dataclass(slots=True)
class Soak:
    """What went on; ``made`` by the exchange's id, ``memory_mb`` as time went by.

    ``behind_s`` and ``took_s`` tell a service that lost calls from a machine that was too slow:
    the most by which a call began late, and how long whole answers took, in seconds.
    """

    made: dict[str, Made] = field(default_factory=dict)
    nameless: int = 0  # answers that named no exchange, which none should be
    unanswered: Counter[str] = field(default_factory=Counter)  # by what the agent's client said
    memory_mb: list[float] = field(default_factory=list)
    behind_s: float = 0.0
    took_s: list[float] = field(default_factory=list)
    gaps: int = 0
    exit_code: int | None = None


def play(request: Request) -> Answer:
    """Answer as the call's fate wants it, with the call's number in it."""
    number, fate = int(request.header(NUMBER) or 0), request.header(FATE)
    if fate == "rate_limited":
        return answers.whole({"error": {"code": "rate_limit_exceeded"}}, 429)
    if fate == "broken":
        return Answer(status=500, body=(b"{}",))
    if fate == "closed":
        return Answer(body=(Cut(),), length=10)
    if fate == "whole":
        return _numbered(answers.chat(), number)
    told = _numbered(answers.chat_stream(), number)
    if fate == "slow":
        return told.stopping_after(2, Pause(random.uniform(0.1, 1.5)))
    if fate == "cut":
        return told.stopping_after(2, Pause(0.02), Cut(reset=True))
    return told.stopping_after(2, Pause(5.0)) if fate == "left" else told


def _numbered(answer: Answer, number: int) -> Answer:
    body = []
    for step in answer.body:
        assert isinstance(step, bytes)
        body.append(_TOKENS.sub(b'"prompt_tokens":%d' % number, step))
    return Answer(headers=answer.headers, body=tuple(body), framing=answer.framing)


_TOKENS = re.compile(rb'"prompt_tokens":\s*\d+')


async def call(http: Http1Transport, base: str, made: Made, soak: Soak) -> None:
    """One agent's call, to its end or until the agent leaves."""
    ask: dict[str, object] = {"model": "gpt-5", "messages": []}
    if made.fate not in ("whole", "closed"):
        ask |= {"stream": True, "stream_options": {"include_usage": True}}
    began = time.monotonic()
    answered = False
    try:
        async with asyncio.timeout(CALL_S):
            answer = await send(http, Asked(_request(base, made, ask)))
            try:
                answered = _note(made, answer, soak)
                if answered and await _read(made, answer) and made.fate == "whole":
                    soak.took_s.append(time.monotonic() - began)
            finally:
                await answer.aclose()
    except (errors.UpstreamError, TimeoutError) as error:
        cut = answered and isinstance(error, (errors.RemoteProtocolError, errors.ReadError))
        if not cut or made.fate not in ("cut", "closed"):
            soak.unanswered[f"{made.fate}: {type(error).__name__}"] += 1


def _request(base: str, made: Made, ask: dict[str, object]) -> UpstreamRequest:
    target = f"/r/{made.rollout}/openai/v1/chat/completions".encode()
    headers = [
        (b"host", base.partition("://")[2].encode()),
        (b"content-type", b"application/json"),
        (NUMBER.encode(), b"%d" % made.number),
        (FATE.encode(), made.fate.encode()),
    ]
    return UpstreamRequest("POST", base, target, headers, orjson.dumps(ask))


def _note(made: Made, answer: Any, soak: Soak) -> bool:
    """Keep the call under the exchange's id; whether the answer named one."""
    named = dict(answer.headers)
    exchange = named.get(b"x-truezero-exchange")
    if exchange is None:
        soak.nameless += 1
        return False
    status = None if b"x-truezero-refusal" in named else answer.status
    soak.made[exchange.decode()] = Made(made.rollout, made.number, made.fate, status)
    return True


async def _read(made: Made, answer: Any) -> bool:
    """Read the answer to its end; False where the agent leaves before."""
    async for _ in answer.body:
        if made.fate == "left":
            return False
    return True


async def load(base: str, per_s: float, seconds: float, soak: Soak) -> None:
    """Make calls at a steady rate, regardless of earlier ones."""
    names, weights = list(FATES), list(FATES.values())
    numbers = itertools.count(1)
    under_way: set[asyncio.Task[None]] = set()
    async with Http1Transport() as http:
        began, begun = time.monotonic(), 0
        while (now := time.monotonic() - began) < seconds:
            soak.behind_s = max(soak.behind_s, now - begun / per_s)
            while begun < now * per_s:
                begun += 1
                number = next(numbers)
                (fate,) = random.choices(names, weights)
                made = Made(f"s{number // ROLLOUT_CALLS}", number, fate)
                task = asyncio.create_task(call(http, base, made, soak))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
            await asyncio.sleep(TICK_S)
        await asyncio.gather(*under_way)


async def watch(service: Service, provider: Provider, soak: Soak) -> None:
    """Sample the service's memory and its backlog every second."""
    while True:
        soak.memory_mb.append(machine.resident_mb(service.pid))
        provider.requests.clear()
        await asyncio.sleep(1)


async def locking(database: Engine) -> None:
    """Somebody else takes the file, or the table of calls, now and then."""
    take = _TAKE[database.dialect.name]
    while True:
        await asyncio.sleep(LOCK_EVERY_S - LOCK_S)
        with database.connect().execution_options(isolation_level="AUTOCOMMIT") as other:
            for statement in take:
                await asyncio.to_thread(other.exec_driver_sql, statement)
            await asyncio.sleep(LOCK_S)
            other.exec_driver_sql("ROLLBACK")


_TAKE = {
    "sqlite": ("BEGIN IMMEDIATE",),
    "postgresql": ("BEGIN", "LOCK TABLE exchanges IN EXCLUSIVE MODE"),
}


async def soak_in(
    service: Service, database: Engine, provider: Provider, per_s: float, seconds: float
) -> Soak:
    """Load and disturb a service for so long, and wait until it owes nothing."""
    soak = Soak()
    others = [
        asyncio.create_task(watch(service, provider, soak)),
        asyncio.create_task(locking(database)),
    ]
    await load(service.url, per_s, seconds, soak)
    for task in others:
        task.cancel()
    deadline = time.monotonic() + 60
    while (ready := await asyncio.to_thread(_ready, service))["waiting"]:
        if time.monotonic() > deadline:
            break
        await asyncio.sleep(0.2)
    soak.gaps = ready["gaps"] + ready["waiting"]
    return soak


def _ready(service: Service) -> dict[str, int]:
    found: dict[str, int] = httpx.get(f"{service.url}/readyz").json()
    return found


def compare(soak: Soak, database: Engine) -> Counter[str]:
    """Return what is wrong with the record, one sentence each."""
    wrong: Counter[str] = Counter()
    seen, strange = set(), 0
    with database.connect() as connection:
        columns = "id, rollout_id, status, ending, input_tokens"
        for row in connection.exec_driver_sql(f"SELECT {columns} FROM exchanges"):
            seen.add(row[0])
            made = soak.made.get(row[0])
            strange += made is None
            wrong.update(_differences(made, *row[1:]) if made else ())
        still_open = connection.exec_driver_sql("SELECT count(*) FROM open_calls").scalar_one()
        sound = "ok"
        if database.dialect.name == "sqlite":
            sound = connection.exec_driver_sql("PRAGMA integrity_check").scalar_one()
    wrong["not recorded"] = len(soak.made.keys() - seen)
    wrong["answered without naming an exchange"] = soak.nameless
    wrong.update({f"not answered, {how}": count for how, count in soak.unanswered.items()})
    wrong["recorded, and no agent made it"] = max(0, strange - soak.unanswered.total())
    wrong["still open"] = still_open
    wrong["counted as gaps"] = soak.gaps
    wrong["stopped with another exit code than 0"] = soak.exit_code != 0
    wrong["database is not sound"] = sound != "ok"
    return +wrong


def _differences(
    made: Made, rollout: str, status: int | None, ending: str, tokens: int | None
) -> Iterator[str]:
    if rollout != made.rollout:
        yield "in another's rollout"
    if status != made.status:
        yield "with another status"
    if ending not in ENDINGS.get(made.fate, ("complete",)):
        yield f"{made.fate} ended {ending}"
    if tokens not in (None, made.number):
        yield "with another's tokens"
    if tokens is None and ending == "complete" and made.fate in ("whole", "stream", "slow"):
        yield "without its tokens"


def tenths(memory_mb: Sequence[float]) -> list[float]:
    """Resident MB in each tenth of the time, medians; the first ones warm up."""
    size = max(1, len(memory_mb) // 10)
    return [median(memory_mb[at : at + size]) for at in range(0, size * 10, size)]


def _told(took_s: Sequence[float]) -> str:
    half, most = quantiles(took_s, n=1000)[499::499]
    return f"a whole answer took {half * 1000:.0f} ms, one in a thousand {most:.2f} s or more"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--per-s", type=float, default=300)
    parser.add_argument("--postgresql", action="store_true", help="on a server of its own")
    options = parser.parse_args()
    on = postgresql() if options.postgresql else contextlib.nullcontext(None)
    machine.raise_open_files()  # a call takes two here, and two in the service
    with (
        tempfile.TemporaryDirectory() as home,
        on as url,
        Provider(play) as provider,
        Service(
            Path(home), provider.url, LOG_LEVEL="error", **({"DATABASE_URL": url} if url else {})
        ) as service,
    ):
        database = create_engine(url or f"sqlite:///{service.database}")
        work = soak_in(service, database, provider, options.per_s, options.minutes * 60)
        soak = asyncio.run(work)
        service.send(signal.SIGTERM)
        soak.exit_code = service.wait()
        wrong = compare(soak, database)
        database.dispose()
    rate = len(soak.made) / (options.minutes * 60)
    print(f"{len(soak.made)} calls in {options.minutes:g} minutes, {rate:.0f} a second")
    print("MB as time went by:", *(f"{mb:.0f}" for mb in tenths(soak.memory_mb)))
    print(f"calls began at most {soak.behind_s:.1f} s late;", _told(soak.took_s))
    print("\n".join(f"WRONG {count} × {what}" for what, count in wrong.items()) or "nothing wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
