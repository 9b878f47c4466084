"""What a verdict and a batch's summary cost, in databases of growing size.

    python -m benchmarks.verdicts [--exchanges 100000 1000000 10000000] [--batch 10000]

It measures the control services in this process, without HTTP or network; beside the time stands
the CPU time of all threads, which other work on the machine changes less. Ten million exchanges
take 3 GB of the folder for temporary files (``TMPDIR``), until it ends.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from benchmarks.machine import description
from benchmarks.run import Round, Rounds, save, say, summary
from classifier.records import Cause, Ending, Exchange, Timing, Usage, UsageSource
from classifier.verdicts import Subcategory
from proxy.control import batches, judge, rollouts
from proxy.control.queries import Service
from proxy.server.background import GC_THRESHOLDS
from proxy.store import triggers
from proxy.store.database import Database
from proxy.store.rows import exchange_row
from proxy.store.tables import EXCHANGE_COLUMNS, CommitBatch
from tests.fakes.control import control_over
from truezero.models import OutcomeRequest, RolloutRequest

PER_ROLLOUT = 1000
ASKED = 25  # rollouts of each size
SUMMED = 9  # times that each batch is summed up
FIRST_AT = 1_750_000_000.0
CALL = Exchange(
    id="x", rollout_id="r", upstream="openai", api="openai.chat", model="gpt-5",
    answered_model="gpt-5",
    timing=Timing(started_at=FIRST_AT, first_byte_s=0.2, duration_s=0.5),
    status=200, ending=Ending.COMPLETE, streamed=True, finish_reason="tool_calls", tool_calls=1,
    output_seen=True, has_tools=True, key_digest="key-00000000",
    usage=Usage(
        input_tokens=900, output_tokens=80, cached_input_tokens=500, total_tokens=980,
        input_total=900, output_total=80, source=UsageSource.PROVIDER,
    ),
)  # fmt: skip
FAILED = Exchange(
    id="x", rollout_id="r", upstream="openai", api="openai.chat", model="gpt-5",
    timing=CALL.timing, status=429, ending=Ending.COMPLETE, streamed=True, has_tools=True,
    key_digest="key-00000000",
    cause=Cause(subcategory=Subcategory.RATE_LIMIT, transient=True, rule="status.429"),
)  # fmt: skip


INSERT_CALL = (
    f"INSERT INTO exchanges ({', '.join(EXCHANGE_COLUMNS)})"
    f" VALUES ({', '.join('?' * len(EXCHANGE_COLUMNS))})"
)


@contextlib.contextmanager
def past_the_service(file: Path) -> Iterator[sqlite3.Connection]:
    """Have rows written into a new database in a third of the time: sums are made at the end."""
    Database(str(file)).prepare()
    with closing(sqlite3.connect(file)) as raw, raw:
        raw.execute("PRAGMA synchronous = OFF")
        made = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        for (name,) in raw.execute(made).fetchall():
            raw.execute(f"DROP TRIGGER {name}")
        yield raw
        for statement in (triggers.usage_fill("sqlite"), triggers.MARK_ALL):
            raw.execute(statement)
        for statement in triggers.statements("sqlite"):
            raw.execute(statement)


def fill(file: Path, first: int, last: int) -> None:
    """Rollouts of 1,000 calls each, numbered from first up to last, past the service."""
    with closing(sqlite3.connect(file, isolation_level=None)) as raw:
        raw.execute("PRAGMA synchronous = OFF")
        for start in range(first, last, 100):
            numbers = range(start, min(last, start + 100))
            raw.execute("BEGIN")
            raw.executemany(
                "INSERT INTO rollouts (id, created_at) VALUES (?, ?)",
                [(f"rollout-{number}", FIRST_AT + number) for number in numbers],
            )
            raw.executemany(INSERT_CALL, (row for number in numbers for row in calls(number)))
            raw.execute("COMMIT")
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def calls(rollout: int) -> Iterator[tuple[object, ...]]:
    """Return the calls of one rollout as rows, one a second."""
    _, _, _, *rest = exchange_row(CALL)
    for number in range(PER_ROLLOUT):
        begun = FIRST_AT + rollout + number
        yield (f"rollout-{rollout}", f"{rollout:016}{number:016}", begun, *rest)


async def make_batch(
    service: Service, database: Database, batch: str, size: int, failing: int
) -> None:
    """Create a batch of rollouts with one call and an outcome each; every n-th call failed."""
    names = [f"{batch}-{number}" for number in range(size)]
    for number, name in enumerate(names):
        facts = RolloutRequest(id=name, batch=batch, task=f"t-{number}", attempt=0, model="gpt-5")
        await rollouts.register(service, facts, public_url="http://127.0.0.1")
    said = [FAILED if failing and n % failing == 0 else CALL for n in range(size)]
    ended = [replace(x, id=name, rollout_id=name) for x, name in zip(said, names, strict=True)]
    for start in range(0, size, 1000):
        database.calls.write(CommitBatch(recorded=ended[start : start + 1000]), worker="bench")
    outcome = OutcomeRequest(status="success", prompts_executed=1, rewards={"reward": 1.0})
    for name in names:
        await rollouts.report(service, name, outcome)


def as_the_service_runs() -> None:
    """Garbage is looked for as seldom as in the service (`proxy/app.py`)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


