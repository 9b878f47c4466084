"""Agents that ask for megabytes and read a byte a second: what each of them costs the service.

It looks at memory, at how long others wait meanwhile, and at how those calls are recorded.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import httpx

from benchmarks import machine
from tests.fakes import answers
from tests.fakes.provider import Answer, Framing, Provider, Request
from tests.journeys.service import Service

ASK = b'{"model":"gpt-5","stream":true,"messages":[]}'
EVENT = b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\n' % (b"x" * 16_000)
WHOLE = "x-whole"  # asks for a small answer
RECEIVE_BYTES = 4096  # of an agent's own buffer, so that little hides in the kernel
LEAVE_S = 60.0


@dataclass(slots=True, kw_only=True)
class Found:
    """What so many readers cost, in MB resident, and how long others waited, in seconds."""

    before_mb: float
    most_mb: float = 0.0
    others_s: list[float] = field(default_factory=list)
    endings: Counter[str | None] = field(default_factory=Counter)

    @property
    def rise_mb(self) -> float:
        """How far memory rose while they read."""
        return self.most_mb - self.before_mb


def long_answer(kind: str, megabytes: float) -> Answer:
    """A stream of events, one event that never ends, or a body that is no stream."""
    size = round(megabytes * 1e6)
    if kind == "body":
        body = b'{"a":"%b"}' % (b"x" * size)
        return Answer(body=(body,), length=len(body))
    parts = (EVENT,) * (size // len(EVENT)) if kind == "stream" else (b"data: " + b"x" * size,)
    return Answer(headers=answers.SSE, body=parts, framing=Framing.CHUNKED)


@contextlib.contextmanager
def playing(long: Answer) -> Iterator[Provider]:
    """Run a provider of long answers, and of small ones on request."""

    def play(request: Request) -> Answer:
        return answers.chat() if request.header(WHOLE) else long

    with Provider(play) as provider:
        yield provider


async def ask(service: Service, name: str) -> socket.socket:
    """Ask for a stream, and take its first byte."""
    loop = asyncio.get_running_loop()
    url = httpx.URL(service.url)
    head = f"POST /r/{name}/openai/v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
    agent = socket.socket()
    agent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    agent.setblocking(False)
    await loop.sock_connect(agent, (url.host, url.port))
    await loop.sock_sendall(agent, f"{head}Content-Length: {len(ASK)}\r\n\r\n".encode() + ASK)
    assert await loop.sock_recv(agent, 1)
    return agent


async def read(agent: socket.socket) -> None:
    """Take a byte a second until cancelled."""
    loop = asyncio.get_running_loop()
    while await loop.sock_recv(agent, 1):  # noqa: ASYNC110  slowness is what is wanted
        await asyncio.sleep(1)


async def wait_beside(service: Service, found: Found) -> None:
    """Another agent's small calls, one after the other."""
    url = service.base("beside", "openai") + "/v1/chat/completions"
    async with httpx.AsyncClient(timeout=60) as http:
        while True:
            began = time.monotonic()
            answer = await http.post(url, content=ASK, headers={WHOLE: "1"})
            assert answer.status_code == 200, answer.status_code
            found.others_s.append(time.monotonic() - began)
            found.most_mb = max(found.most_mb, machine.resident_mb(service.pid))
            await asyncio.sleep(0.1)


async def hold(service: Service, readers: int, seconds: float, wave: str) -> Found:
    """So many readers at once for so long, until all of them have left."""
    found = Found(before_mb=machine.resident_mb(service.pid))
    beside = asyncio.create_task(wait_beside(service, found))
    agents = await asyncio.gather(*(ask(service, f"{wave}-{n}") for n in range(readers)))
    tasks = [beside, *(asyncio.create_task(read(agent)) for agent in agents)]
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    assert not done, f"ended by itself: {done}"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for agent in agents:
        agent.close()
    await asyncio.to_thread(wait_until_ended, service, wave, readers, found)
    return found


def wait_until_ended(service: Service, wave: str, readers: int, found: Found) -> None:
    """Count how the calls of one wave ended, once all have."""
    deadline = time.monotonic() + LEAVE_S
    query = "SELECT ending FROM exchanges WHERE rollout_id LIKE ?"
    while found.endings.total() < readers and time.monotonic() < deadline:
        time.sleep(0.2)
        with contextlib.closing(sqlite3.connect(service.database)) as connection:
            found.endings = Counter(row[0] for row in connection.execute(query, (f"{wave}-%",)))


def run(
    home: Path, readers: int, *, megabytes: float, seconds: float, waves: int, kind: str = "stream"
) -> list[Found]:
    """Run waves of readers one after another against one service."""
    with (
        playing(long_answer(kind, megabytes)) as provider,
        Service(home, provider.url, LOG_LEVEL="error") as service,
    ):
        url = service.base("beside", "openai") + "/v1/chat/completions"
        for _ in range(20):  # what the first calls load is nobody's cost
            httpx.post(url, content=ASK, headers={WHOLE: "1"}).raise_for_status()
        return [
            asyncio.run(hold(service, readers, seconds, f"wave{number}")) for number in range(waves)
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", type=int, default=1000)
    parser.add_argument("--megabytes", type=float, default=4)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--waves", type=int, default=3)
    parser.add_argument("--kind", choices=("stream", "event", "body"), default="stream")
    options = parser.parse_args()
    machine.raise_open_files()
    with tempfile.TemporaryDirectory() as home:
        waves = run(
            Path(home),
            options.readers,
            megabytes=options.megabytes,
            seconds=options.seconds,
            waves=options.waves,
            kind=options.kind,
        )
    for found in waves:
        print(f"{options.readers} readers of {options.megabytes:g} MB each, a byte a second:")
        print(f"  {found.before_mb:.0f} MB before, at most {found.most_mb:.0f} MB meanwhile")
        others = f"{median(found.others_s) * 1000:.0f} ms, at most {max(found.others_s):.1f} s"
        print(f"  another agent's {len(found.others_s)} calls took {others}")
        print(f"  recorded: {dict(found.endings)}")


if __name__ == "__main__":
    main()
