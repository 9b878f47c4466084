"""What a group commit costs on SQLite and on PostgreSQL, by how many calls it takes.

It measures the store alone: no agent, no provider, no relay. PostgreSQL's server is its own, with
its files synced or not; SQLite's are written as the service writes them.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from classifier.records import Ending, Exchange, Kind, Timing, Usage, UsageSource
from proxy.store.database import Database
from proxy.store.types import CommitBatch
from tests.postgres import Server, binaries

SIZES = (1, 4, 16, 64, 500)
CALL = Exchange(
    id="", rollout_id="", upstream="openai", api="openai.chat", timing=Timing(started_at=0.0),
    kind=Kind.INFERENCE, method="POST", role="agent", model="gpt-5", answered_model="gpt-5-2025",
    status=200, ending=Ending.COMPLETE, streamed=True,
    usage=Usage(
        input_tokens=900, output_tokens=60, cached_input_tokens=512, reasoning_tokens=0,
        total_tokens=960, input_total=900, output_total=60, source=UsageSource.PROVIDER,
    ),
    finish_reason="stop", tool_calls=1, output_seen=True, has_tools=True,
    provider_request_id="req_0123456789abcdef", request_bytes=4_000, response_bytes=9_000,
    request_digest="0123456789abcdef", key_digest="key-01234567",
)  # fmt: skip


def calls(name: str, size: int) -> Iterator[list[Exchange]]:
    """Groups of calls that begin now, in a hundred rollouts."""
    numbers = itertools.count()
    while True:
        now = time.time()
        yield [
            replace(
                CALL, id=f"{name}{next(numbers):020x}", rollout_id=f"{name}-{n % 100}",
                timing=Timing(started_at=now, first_byte_s=0.1, first_token_s=0.2, duration_s=1.0),
            )
            for n in range(size)
        ]  # fmt: skip


def commits(url: str, name: str, size: int, seconds: float) -> tuple[list[float], float]:
    """How long each call's two commits took for its group, and CPU seconds of this process."""
    database = Database(url)
    took: list[float] = []
    cpu = 0.0
    end = time.perf_counter() + seconds
    for group in calls(name, size):
        began, cpu_began = time.perf_counter(), time.process_time()
        database.calls.write(
            CommitBatch(opened=[replace(e, ending=None) for e in group]), worker=name
        )
        database.calls.write(CommitBatch(recorded=group), worker=name)
        took.append(time.perf_counter() - began)
        cpu += time.process_time() - cpu_began
        if time.perf_counter() > end:
            break
    database.close()
    return took, cpu


def measured(url: str, size: int, seconds: float) -> str:
    commits(url, f"warm{size}", size, seconds / 5)
    took, cpu = commits(url, f"m{size}", size, seconds)
    median = statistics.median(took)
    calls_made = len(took) * size
    return (
        f"{size:5d} calls  {median * 1e3:8.2f} ms a group  {size / median:9,.0f} calls/s"
        f"  {cpu / calls_made * 1e6:7.1f} µs of our CPU a call"
    )


def _loud(url: str, name: str, seconds: float, told: multiprocessing.Queue[int]) -> None:
    took, _cpu = commits(url, name, 16, seconds)
    told.put(len(took) * 16)


def together(url: str, processes: int, seconds: float) -> float:
    """Calls a second that several processes write at once, in groups of 16."""
    told: multiprocessing.Queue[int] = multiprocessing.Queue()
    writing = [
        multiprocessing.Process(target=_loud, args=(url, f"p{number}x{processes}", seconds, told))
        for number in range(processes)
    ]
    for process in writing:
        process.start()
    made = sum(told.get() for _ in writing)
    for process in writing:
        process.join()
    return made / seconds


@contextlib.contextmanager
def databases() -> Iterator[dict[str, str]]:
    """Prepared databases by name; PostgreSQL's where it is installed."""
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        found = {"SQLite": str(home / "t.db")}
        Database(found["SQLite"]).prepare()
        programs = binaries()
        for name, synced in (("PostgreSQL", True), ("PostgreSQL, fsync off", False)):
            if programs is not None:
                server = Server(programs, synced=synced)
                stack.callback(server.destroy)
                server.create()
                found[name] = stack.enter_context(server.database())
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each figure")
    options = parser.parse_args()
    with databases() as urls:
        for name, url in urls.items():
            print(name)
            for size in SIZES:
                print("  " + measured(url, size, options.seconds), flush=True)
            for processes in (1, 3):
                rate = together(url, processes, options.seconds)
                print(f"  {processes} processes at once, groups of 16: {rate:,.0f} calls/s")


if __name__ == "__main__":
    main()
