"""The plan of a batch run: which tasks to run and when to retry them."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from truezero import models
from truezero.sdk import endpoints
from truezero.sdk.rollouts import AsyncRollout, Rollout, Skipped
from truezero.sdk.steps import Pause, Story, Work

Task = TypeVar("Task")
Rewards = float | Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The outcome of one task, or of one of its repeats.

    ``result`` and ``verdict`` belong to its last attempt; they are None if none was admitted,
    and ``skipped`` says why. ``attempts`` counts those of this run. ``error`` is the exception
    of the runner's function in the last attempt.
    """

    task: str
    rollout_id: str
    attempts: int
    result: models.Result | None = None
    verdict: models.Verdict | None = None
    skipped: str | None = None
    error: Exception | None = None
    repeat: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Generic[Task]):
    """A task to run, by its name, and which of its repeats; both None where each runs once."""

    name: str
    repeat: int | None
    repeats: int | None
    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRun:
    """The outcomes of a run, in the order of its tasks, and the summary of the whole batch."""

    results: tuple[Ran, ...]
    summary: models.BatchSummary


R = TypeVar("R", Rollout, AsyncRollout)


def run_until_settled(
    sample: Sample[Any],
    first: int,
    begin: Callable[[int], R],
    play: Callable[[R], Any],
    again: Callable[[models.Verdict], float | None],
) -> Story[Ran]:
    """Run attempts of one sample until the service advises no further one.

    ``play`` runs an attempt and returns the exception it raised; ``again`` returns the wait in
    seconds before the next one, None to stop.
    """
    attempt = first
    while True:
        rollout = begin(attempt)
        error = yield Work(partial(play, rollout))
        count = attempt - first + 1
        if isinstance(error, Skipped):
            return Ran(
                task=sample.name,
                repeat=sample.repeat,
                rollout_id=error.rollout_id,
                attempts=count - 1,
                skipped=error.reason,
            )
        wait_s = again(rollout.verdict)
        if wait_s is None:
            return Ran(
                task=sample.name,
                repeat=sample.repeat,
                rollout_id=rollout.id,
                attempts=count,
                result=rollout.result,
                verdict=rollout.verdict,
                error=error,
            )
        yield Pause(wait_s)
        attempt += 1


def retry_advice(
    max_wait_s: float | None, stopped: Callable[[], bool]
) -> Callable[[models.Verdict], float | None]:
    """Return a function that gives the advised wait in seconds, None for no retry."""

    def again(verdict: models.Verdict) -> float | None:
        wait_s = verdict.retry.after_s or 0.0
        if max_wait_s is None or not verdict.retry.eligible or wait_s > max_wait_s or stopped():
            return None
        return wait_s

    return again


def next_attempts(batch: str) -> Story[dict[tuple[str, int | None], int]]:
    """Return the number of the next attempt per task and repeat; none is reused."""
    items = yield from endpoints.rollouts(batch=batch)
    following: dict[tuple[str, int | None], int] = {}
    for item in items:
        if item.task is not None:
            key = item.task, item.repeat
            following[key] = max(following.get(key, 0), (item.attempt or 0) + 1)
    return following


def planned_samples(
    tasks: Iterable[Task], name: Callable[[Task], str], repeats: int = 1
) -> list[Sample[Task]]:
    """Return each task with its name, as often as it is to be sampled, one task after the other.

    Raises:
        ValueError: two tasks have the same name, so their attempts would be mixed up; or there
            are no repeats.
    """
    if repeats < 1:
        raise ValueError(f"repeats: {repeats} is less than 1")
    named = [(name(task), task) for task in tasks]
    names: set[str] = set()
    for each, _ in named:
        if each in names:
            raise ValueError(f"tasks: duplicate name {each!r}; pass name= to make names unique")
        names.add(each)
    return [
        Sample(
            name=each,
            repeat=repeat if repeats > 1 else None,
            repeats=repeats if repeats > 1 else None,
            task=task,
        )
        for each, task in named
        for repeat in range(repeats)
    ]


def run_name(plan: Iterable[Sample[Any]]) -> str:
    """Return the name of a run of these samples: the same when it is resumed."""
    samples = sorted({(each.name, each.repeats or 1) for each in plan})
    return hashlib.blake2b(json.dumps(samples).encode(), digest_size=8).hexdigest()


@contextmanager
def progress_table(total: int, enabled: bool | None) -> Iterator[Callable[[Ran], None]]:
    """Show a progress bar; by default (``enabled`` is None) only on a terminal."""
    if not (sys.stderr.isatty() if enabled is None else enabled):
        yield lambda _ran: None
        return
    from rich.console import Console  # noqa: PLC0415  only loaded where it is drawn
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

    counts: dict[str, int] = {}
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("", total=total)

        def tell(ran: Ran) -> None:
            health = "skipped" if ran.verdict is None else ran.verdict.health
            counts[health] = counts.get(health, 0) + 1
            description = ", ".join(f"{count} {name}" for name, count in counts.items())
            progress.update(bar, advance=1, description=description)

        yield tell
