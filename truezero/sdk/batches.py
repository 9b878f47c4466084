"""Parts of a batch that both clients share: its plan, its samples at once, its settled groups.

Whether a rollout counts and whether to run it again is the service's decision.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import sys
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from truezero import models
from truezero.models.batches import NO_ADVANTAGES
from truezero.sdk.arguments import GroupFilters, LaneFacts, RolloutFacts, RunFacts
from truezero.sdk.errors import ServiceError
from truezero.sdk.events import Event

# --- plan ---
#
# The tasks to run, and when to retry them.


Task = TypeVar("Task")
Rewards = float | Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedSample:
    """The outcome of one task, or of one of its repeats.

    ``result`` and ``verdict`` belong to its last attempt; they are None if none was admitted,
    and ``skipped`` says why. ``attempts`` counts those of this run. ``error`` is the exception
    of the runner's function in the last attempt. ``given_up`` says why a retry that the service
    advises was not waited for.
    """

    task: str
    rollout_id: str
    attempts: int
    result: models.Result | None = None
    verdict: models.Verdict | None = None
    skipped: str | None = None
    error: Exception | None = None
    repeat: int | None = None
    given_up: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Generic[Task]):
    """A task to run, by its name, and which of its repeats; both None if each runs once."""

    name: str
    repeat: int | None
    repeats: int | None
    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRun:
    """The outcomes of a run, in the order of its tasks, and the summary of the whole batch."""

    results: tuple[FinishedSample, ...]
    summary: models.BatchSummary


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


@dataclass(slots=True, kw_only=True)
class Tries:
    """The attempts at one sample: the next one's number, how many were made, and the waits.

    ``waited_s`` are the seconds that it has waited since its lane last answered it.
    """

    next_attempt: int
    made: int = 0
    waited_s: float = 0.0


class LaneWaits:
    """The waits of a run's samples for their lane, and what ended attempts tell of it.

    Arguments:
        most_s: the seconds that a sample waits for a lane that answers nobody. Once one has
            waited for so long, no other waits until somebody is answered.
        retries: False if no sample is run again.
    """

    def __init__(
        self, most_s: float, *, retries: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most_s = most_s
        self.retries = retries
        self._clock = clock
        self._over = False
        self._lock = threading.Lock()
        self._probe_at = -math.inf
        self._probe_each_s = HEALTH_EACH_S
        self._failing: set[int] = set()
        self.answered = 0

    def told(self, verdict: models.Verdict, tries: Tries) -> None:
        """Note whether an attempt was answered."""
        with self._lock:
            if verdict.health == "healthy" or verdict.output_tokens:
                self.answered += 1
                self._over, self._probe_each_s = False, HEALTH_EACH_S
                self._failing = set()
                tries.waited_s = 0.0
            else:
                self._failing = {*self._failing, id(tries)}

    def steps_aside(self, tries: Tries) -> bool:
        """Return True if samples that have not started are to go first: it may fail alone."""
        return tries.waited_s > ASIDE_S or self._failing <= {id(tries)}

    def left_s(self, tries: Tries) -> float:
        """Return for how many seconds a sample may still wait."""
        if tries.waited_s >= self._most_s:
            self._over = True
        return 0.0 if self._over else self._most_s - tries.waited_s

    def wait_s(self, advised_s: float, tries: Tries) -> float | None:
        """Return the wait in seconds before the next attempt, None if there is to be none.

        Only a wait that the service has drawn is cut short: a longer one is the provider's.
        """
        left_s = self.left_s(tries)
        if not left_s:
            return None
        if advised_s <= min(2 ** min(tries.next_attempt, _DOUBLINGS), DRAWN_S):
            return min(advised_s, left_s)
        return advised_s if advised_s <= self._most_s else None

    def given_up(self, verdict: models.Verdict) -> str | None:
        """Return why a retry that the service advises was not waited for; None if none is."""
        if not (self.retries and verdict.retry.eligible):
            return None
        lane, wait_s = verdict.lane or "the provider", verdict.retry.after_s or 0.0
        limit = f"{self._most_s:g} s (max_wait_s)"
        if self._over:
            return f"{lane} answered nobody for {limit}: run it again once it answers"
        return f"{lane} is to be left alone for {wait_s:g} s, longer than {limit}"

    def probes(self) -> bool:
        """Return True if one sample may start on a lane that is down, to see whether it still is.

        The next one may after 5 s, 10 s and so on up to a minute.
        """
        with self._lock:
            now = self._clock()
            if now < self._probe_at:
                return False
            self._probe_at = now + self._probe_each_s
            self._probe_each_s = min(2 * self._probe_each_s, PROBE_EACH_S)
            return True


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
def progress_table(total: int, enabled: bool | None) -> Iterator[Callable[[FinishedSample], None]]:
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

        def tell(ran: FinishedSample) -> None:
            health = "skipped" if ran.verdict is None else ran.verdict.health
            counts[health] = counts.get(health, 0) + 1
            description = ", ".join(f"{count} {name}" for name, count in counts.items())
            progress.update(bar, advance=1, description=description)

        yield tell


# --- samples at once ---
#
# The only part that threads and tasks do each in their own way.


class Stop(threading.Event):
    """Set where no further sample starts; a thread waits for it so many seconds at most."""


def run_in_threads(
    plan: Sequence[Sample[Any]],
    one: Callable[[Sample[Any], Stop], FinishedSample | None],
    *,
    concurrency: int,
    progress: bool | None,
) -> tuple[FinishedSample, ...]:
    """Run samples in threads, so many at once; return what became of them, in their order.

    Arguments:
        one: runs a sample; a wait between its attempts ends where all is to stop. Returns None
            if the sample is to go on after all that have not started.

    Raises:
        ServiceError: the service became unavailable; no further sample was started.
    """
    stop = Stop()

    def unless_stopped(sample: Sample[Any]) -> FinishedSample | None:
        if stop.is_set():
            return None
        try:
            return one(sample, stop)
        except ServiceError:
            stop.set()  # before this thread takes the next sample
            raise

    results: dict[int, FinishedSample] = {}
    with (
        progress_table(len(plan), progress) as tell,
        ThreadPoolExecutor(concurrency, "rollout") as pool,
    ):
        running = {pool.submit(unless_stopped, each): place for place, each in enumerate(plan)}
        try:
            while running:
                put_off: dict[Future[FinishedSample | None], int] = {}
                for finished in as_completed(running):
                    place = running[finished]
                    if (ran := finished.result()) is not None:
                        results[place] = ran
                        tell(ran)
                    elif not stop.is_set():
                        put_off[pool.submit(unless_stopped, plan[place])] = place
                running = put_off
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return tuple(results[place] for place in sorted(results))


class AsyncStop:
    """The same for asyncio."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.is_set = self._event.is_set
        self.set = self._event.set

    async def wait(self, seconds: float) -> None:
        """Sleep, unless all is to stop."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), seconds)


async def run_in_tasks(
    plan: Sequence[Sample[Any]],
    one: Callable[[Sample[Any], AsyncStop], Awaitable[FinishedSample | None]],
    *,
    concurrency: int,
    progress: bool | None,
) -> tuple[FinishedSample, ...]:
    """Run samples in asyncio's tasks, like ``run_in_threads``."""
    stop, slots = AsyncStop(), asyncio.Semaphore(concurrency)

    async def unless_stopped(sample: Sample[Any]) -> FinishedSample | None:
        while not stop.is_set():
            async with slots:
                if stop.is_set():
                    return None
                try:
                    ran = await one(sample, stop)
                except ServiceError:
                    stop.set()
                    raise
                if ran is not None:
                    tell(ran)
                    return ran
        return None

    with progress_table(len(plan), progress) as tell:
        running = [asyncio.ensure_future(unless_stopped(sample)) for sample in plan]
        finished = await asyncio.gather(*running, return_exceptions=True)
    for each in finished:
        if isinstance(each, BaseException):
            raise each
    return tuple(each for each in finished if isinstance(each, FinishedSample))


