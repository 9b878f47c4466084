"""A provider that is down for 20 s costs a batch of twelve no measurement, by either client."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import httpx
import pytest

from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Answer, Provider, Request
from tests.journeys.service import Service
from truezero import AsyncClient, AsyncRollout, BatchRun, Client, Rollout

pytestmark = pytest.mark.slow

TWELVE = [f"t{n}" for n in range(12)]
OUTAGE_S = 20.0
DOWN, LIMITED = Fault.PROVIDER_ERROR, Fault.RATE_LIMIT


def solve(_task: str, rollout: Rollout | AsyncRollout) -> float:
    """Ask once, as an agent that swallows the failure."""
    asked = {"model": "gpt-5", "messages": []}
    url = f"{rollout.env['OPENAI_BASE_URL']}/chat/completions"
    key = {"authorization": "Bearer sk-agent"}
    return float(httpx.post(url, json=asked, headers=key, timeout=60).status_code == 200)


async def solve_async(task: str, rollout: AsyncRollout) -> float:
    return await asyncio.to_thread(solve, task, rollout)


def run(url: str, name: str, kind: str, concurrency: int, *, wait_for_health: bool) -> BatchRun:
    async def later() -> BatchRun:
        async with AsyncClient(url) as client:
            batch = client.batch(name, upstream="openai", model="gpt-5")
            return await batch.run(
                TWELVE, solve_async, concurrency=concurrency, wait_for_health=wait_for_health
            )

    if kind == "async":
        return asyncio.run(later())
    with Client(url) as client:
        batch = client.batch(name, upstream="openai", model="gpt-5")
        return batch.run(TWELVE, solve, concurrency=concurrency, wait_for_health=wait_for_health)


@pytest.mark.parametrize(
    ("kind", "fault", "concurrency", "wait_for_health"),
    [
        ("sync", DOWN, 8, False), ("async", DOWN, 8, False), ("sync", LIMITED, 1, False),
        ("async", DOWN, 1, False), ("sync", DOWN, 8, True), ("async", LIMITED, 8, True),
    ],
)  # fmt: skip
def test_twelve_of_twelve_are_measured_after_an_outage_of_20_s(
    service: Service, provider: Provider, rollout: str, kind: str, fault: Fault, concurrency: int,
    wait_for_health: bool,
) -> None:  # fmt: skip
    until = time.monotonic() + OUTAGE_S
    failed: Counter[bool] = Counter()

    def plays(request: Request) -> Answer:
        down = time.monotonic() < until
        failed[down] += 1
        return answers.FAILURES[Api.CHAT][fault] if down else answers.healthy(request)

    provider.plays(plays)
    done = run(service.url, rollout, kind, concurrency, wait_for_health=wait_for_health)
    assert [ran.verdict and ran.verdict.health for ran in done.results] == ["healthy"] * 12
    assert (done.summary.total, done.summary.scoreable) == (12, 12)
    assert failed[False] == 12
    assert failed[True] < 3 * 12 * 3, "not many more than those that three tries a task would make"
