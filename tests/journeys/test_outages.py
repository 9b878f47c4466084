"""Outages: what a batch measures, and waits for."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import httpx
import pytest

from benchmarks.outage import play
from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Answer, Provider, Request
from tests.journeys.service import Service
from truezero import Client, Rollout

pytestmark = pytest.mark.slow

TWELVE = [f"t{n}" for n in range(12)]
DOWN = answers.FAILURES[Api.CHAT][Fault.PROVIDER_ERROR]


def solve(_task: str, rollout: Rollout) -> float:
    """Think for as long as a lane is believed, and ask once, as one that swallows the failure."""
    time.sleep(0.1)
    asked = {"model": "gpt-5", "messages": []}
    url = f"{rollout.env['OPENAI_BASE_URL']}/chat/completions"
    key = {"authorization": "Bearer sk-agent"}
    return float(httpx.post(url, json=asked, headers=key, timeout=60).status_code == 200)


@pytest.mark.promise
def test_a_service_that_is_killed_in_an_outage_goes_on_by_the_same_law(tmp_path: Path) -> None:
    """What is known of the lane, and who was its last probe, is in the database."""
    over = threading.Event()

    def plays(request: Request) -> Answer:
        return answers.healthy(request) if over.is_set() else DOWN

    with (
        Provider(plays) as provider,
        Service(tmp_path, provider.url) as service,
        Client(service.url) as client,
    ):
        batch = client.batch("b", upstream="openai", model="gpt-5")
        for n in range(4):  # it is known to be down
            with batch.rollout(f"d{n}", attempt=0) as rollout:
                solve("", rollout)
        service.kill()
        service.start()
        assert client.take_turn(upstream="openai", model="gpt-5").state != "answering"
        threading.Timer(8.0, over.set).start()
        done = batch.run(TWELVE, solve, concurrency=8)
        assert [ran.verdict and ran.verdict.health for ran in done.results] == ["healthy"] * 12


def test_a_fleet_comes_through_an_outage(tmp_path: Path) -> None:
    """Figures of 64 agents and three minutes: ``python -m benchmarks.outage``."""
    found = play(tmp_path, 15.0, agents=8, rounds=2)
    assert found.measured == found.tasks
    assert found.failed[0] <= 2 * 8 + 8, "those before it was known, and the probes"