# --- health of a lane ---
#
# A task waits for it before it starts, where that is asked for.


HEALTH_EACH_S = 5.0
"""Seconds between two looks at the health of a lane."""
PROBE_EACH_S = 60.0
"""The longest time between two probes of a run that waits for health, in seconds."""
ASIDE_S = 15.0
"""Seconds of waiting after which a sample lets those go first that have not started."""
_DOUBLINGS = 5  # until a drawn wait is as long as it gets
DRAWN_S = 30.0
"""The longest wait that the service draws, in seconds; it begins with 1 s and doubles."""
STALE_S = 180.0
"""Age in seconds from which on a word says nothing of now. It is counted from the minute of the
lane's last call, so that nobody has called the lane for two minutes at least."""


def is_down(
    report: models.StatusReport,
    *,
    upstream: str | None = None,
    model: str | None = None,
    within_s: float = math.inf,
) -> bool:
    """Return True if calls to an upstream and model fail, whichever key they are made with.

    Arguments:
        upstream, model: as they are registered; None takes any. A provider's name before the model
            (``openai/gpt-5``) is passed over.
        within_s: a lane that was last called longer ago than so many seconds is passed over.
    """
    words = {
        lane.word
        for lane in report.items
        if lane.server is None
        and (lane.last_at is None or report.at - lane.last_at <= within_s)
        and upstream in (None, lane.upstream)
        and (model is None or _plain(model) == _plain(lane.model or ""))
    }
    return "down" in words and not words & {"healthy", "degraded"}