async def verdicts(database: Database, filled: int) -> list[Round]:
    """Rollouts from everywhere in the database, each judged for the first time."""
    service, step = control_over(database), max(1, filled // ASKED)
    names = [f"rollout-{number}" for number in range(0, filled, step)[:ASKED]]
    return [await _round(judge.verdict(service, name)) for name in names]


async def summaries(database: Database, batch: str) -> list[Round]:
    """Measure the summary without a cache, as after every change."""
    return [await _round(batches.summary(control_over(database), batch)) for _ in range(SUMMED)]


async def looks(database: Database, batch: str) -> list[Round]:
    """Asked again while nothing has changed."""
    service = control_over(database)
    await batches.summary(service, batch)
    return [await _round(batches.summary(service, batch)) for _ in range(SUMMED)]


async def _round(question: Awaitable[object]) -> Round:
    began, spent = time.perf_counter(), time.process_time()
    await question
    took, used = time.perf_counter() - began, time.process_time() - spent
    return {"truezero": {"ms": took * 1000, "cpu_ms": used * 1000}}


async def measure(sizes: list[int], batch: int) -> Rounds:
    """Every figure in every size of database, rounds by its name."""
    found: Rounds = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.db"
        database = Database(str(file))
        database.prepare()
        say(f"two batches of {batch:,} rollouts are made")
        await make_batch(control_over(database), database, "healthy", batch, 0)
        await make_batch(control_over(database), database, "failing", batch, 5)
        filled = 0
        for size in sorted(sizes):
            say(f"{size:,} exchanges are written")
            fill(file, filled, size // PER_ROLLOUT)
            filled = size // PER_ROLLOUT
            as_the_service_runs()
            found |= {
                f"verdict_{size}": await verdicts(database, filled),
                f"summary_{size}": await summaries(database, "healthy"),
                f"summary_fifth_failed_{size}": await summaries(database, "failing"),
                f"summary_again_{size}": await looks(database, "healthy"),
            }
        database.close()
    return found


LABELS = {
    "verdict": "verdict over 1,000 exchanges",
    "summary": "summary of a batch",
    "summary_fifth_failed": "the same, every fifth failed",
    "summary_again": "asked again, unchanged",
}


def table(rounds: Rounds) -> dict[str, dict[str, object]]:
    """Print a row for each figure; return them as ``make bench`` writes its own."""
    print(f"{'':30}{'exchanges':>12}{'ms':>8}{'CPU ms':>8}")
    rows: dict[str, dict[str, object]] = {}
    for name, measured in rounds.items():
        numbers = {unit: summary(measured, unit, "", "") for unit in ("ms", "cpu_ms")}
        rows |= {f"{name}.{unit}": row for unit, row in numbers.items()}
        what, _, size = name.rpartition("_")
        shown = "".join(_shown(row["medians"]) for row in numbers.values())
        print(f"{LABELS[what]:30}{int(size):>12,}{shown}")
    return rows


def _shown(medians: object) -> str:
    assert isinstance(medians, dict)
    return f"{medians['truezero']:>8.1f}"


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    sizes = [100_000, 1_000_000, 10_000_000]
    parser.add_argument("--exchanges", type=int, nargs="+", default=sizes)
    parser.add_argument("--batch", type=int, default=10_000)
    options = parser.parse_args()
    about = description()
    say(f"on {about}")
    rounds = asyncio.run(measure(options.exchanges, options.batch))
    figures = table(rounds)
    found = {"machine": about, "batch": options.batch, "figures": figures, "rounds": rounds}
    say(f"\nwritten to {save(found)}")


if __name__ == "__main__":
    main()
