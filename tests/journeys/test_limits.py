"""A batch's limit in two services on one database, of which one is killed with calls in flight."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.fakes import answers
from tests.fakes.provider import Hang, Provider
from tests.journeys.service import Service
from tests.journeys.test_durability import ASK, CHAT, PATIENCE_S, Agent
from tests.waiting import until

pytestmark = pytest.mark.slow  # kills, and a cluster


@pytest.fixture(params=["sqlite", "postgresql"])
def pair(
    request: pytest.FixtureRequest, provider: Provider, tmp_path: Path
) -> Iterator[tuple[Service, Service]]:
    """Two services on one database."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            url = str(tmp_path / "shared.db")
        else:
            server = request.getfixturevalue("postgres_server")
            url = stack.enter_context(server.database(prepared=False))
        folders = [tmp_path / name for name in ("one", "other")]
        for folder in folders:
            folder.mkdir()
        services = [Service(folder, provider.url, DATABASE_URL=url) for folder in folders]
        yield stack.enter_context(services[0]), stack.enter_context(services[1])


def call(service: Service, rollout: str) -> int:
    url = service.base(rollout, "openai") + CHAT
    return httpx.post(url, json=ASK, timeout=PATIENCE_S).status_code


@pytest.mark.postgres_smoke
def test_a_killed_services_reservations_come_back_and_nobody_passes_the_limit(
    pair: tuple[Service, Service], provider: Provider
) -> None:
    one, other = pair
    shared = {"batch": "shared", "batch_limits": {"calls": 4}}
    one.register(id="killed", **shared)
    other.register(id="lives", **shared)
    provider.plays(answers.chat_stream().stopping_after(1, Hang()))
    agents = [Agent(one, "killed") for _ in range(2)]
    assert all(agent.heard.wait(PATIENCE_S) for agent in agents)
    assert other.get("/batches/shared/limits")["in_flight"] == 2
    provider.plays(answers.healthy)
    with ThreadPoolExecutor(6) as pool:
        calls = [pool.submit(call, other, "lives") for _ in range(6)]
        until(lambda: other.get("/batches/shared/limits")["spent"]["calls"] == 2)
        assert sum(each.done() for each in calls) <= 2, "the others wait for the killed one's"
        assert len(provider.requests) == 2 + 2
        one.kill()
        assert sorted(each.result() for each in calls) == [200] * 4 + [403] * 2
    assert len(provider.requests) == 2 + 4
    budget = other.get("/batches/shared/limits")
    assert (budget["spent"]["calls"], budget["in_flight"]) == (4, 0)
    assert [each["ending"] for each in other.exchanges("killed")] == ["lost"] * 2
    waited = [each["held_s"] > 0 for each in other.exchanges("lives")]
    assert sorted(waited) == [False, False, True, True]
