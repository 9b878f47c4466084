"""The cost of a batch's summary, check, card and pages, in a batch of growing size.

    python -m benchmarks.batch_scale [--rollouts 1000 100000] [--calls-each 10] [--calls-per-s 200]
                                     [--keep FOLDER]

The control plane answers in this process, without network: CPU time of all threads, of the
answer's rendering as well. Each size is asked while nothing happens and while calls are recorded
(``--calls-per-s``), whose own CPU time is measured before and taken off. One rollout in twenty
failed and is told of; tasks have eight repeats. It also says how long the first summary takes in a
process that has asked for none, how much of the time the event loop was held, and what share of a
check that counts the batch a card costs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from benchmarks.machine import description
from benchmarks.run import say
from benchmarks.verdicts import CALL, FAILED, FIRST_AT, INSERT_CALL, past_the_service
from classifier import codec
from classifier.batches import reward_of
from classifier.records import Ending, Exchange, ExecutionStatus, Outcome, RolloutRecord, Timing
from classifier.results import result
from classifier.rules import judge
from proxy.app import Application
from proxy.control import batches
from proxy.settings import load
from proxy.store.batch_counts import store_next_kinds
from proxy.store.batch_versions import note_changed
from proxy.store.database import Database
from proxy.store.rows import exchange_row
from proxy.store.tables import EXCHANGE_COLUMNS, CommitBatch, Registration, as_json, verdicts

REPEATS = 8
FAILS = 20  # one rollout of so many
BATCH = "b"
ASKED = 11
PATHS = {
    "summary": f"/batches/{BATCH}",
    "check": f"/batches/{BATCH}/check",
    "card": f"/batches/{BATCH}/card",
    "list page": "/",
    "batch page": f"/ui/batches/{BATCH}",
    "newest rollouts": f"/rollouts?batch={BATCH}&order=desc",
    "page of rollouts": f"/ui/batches/{BATCH}?tab=rollouts",
    "page of tasks": f"/ui/batches/{BATCH}?tab=tasks",
    "page of costs": f"/ui/batches/{BATCH}?tab=cost",
    "usage": f"/batches/{BATCH}/usage",
    "search, nothing found": f"/rollouts?batch={BATCH}&text=nowhere",
}


# --- the database --------------------------------------------------------------------------------


def fill(file: Path, rollouts: int, calls_each: int) -> None:
    """Write a batch of judged rollouts, past the service."""
    with past_the_service(file) as raw:
        raw.executemany(
            "INSERT INTO rollouts (id, batch, task, repeat, attempt, registered, created_at,"
            " outcome, outcome_at, closed_at) VALUES (?, ?, ?, ?, 0, 1, ?, ?, ?, ?)",
            (_rollout(number) for number in range(rollouts)),
        )
        raw.executemany(INSERT_CALL, _call_rows(rollouts, calls_each))
        names = list(verdicts.columns.keys())
        shapes = {kind: _verdict(kind, calls_each) for kind in range(FAILS)}
        raw.executemany(
            f"INSERT INTO verdicts ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})",
            (
                tuple({**shapes[number % FAILS], **_own(number)}[name] for name in names)
                for number in range(rollouts)
            ),
        )
    database = Database(str(file))
    after: str | None = ""
    while after is not None:
        after = database.change(store_next_kinds, after)
    database.close()


def _began(number: int) -> float:
    return FIRST_AT + number * 0.05


def _rollout(number: int) -> tuple[Any, ...]:
    began = _began(number)
    outcome = as_json({"status": "success", "rewards": {"reward": float(number % 3 == 0)}})
    task, repeat = divmod(number, REPEATS)
    ended = began + 60
    return f"r{number:07}", BATCH, f"task-{task}", repeat, began, outcome, ended, ended


def _calls(number: int, count: int) -> Iterator[Exchange]:
    like = FAILED if number % FAILS == 0 else CALL
    for at in range(count):
        timing = Timing(started_at=_began(number) + at, first_byte_s=0.2, duration_s=0.5)
        yield replace(like, id=f"{number:07}{at:04}", rollout_id=f"r{number:07}", timing=timing)


def _call_rows(rollouts: int, calls_each: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of all calls: each kind as the store writes it, with their own names."""
    owner, name, began = (EXCHANGE_COLUMNS.index(c) for c in ("rollout_id", "id", "started_at"))
    good, failed = list(exchange_row(CALL)), list(exchange_row(FAILED))
    for number in range(rollouts):
        row = failed if number % FAILS == 0 else good
        row[owner] = f"r{number:07}"
        for at in range(calls_each):
            row[name], row[began] = f"{number:07}{at:04}", _began(number) + at
            yield tuple(row)


