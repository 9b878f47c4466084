"""What a verdict and a batch's summary cost, in databases of growing size.

    python -m benchmarks.verdicts [--exchanges 100000 1000000] [--batch 10000]

It measures the desk in this process, without HTTP; times are medians, in milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.machine import description
from classifier.policy import EVIDENCE
from classifier.records import Ending, Exchange, Timing, Usage, UsageSource
from proxy.app import GC_THRESHOLDS
from proxy.control import Desk
from proxy.keys import Keyring
from proxy.prices import PriceTable
from proxy.store.database import Batch, Database
from proxy.upstreams import allow_list
from truezero.models import OutcomeRequest, RolloutRequest

PER_ROLLOUT = 1000
CALL = Exchange(
    id="x", rollout_id="r", upstream="openai", api="openai.chat", model="gpt-5",
    answered_model="gpt-5", timing=Timing(started_at=1.0, first_byte_s=0.2, duration_s=0.5),
    status=200, ending=Ending.COMPLETE, streamed=True, finish_reason="tool_calls", tool_calls=1,
    output_seen=True, has_tools=True, key_digest="key-00000000",
    usage=Usage(
        input_tokens=900, output_tokens=80, cached_input_tokens=500, total_tokens=980,
        input_total=900, output_total=80, source=UsageSource.PROVIDER,
    ),
)  # fmt: skip


class _Nothing:
    """A recorder that has nothing to say."""

    failing = False
    gaps_counted = 0
    waiting = 0

    def missing(self, _rollout_id: str) -> int:
        return 0


def desk(database: Database) -> Desk:
    upstreams = allow_list({})
    return Desk(
        database=database,
        recorder=_Nothing(),
        keyring=Keyring(b"k" * 32),
        upstreams=upstreams,
        prices=PriceTable(upstreams),
        policy=EVIDENCE,
        proof_required=False,
        new_id=lambda: "unused",
        wall=time.time,
    )


def fill(database: Database, first: int, last: int) -> None:
    """Rollouts of 1,000 calls each, numbered from first up to last."""
    for rollout in range(first, last):
        calls = [
            replace(
                CALL,
                id=f"{rollout:08}{number:08}",
                rollout_id=f"rollout-{rollout}",
                timing=replace(CALL.timing, started_at=float(number)),
            )
            for number in range(PER_ROLLOUT)
        ]
        database.write(Batch(recorded=calls), worker="bench")
        if rollout % 100 == 99:
            say(f"  {(rollout + 1) * PER_ROLLOUT:,} exchanges")


async def make_batch(asked: Desk, database: Database, size: int) -> None:
    """A batch of rollouts with one call and an outcome each."""
    for number in range(size):
        facts = RolloutRequest(id=f"b-{number}", batch="b", task=f"t-{number}", model="gpt-5")
        await asked.register(facts, public_url="http://127.0.0.1")
    for start in range(0, size, 1000):
        calls = [
            replace(CALL, id=f"b{number}", rollout_id=f"b-{number}")
            for number in range(start, min(size, start + 1000))
        ]
        database.write(Batch(recorded=calls), worker="bench")
    outcome = OutcomeRequest(status="success", prompts_executed=1, rewards={"reward": 1.0})
    for number in range(size):
        await asked.report(f"b-{number}", outcome)


async def median_ms(questions: Sequence[Awaitable[object]]) -> float:
    took = []
    for question in questions:
        began = time.perf_counter()
        await question
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


def as_the_service_runs() -> None:
    """Garbage is looked for as seldom as in the service (`proxy/app.py`)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


async def measure(sizes: list[int], batch: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = Database(str(Path(folder) / "bench.db"))
        database.prepare()
        asked = desk(database)
        filled = 0
        for size in sorted(sizes):
            fill(database, filled, size // PER_ROLLOUT)
            filled = size // PER_ROLLOUT
            as_the_service_runs()
            step = max(1, filled // 25)
            names = [f"rollout-{number * step}" for number in range(25)]
            verdict = await median_ms([asked.verdict(name) for name in names])
            say(f"a verdict over {PER_ROLLOUT:,} of {size:,} exchanges: {verdict:.1f} ms")
        say(f"a batch of {batch:,} rollouts is made")
        await make_batch(asked, database, batch)
        first = await median_ms([asked.batch("b")])
        say(f"its summary: {first:.1f} ms")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--exchanges", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--batch", type=int, default=10_000)
    options = parser.parse_args()
    say(str(description()))
    asyncio.run(measure(options.exchanges, options.batch))


if __name__ == "__main__":
    main()
