"""A fleet of agents on a real service whose provider goes away for a while: what it costs.

``python -m benchmarks.outage``. Each task asks twice, half a second each, and gives up on the first
failure. Tasks are as many as last for minutes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Answer, Pause, Provider, Request, Step
from tests.journeys.service import Service
from truezero import Client, Rollout

AGENTS, ROUNDS = 64, 4
CALLS, CALL_S = 2, 0.5
BEGIN_S = 1.5  # of the outage, after the first call
DOWN = answers.FAILURES[Api.CHAT][Fault.PROVIDER_ERROR]
ASK = {"model": "gpt-5", "messages": []}


class Thinking(Answer):
    """An answer that takes its time before its first byte."""

    def steps(self, method: str) -> Iterator[Step]:
        yield Pause(CALL_S)
        yield from super().steps(method)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What an outage cost; ``failed`` calls by minute since it began, and how long all took."""

    agents: int
    tasks: int
    outage_s: float
    measured: int
    failed: list[int]
    back_s: float
    first_minute: int
    took_s: float


class Outage:
    """A provider that answers nobody for a time.

    Arguments:
        lasts_s: the time, from `BEGIN_S` after the first call.
    """

    def __init__(self, lasts_s: float) -> None:
        self.lasts_s = lasts_s
        self.calls: list[tuple[float, bool]] = []  # seconds since the first, answered
        self._first: float | None = None
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Answer:
        now = time.monotonic()
        with self._lock:
            if self._first is None:
                self._first = now
            at = now - self._first
            down = BEGIN_S <= at < BEGIN_S + self.lasts_s
            self.calls.append((at, not down))
        return DOWN if down else Thinking(body=answers.chat().body)


def solve(_task: str, rollout: Rollout) -> float:
    """Ask as an agent that gives up on the first failure."""
    url = f"{rollout.env['OPENAI_BASE_URL']}/chat/completions"
    key = {"authorization": "Bearer sk-agent"}
    for _ in range(CALLS):
        if httpx.post(url, json=ASK, headers=key, timeout=60).status_code != 200:
            return 0.0
    return 1.0


def play(home: Path, lasts_s: float, *, agents: int = AGENTS, rounds: int = ROUNDS) -> Figures:
    """Run a fleet through one outage."""
    outage, tasks = Outage(lasts_s), [f"t{n}" for n in range(agents * rounds)]
    with (
        Provider(outage) as provider,
        Service(home, provider.url) as service,
        Client(service.url) as client,
    ):
        began = time.monotonic()
        batch = client.batch("fleet", upstream="openai", model="gpt-5")
        done = batch.run(tasks, solve, concurrency=agents, progress=False)
        took_s = time.monotonic() - began
    until = BEGIN_S + lasts_s
    back_at = min((at for at, answered in outage.calls if answered and at >= until), default=until)
    failed = [at - BEGIN_S for at, answered in outage.calls if not answered]
    return Figures(
        agents=agents,
        tasks=len(tasks),
        outage_s=lasts_s,
        measured=done.summary.scored,
        failed=[
            sum(60 * minute <= at < 60 * minute + 60 for at in failed)
            for minute in range(int(lasts_s // 60) + 1)
        ],
        back_s=round(back_at - until, 1),
        first_minute=sum(back_at <= at < back_at + 60 for at, _ in outage.calls),
        took_s=round(took_s, 1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, nargs="+", default=[20.0, 180.0])
    parser.add_argument("--agents", type=int, default=AGENTS)
    options = parser.parse_args()
    for lasts_s in options.seconds:
        with tempfile.TemporaryDirectory() as home:
            print(json.dumps(asdict(play(Path(home), lasts_s, agents=options.agents))), flush=True)


if __name__ == "__main__":
    main()
