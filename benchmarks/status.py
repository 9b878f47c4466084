"""The CPU time that `GET /status` takes at a million calls an hour.

    python -m benchmarks.status [--calls 1000000]

The control plane answers in this process, without network: CPU time of all its threads. The hour
has eight models, two keys and four batches, and one call in 50 that fails. Each report is computed
anew.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from benchmarks.machine import description
from benchmarks.run import say
from benchmarks.verdicts import CALL, FAILED, INSERT_CALL, past_the_service
from proxy.app import Application
from proxy.settings import load
from proxy.store.database import Database
from proxy.store.lane_minutes import add_ended
from proxy.store.rows import exchange_row
from proxy.store.tables import EXCHANGE_COLUMNS

ASKED = 15
FAILS = 50  # one call of so many
PER_ROLLOUT = 20
MODELS, KEYS, BATCHES = 8, 2, 4


def fill(file: Path, calls: int, now: float) -> None:
    """Write an hour of calls, past the service."""
    with past_the_service(file) as raw:
        raw.executemany(
            "INSERT INTO rollouts (id, batch, registered, created_at) VALUES (?, ?, 1, ?)",
            ((f"r{n:07}", f"b{n % BATCHES}", now - 3600) for n in range(calls // PER_ROLLOUT + 1)),
        )
        raw.executemany(INSERT_CALL, _rows(calls, now))
    with closing(Database(str(file))) as database:
        database.change(add_ended, _rows(calls, now))


def _rows(calls: int, now: float) -> Iterator[tuple[Any, ...]]:
    names = ("rollout_id", "id", "started_at", "model", "key_digest")
    owner, name, began, model, key = (EXCHANGE_COLUMNS.index(each) for each in names)
    good, failed = list(exchange_row(CALL)), list(exchange_row(FAILED))
    answered = EXCHANGE_COLUMNS.index("answered_model")
    for n in range(calls):
        row = failed if n % FAILS == 0 else good
        rollout = n % (calls // PER_ROLLOUT)
        row[owner], row[name] = f"r{rollout:07}", f"{n:09}"
        row[began] = now - 3600 * (1 - n / calls)
        row[model] = f"model-{n % MODELS}"
        row[key] = f"key-{rollout // MODELS % KEYS:08}"
        if row is good:
            row[answered] = f"model-{n % MODELS}-2026-01-01"
        yield tuple(row)


async def measure(file: Path) -> float:
    """Return the median CPU milliseconds of an answer."""
    environment = {"TRUEZERO_DATABASE_URL": str(file)}
    app = Application(load({}, environment), environment)
    plane = app.control_plane()
    service = plane.service
    transport = httpx.ASGITransport(app=plane.app)
    spent = []
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for _ in range(ASKED):
            service.statuses.clear()
            began = time.process_time()
            answer = await client.get("/status")
            spent.append((time.process_time() - began) * 1e3)
            assert answer.json()["lanes"] == MODELS * KEYS, answer.text[:200]
    service.database.close()
    return median(spent)


def main() -> None:
    """Fill a database, and print the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000_000)
    given = parser.parse_args()
    say(str(description()))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "status.db"
        fill(file, given.calls, time.time())
        print(f"{asyncio.run(measure(file)):.1f} CPU ms")


if __name__ == "__main__":
    main()