def main_model(facts: LaneFacts) -> str | None:
    """Return the model that facts register, the first of several."""
    model = facts.get("model")
    return model if model is None or isinstance(model, str) else next(iter(model), None)


def _plain(model: str) -> str:
    return model.rpartition("/")[2].casefold()


# --- groups ---
#
# They come as they settle, from the event stream of the batch.


class SettledGroups:
    """Asks for the groups that have settled, once each time they do, until the batch has ended.

    Those that have already are asked for at the first sign that the stream is open, so that
    none is missed in between; all of them again when the batch ends, when each is final.
    """

    def __init__(self, batch: str, *, min_valid: int = 2) -> None:
        self.batch = batch
        self._min_valid = min_valid
        self._open = False
        self._told: dict[str, tuple[int, bool, list[str]]] = {}
        self.ended = False

    def wants(self, event: Event) -> bool:
        """Return True if groups are to be requested after this event. Any first event will do."""
        return not self._open or event.kind in ("group_settled", "batch_ended")

    def task_of(self, event: Event) -> str | None:
        """Return the task whose groups are to be asked for; None for all."""
        task = event.data["task"] if self._open and event.kind == "group_settled" else None
        self._open = True
        return task

    def asked(self, task: str | None) -> GroupFilters:
        """Return what to ask for: the settled groups of a task, or of all."""
        return {"min_valid": self._min_valid, "settled": True, "task": task}

    def take(self, pages: list[models.GroupPage], *, all_tasks: bool) -> list[models.Group]:
        """Return the groups that were not told of before; note whether the batch has ended."""
        self.ended = all_tasks and all(page.ended for page in pages)
        return [group for page in pages for group in page.items if self._is_new(group)]

    def _is_new(self, group: models.Group) -> bool:
        """Record a group's state. Return True if the group is new, settled anew or became final."""
        before = self._told.get(group.task)
        self._told[group.task] = group.revision, group.final, group.rollout_ids
        return before != self._told[group.task]


def warn_of_method(method: object) -> None:
    """Warn that the argument ``method`` of the caller's caller is gone, if it is given."""
    if method is not None:
        said = f"method is gone, and has no effect: {NO_ADVANTAGES}"
        warnings.warn(said, DeprecationWarning, stacklevel=3)


@contextmanager
def unless_unknown() -> Iterator[None]:
    """Go on where the batch has no rollout yet, and so no group."""
    try:
        yield
    except ServiceError as error:
        if error.code != "unknown_batch":
            raise


# --- batches ---


class BaseBatch:
    """A batch's name and the facts that its rollouts share."""

    def __init__(self, name: str, facts: LaneFacts) -> None:
        self.name = name
        self._facts = facts

    def _rollout_facts(self, task: str | None, facts: RunFacts) -> RolloutFacts:
        return {**self._facts, "batch": self.name, "task": task, **facts}

    def _sample_facts(self, sample: Sample[Task], attempt: int, facts: LaneFacts) -> RunFacts:
        own: RunFacts = {"repeat": sample.repeat, "repeats": sample.repeats, "attempt": attempt}
        return {**facts, **own}