def _verdict(kind: int, calls_each: int) -> dict[str, Any]:
    """Judge one rollout as the service does; others of the kind differ in their names."""
    record = RolloutRecord(
        id="r", batch=BATCH, task="t", repeat=0, attempt=0, model="gpt-5",
        exchanges=tuple(_calls(kind, calls_each)),
        outcome=Outcome(
            status=ExecutionStatus.SUCCESS, rewards={"reward": float(kind % 3 == 0)}
        ),
    )  # fmt: skip
    verdict = judge(record)
    told = result(record, verdict)
    values: dict[str, Any] = dict.fromkeys(verdicts.columns.keys())
    return values | {
        "batch": BATCH, "health": verdict.health.value, "fingerprint": verdict.fingerprint,
        "subcategory": verdict.subcategory and verdict.subcategory.value,
        "lane": verdict.lane, "provisional": False, "scoreable": verdict.scoreable,
        "reward": reward_of(told), "input_tokens": verdict.input_tokens,
        "output_tokens": verdict.output_tokens, "total_tokens": verdict.total_tokens,
        "summed_calls": calls_each, "tokens_known_calls": calls_each, "cost_known_calls": 0,
        "servings": '[["openai","gpt-5","gpt-5",null,null]]', "calls": calls_each,
        "verdict": as_json(codec.encode_verdict(verdict)),
        "result": as_json(codec.encode_result(told)),
    }  # fmt: skip


def _own(number: int) -> dict[str, Any]:
    began = _began(number)
    reward = None if number % FAILS == 0 else float(number % 3 == 0)
    return {
        "rollout_id": f"r{number:07}", "given_at": began + 60, "began_at": began, "reward": reward,
    }  # fmt: skip


# --- what it costs -------------------------------------------------------------------------------


async def measure(file: Path, calls_per_s: int) -> dict[str, float]:
    """Return CPU milliseconds of each answer, idle and while calls go on."""
    environment = {"TRUEZERO_DATABASE_URL": str(file)}
    app = Application(load({}, environment), environment)
    plane = app.control_plane()
    service = plane.service
    database = service.database
    began = time.process_time()
    await batches.summary(service, BATCH)
    found = {"first summary": (time.process_time() - began) * 1e3}
    transport = httpx.ASGITransport(app=plane.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:

        def ask(path: str) -> Callable[[], Awaitable[None]]:
            async def asked() -> None:
                answer = await client.get(path)
                assert answer.status_code == 200, (path, answer.status_code, answer.text[:200])

            return asked

        for name, path in PATHS.items():
            found[name] = await _cpu_ms(ask(path))
        check = ask(PATHS["check"])

        async def counted_again() -> None:
            database.change(note_changed, [BATCH])
            await check()  # which counts whatever it costs

        found["check, batch changed"] = await _cpu_ms(counted_again)
        found["card, share of that check"] = found["card"] / found["check, batch changed"]
        if calls_per_s:
            own = await _own_cpu(database, calls_per_s)
            async with _recording(database, calls_per_s):
                for name, path in PATHS.items():
                    spent = await _cpu_ms(ask(path), besides=own, pause_s=1)  # as a page does
                    found[f"{name}, calls go on"] = spent
        found["loop held"] = await _held_ms(ask(PATHS["batch page"]))
    database.close()
    return found


async def _cpu_ms(
    work: Callable[[], Awaitable[None]], *, besides: float = 0.0, pause_s: float = 0.01
) -> float:
    """Return the median CPU time of all threads, without ``besides`` (a share of the wall's)."""
    await work()
    spent = []
    for _ in range(ASKED):
        wall, began = time.perf_counter(), time.process_time()
        await work()
        cpu = time.process_time() - began
        spent.append(cpu - besides * (time.perf_counter() - wall))
        await asyncio.sleep(pause_s)
    return median(spent) * 1e3


async def _held_ms(work: Callable[[], Awaitable[None]]) -> float:
    """Return the most CPU time that the event loop's thread spent without a pause, in ms."""
    longest, working = 0.0, True

    async def watch() -> None:
        nonlocal longest
        while working:
            began = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - began)

    watching = asyncio.create_task(watch())
    for _ in range(5):
        await work()
    working = False
    await watching
    return longest * 1e3


