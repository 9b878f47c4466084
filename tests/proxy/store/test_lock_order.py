"""Writers of the same rollouts on PostgreSQL, which lock rows in one order: none waits for ever."""

from __future__ import annotations

import contextlib
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from proxy.features.prune.deletion import prune
from proxy.store.database import Database
from proxy.store.tables import Registration
from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.postgres import Server
from tests.proxy.api.test_routes import Service, serving

ROUNDS, WRITERS, ROLLOUTS = 40, 8, 24
BATCHES = ("a", "b", "c")
OLD_BATCHES = ("old 1", "old 2")
DAY = 86_400.0
OUTCOME = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0.0}}


def rollouts(seed: random.Random) -> list[dict[str, Any]]:
    """Registrations of rollouts that other writers register too, in an order of their own."""
    chosen = seed.sample(range(ROLLOUTS), 6)
    return [
        {
            "id": f"r{number}",
            "batch": BATCHES[number % len(BATCHES)],
            "task": f"t{number % 4}",
            "repeat": number,
            "limits": {"calls": 3},
            "batch_limits": {"calls": 10_000},
        }
        for number in chosen
    ]


def prune_old(database: Database, seed: random.Random) -> int:
    """Register rollouts as of long ago, in batches that others prune too; delete them."""
    now = time.time()
    for batch in seed.sample(OLD_BATCHES, 2):
        old = Registration(id=f"{batch} {seed.randrange(4)}", batch=batch)
        database.rollouts.register(old, now=now - 100 * DAY)
    return prune(database, before=now - 62 * DAY, pause=lambda _s: None).rollouts


def write(service: Service, database: Database, seed: random.Random) -> int:
    """Do one of what runners, agents and operators do; return the answer's status."""
    number, batch = seed.randrange(ROLLOUTS), seed.choice((*BATCHES, *OLD_BATCHES))
    what = seed.choice(
        ("bulk", "bulk", "one", "call", "outcome", "outcome", "turn", "operator", "prune")
    )
    if what == "prune":
        return 200 if prune_old(database, seed) else 404
    if what == "bulk":
        body: dict[str, Any] = {"rollouts": rollouts(seed)}
        return service.http.post("/rollouts/bulk", json=body).status_code
    if what == "one":
        return service.http.post("/rollouts", json=rollouts(seed)[0]).status_code
    if what == "call":
        return service.call(f"r{number}").status_code
    if what == "outcome":
        return service.http.post(f"/rollouts/r{number}/outcome", json=OUTCOME).status_code
    if what == "turn":
        run = {"run": f"run {seed.randrange(3)}"}
        path = seed.choice(("begin", "end"))
        return service.http.post(f"/batches/{batch}/{path}", json=run).status_code
    if seed.random() < 0.5:
        return service.http.post(f"/batches/{batch}/breaker/reset", json={}).status_code
    limits = {"calls": seed.randrange(5_000, 10_000)}
    return service.http.post(f"/batches/{batch}/limits", json=limits).status_code


@pytest.mark.promise
def test_writers_of_the_same_rollouts_in_two_services_never_deadlock(
    tmp_path: Path, postgres_server: Server
) -> None:
    said = len(postgres_server.said())
    with contextlib.ExitStack() as ends:
        url = ends.enter_context(postgres_server.database())
        database = ends.enter_context(contextlib.closing(Database(url)))
        services = []
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            services.append(ends.enter_context(serving(tmp_path / name, DATABASE_URL=url)))
            services[-1].provider.plays(answers.FAILURES[Api.CHAT][Fault.AUTH])

        def writes(writer: int) -> list[int]:
            seed = random.Random(writer)
            return [write(services[writer % 2], database, seed) for _ in range(ROUNDS)]

        with ThreadPoolExecutor(WRITERS) as pool:
            statuses = [status for each in pool.map(writes, range(WRITERS)) for status in each]
    assert "deadlock detected" not in postgres_server.said()[said:]
    assert max(statuses) < 500, sorted(set(statuses))
    assert statuses.count(200) > len(statuses) / 4, sorted(set(statuses))
