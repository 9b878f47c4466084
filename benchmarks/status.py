"""The CPU time that `GET /status` takes at a million calls an hour.

    python -m benchmarks.status [--calls 1000000]

The control plane answers in this process, without network: CPU time of all its threads. The hour
has eight models, two keys and four batches, and one call in 50 that fails; a week before it is
thin. Each report is computed anew: "minute" reads drifts too, as one report in a minute does,
"hour" what is usual in a week.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from benchmarks.machine import description
from benchmarks.run import say
from benchmarks.verdicts import CALL, FAILED
from proxy.app import Application
from proxy.control.queries import Service
from proxy.settings import load
from proxy.store import schema
from proxy.store.database import Database
from proxy.store.rows import exchange_row
from proxy.store.tables import EXCHANGE_COLUMNS

ASKED = 15
FAILS = 50  # one call of so many
WEEK_CALLS = 20_000
PER_ROLLOUT = 20
MODELS, KEYS, BATCHES = 8, 2, 4


def fill(file: Path, calls: int, now: float) -> None:
    """Write an hour of calls and a thin week before it, past the service."""
    Database(str(file)).prepare()
    with closing(sqlite3.connect(file)) as raw, raw:
        raw.execute("PRAGMA synchronous = OFF")
        triggers = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        for (name,) in raw.execute(triggers).fetchall():
            raw.execute(f"DROP TRIGGER {name}")
        raw.executemany(
            "INSERT INTO rollouts (id, batch, registered, created_at) VALUES (?, ?, 1, ?)",
            (
                (f"r{n:07}", f"b{n % BATCHES}", now - 3600)
                for n in range((calls + WEEK_CALLS) // PER_ROLLOUT + 1)
            ),
        )
        marks = ", ".join("?" * len(EXCHANGE_COLUMNS))
        raw.executemany(
            f"INSERT INTO exchanges ({', '.join(EXCHANGE_COLUMNS)}) VALUES ({marks})",
            _rows(calls, now),
        )
        for statement in (schema.usage_fill("sqlite"), schema.MARK_ALL):
            raw.execute(statement)
        for statement in schema.statements("sqlite"):
            raw.execute(statement)


def _rows(calls: int, now: float) -> Iterator[tuple[Any, ...]]:
    names = ("rollout_id", "id", "started_at", "model", "key_digest")
    owner, name, began, model, key = (EXCHANGE_COLUMNS.index(each) for each in names)
    good, failed = list(exchange_row(CALL)), list(exchange_row(FAILED))
    answered = EXCHANGE_COLUMNS.index("answered_model")
    times = (
        *(now - 3600 - 7 * 86_400 * (1 - n / WEEK_CALLS) for n in range(WEEK_CALLS)),
        *(now - 3600 * (1 - n / calls) for n in range(calls)),
    )
    for n, at in enumerate(times):
        row = failed if n % FAILS == 0 else good
        rollout = n % (len(times) // PER_ROLLOUT)
        row[owner], row[name], row[began] = f"r{rollout:07}", f"{n:09}", at
        row[model] = f"model-{n % MODELS}"
        row[key] = f"key-{rollout // MODELS % KEYS:08}"
        if row is good:
            row[answered] = f"model-{n % MODELS}-2026-01-01"
        yield tuple(row)


async def measure(file: Path) -> dict[str, float]:
    """Return median CPU milliseconds of an answer, with all, some and nothing of drifts known."""
    environment = {"TRUEZERO_DATABASE_URL": str(file)}
    app = Application(load({}, environment), environment)
    plane = app.control_plane()
    service = plane.service
    transport = httpx.ASGITransport(app=plane.app)
    found = {}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for name, forget in _FORGETTING.items():
            spent = []
            for _ in range(ASKED):
                service.statuses.clear()
                forget(service)
                began = time.process_time()
                answer = await client.get("/status")
                spent.append((time.process_time() - began) * 1e3)
                assert answer.json()["lanes"] == MODELS * KEYS, answer.text[:200]
            found[name] = median(spent)
    service.database.close()
    return found


_FORGETTING: dict[str, Callable[[Service], object]] = {
    "hour": lambda service: service.lane_drifts.clear(),
    "minute": lambda service: service.lane_drifts.pop("drifts", None),
    "else": lambda service: None,
}


def main() -> None:
    """Fill a database, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000_000)
    given = parser.parse_args()
    say(str(description()))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "status.db"
        fill(file, given.calls, time.time())
        for name, spent in asyncio.run(measure(file)).items():
            print(f"{name:8}{spent:8.1f} CPU ms")


if __name__ == "__main__":
    main()