@asynccontextmanager
async def _recording(database: Database, calls_per_s: int) -> Any:
    """Record calls of running rollouts of the batch, twenty commits a second."""
    stopping = False
    each = max(1, calls_per_s // 20)

    def record() -> None:
        number, due = 0, time.perf_counter()
        while not stopping:
            calls = []
            for _ in range(each):
                number += 1
                timing = Timing(started_at=time.time(), first_byte_s=0.2, duration_s=0.5)
                name = f"live{number % 200}"
                calls.append(
                    replace(
                        CALL, id=f"{os.getpid()}-{time.monotonic_ns()}-{number}", rollout_id=name,
                        timing=timing, ending=Ending.COMPLETE,
                    )
                )  # fmt: skip
            database.calls.write(CommitBatch(recorded=calls), worker="bench")
            due += 0.05
            time.sleep(max(0.0, due - time.perf_counter()))

    for number in range(200):
        placed = Registration(id=f"live{number}", batch=BATCH, task=f"live-{number}", repeat=0)
        database.rollouts.register(placed, now=time.time())
    running = asyncio.create_task(asyncio.to_thread(record))
    await asyncio.sleep(0.5)
    try:
        yield
    finally:
        stopping = True
        await running


async def _own_cpu(database: Database, calls_per_s: int) -> float:
    """Return the share of a CPU that the recording takes by itself."""
    async with _recording(database, calls_per_s):
        wall, began = time.perf_counter(), time.process_time()
        await asyncio.sleep(3)
        return (time.process_time() - began) / (time.perf_counter() - wall)


def _fill(file: Path, rollouts: int, calls_each: int) -> None:
    began = time.perf_counter()
    fill(file, rollouts, calls_each)
    say(f"{rollouts:,} rollouts written in {time.perf_counter() - began:.1f} s")


def main() -> None:
    """Measure each size, and print the figures with their ratio to the first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, nargs="+", default=[1000, 100_000])
    parser.add_argument("--calls-each", type=int, default=10)
    parser.add_argument("--calls-per-s", type=int, default=200)
    parser.add_argument("--keep", type=Path, help="keep the databases here, to use them again")
    given = parser.parse_args()
    say(str(description()))
    found: dict[int, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for rollouts in given.rollouts:
            file = Path(folder) / f"{rollouts}.db"
            filled = (given.keep or Path(folder)) / f"{rollouts}-filled.db"
            if not filled.exists():
                _fill(filled, rollouts, given.calls_each)
            shutil.copyfile(filled, file)
            found[rollouts] = asyncio.run(measure(file, given.calls_per_s))
    first = found[given.rollouts[0]]
    sizes = "".join(f"{size:>14,}" for size in given.rollouts)
    print(f"{'CPU ms':28}{sizes}{'ratio':>8}")
    for name, least in first.items():
        figures = "".join(f"{found[size][name]:14.2f}" for size in given.rollouts)
        print(f"{name:28}{figures}{found[given.rollouts[-1]][name] / (least or 1):8.2f}")


if __name__ == "__main__":
    main()
