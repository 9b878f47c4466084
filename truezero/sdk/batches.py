"""Parts of a batch that both clients share: its plan, its samples at once, its settled groups.

Whether a rollout counts and whether to run it again is the service's decision.
"""

from __future__ import annotations

import _thread
import asyncio
import hashlib
import itertools
import json
import logging
import sys
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from truezero import models
from truezero.models.batches import NO_ADVANTAGES
from truezero.sdk.arguments import GroupFilters, LaneFacts, RolloutFacts, RunFacts
from truezero.sdk.errors import MeasuringStopped, NotMeasured, ServiceError
from truezero.sdk.events import Event
from truezero.sdk.rest import next_attempts
from truezero.sdk.rollouts import Skipped

log = logging.getLogger("truezero")

# --- plan ---
#
# The tasks to run, and when to retry them.


Task = TypeVar("Task")
Value = TypeVar("Value")
Rewards = float | Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedSample:
    """The outcome of one task, or of one of its repeats.

    ``result`` and ``verdict`` belong to its last attempt; they are None if none was admitted, and
    ``skipped`` says why, or if its lane was down all the while, and ``rollout_id`` is empty.
    ``attempts`` counts those of this run: none if it was measured before. ``error`` is the
    exception of the runner's function in the last attempt. ``given_up`` says why it was not waited
    for its next attempt.
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

    @property
    def measured(self) -> bool:
        """True if its last attempt is a measurement."""
        return self.verdict is not None and self.verdict.scoreable == "yes"

    @property
    def why_not(self) -> str:
        """The reason why it is no measurement, and what to do about it."""
        why = self.skipped or self.given_up
        if why is None and self.verdict is not None:
            why = self.verdict.sentence or self.verdict.retry.reason
        return f"{self.task} is not measured: {why}"


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


@dataclass(slots=True, kw_only=True)
class Tries:
    """The tries at one sample: the next one's number, how many were made, and the last one.

    Without a number the service gives it one, and ``repeat`` is then the sample's.
    ``waited_s`` are the seconds that it has waited since it was last answered; the next try is due
    at ``due_at``, on the clock of a run, and ``stated`` says that the provider asked for that.
    ``unseen``: it was skipped once by a breaker that was not seen to be shut. ``suspected``
    counts the last tries that ended in a suspected failure.
    """

    next_attempt: int | None
    repeat: int | None = None
    made: int = 0
    waited_s: float = 0.0
    due_at: float = 0.0
    stated: bool = False
    unseen: bool = False
    suspected: int = 0
    rollout_id: str = ""
    result: models.Result | None = None
    verdict: models.Verdict | None = None
    error: Exception | None = None

    def repeat_of(self, sample: Sample[Any]) -> int | None:
        """Return which repeat of its task a sample is."""
        return sample.repeat if self.repeat is None else self.repeat

    def begun(self, *, repeat: int | None, attempt: int | None) -> None:
        """Take the numbers of a try that has begun, if the service gave them."""
        if self.next_attempt is None:
            self.repeat, self.next_attempt = repeat, attempt

    def may_repeat_unseen(self) -> bool:
        """Return True once: a probe may have closed its lane before anybody looked."""
        first, self.unseen = not self.unseen, True
        return first

    def go_on(self) -> None:
        """Have the next try follow the last one."""
        if self.next_attempt is not None:
            self.next_attempt += 1

    def ended(
        self, sample: Sample[Any], *, given_up: str | None = None, skipped: Skipped | None = None
    ) -> FinishedSample:
        """Return what became of the sample."""
        if skipped is not None:
            return FinishedSample(
                task=sample.name,
                repeat=self.repeat_of(sample),
                rollout_id=skipped.rollout_id,
                attempts=self.made,
                skipped=skipped.reason,
            )
        return FinishedSample(
            task=sample.name,
            repeat=self.repeat_of(sample),
            rollout_id=self.rollout_id,
            attempts=self.made,
            result=self.result,
            verdict=self.verdict,
            error=self.error,
            given_up=given_up,
        )


_DOUBLINGS = 6  # until a drawn wait is as long as it gets
_LEAST_S = 0.001  # of a wait
PROBE_S = 1.0
"""The seconds after which to look again what has become of a breaker's probe."""
DRAWN_S = 60.0
"""The longest wait that the service draws, in seconds; it begins with 1 s and doubles."""
SUSPECTED_TRIES = 3
"""Tries in a row, each without any output, after which someone should look first."""


class LanePatience:
    """The waiting of a run: for its lane while that is down, and between the tries at a sample.

    ``answered`` counts the tries that were; ``started`` is true once there was one.

    Arguments:
        most_s: the seconds that a sample waits in all until it is answered, and that a run waits
            for a lane that answers nobody.
        retries: False if no sample is run again.
        suspected: tries in a row at a sample that may end in a suspected failure.
    """

    def __init__(
        self,
        most_s: float,
        *,
        retries: bool,
        suspected: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most_s = most_s
        self.answered = 0
        self.started = False
        self._retries = retries
        self._suspected = suspected
        self._clock = clock
        self._until: float | None = None

    def told(self, tries: Tries, verdict: models.Verdict) -> None:
        """Note what became of a try."""
        silent = verdict.health == "suspected_api_error" and verdict.scoreable == "no"
        tries.suspected = tries.suspected + 1 if silent else 0
        if verdict.health == "healthy" or verdict.output_tokens:
            self.answered += 1
            self._until = None
            tries.waited_s = 0.0

    def left_s(self, tries: Tries, turn: models.LaneTurn) -> float:
        """Return for how many seconds a sample may still wait for its turn."""
        if turn.state == "answering":
            self._until = None
        elif self._until is None:
            self._until = self._clock() + self.most_s
        ends_s = self.most_s if self._until is None else self._until - self._clock()
        left_s = min(self.most_s - tries.waited_s, ends_s)
        return left_s if left_s > _LEAST_S else 0.0

    def goes_on(self, tries: Tries, verdict: models.Verdict) -> bool:
        """Return True if a sample is to be tried again, and note when: its wait begins now."""
        again = verdict.retry.eligible or 0 < tries.suspected < self._suspected
        if not (self._retries and again) or self.gives_up(tries, verdict):
            return False
        wait_s = verdict.retry.after_s or 0.0
        tries.stated = _stated(tries, wait_s)
        if not tries.stated:
            wait_s = min(wait_s, self.most_s - tries.waited_s)
        tries.due_at = self._clock() + wait_s
        return True

    def wait_s(self, tries: Tries) -> float:
        """Return the seconds until the next try at a sample is due; 0 if it is."""
        return max(tries.due_at - self._clock(), 0.0)

    def gives_up(self, tries: Tries, verdict: models.Verdict) -> str | None:
        """Return why a try that the service advises is not waited for; None if none is advised."""
        if not (self._retries and verdict.retry.eligible):
            return None
        lane, limit = verdict.lane or "the provider", f"{self.most_s:g} s (max_wait_s)"
        wait_s = verdict.retry.after_s or 0.0
        if tries.waited_s >= self.most_s:
            return f"{lane} did not answer within {limit}: run it again once it answers"
        if wait_s > self.most_s and _stated(tries, wait_s):
            return f"{lane} is to be left alone for {wait_s:g} s, longer than {limit}"
        return None

    def over(self, turn: models.LaneTurn) -> str:
        """Return why a lane that is down is not waited for any longer."""
        down = (turn.sentence or "the provider answers nobody").partition(": ")[0]
        return f"{down}: not waited for longer than {self.most_s:g} s (max_wait_s); run it again"


def _stated(tries: Tries, wait_s: float) -> bool:
    """Return True if a wait is longer than any that the service draws: the provider's own."""
    return wait_s > min(2.0 ** min(tries.next_attempt or 0, _DOUBLINGS), DRAWN_S)


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


class EarlierTries:
    """The tries that a batch already has.

    Arguments:
        items: the batch's rollouts.
    """

    def __init__(self, items: Sequence[models.RolloutItem]) -> None:
        self._following = next_attempts(items)
        self._uncounted = {each.task for each in items if each.repeat is each.attempt is None}
        self._measured = {
            (each.task, each.repeat): each.id
            for each in reversed(items)
            if each.scoreable == "yes" and not each.provisional
        }

    def measured(self, plan: Iterable[Sample[Any]]) -> dict[tuple[str, int | None], str]:
        """Return the rollouts by which samples are measured, by task and repeat; say how many."""
        places = [(sample.name, sample.repeat) for sample in plan]
        known = {place: self._measured[place] for place in places if place in self._measured}
        if known:
            log.warning("%d of %d are measured already: not run again", len(known), len(places))
        return known

    def of(self, sample: Sample[Any]) -> Tries:
        """Return the tries at a sample before its first one of this run."""
        if sample.repeat is None and sample.name in self._uncounted:
            return Tries(next_attempt=None)
        return Tries(next_attempt=self._following.get((sample.name, sample.repeat), 0))


def run_name(plan: Iterable[Sample[Any]]) -> str:
    """Return the name of a run of these samples: the same when it is resumed."""
    samples = sorted({(each.name, each.repeats or 1) for each in plan})
    return hashlib.blake2b(json.dumps(samples).encode(), digest_size=8).hexdigest()


class Progress:
    """Shows what became of samples, and who waits for what since when; here in the log."""

    def __init__(self) -> None:
        self._said = ""

    def finished(self, ran: FinishedSample) -> None:
        """Show that a sample has ended."""

    def waits(self, sample: str, turn: models.LaneTurn | None) -> None:
        """Show that a sample waits for its lane, or, without a turn, that it does no longer."""
        down = "" if turn is None else (turn.sentence or "").partition(": ")[0]
        if down and down != self._said:
            self._said = down
            log.warning("%s waits: %s", sample, down)


class ProgressBar(Progress):
    """The same beside a bar.

    Arguments:
        show: shows a line, and takes how many further samples have ended.
    """

    def __init__(self, show: Callable[[str, int], None]) -> None:
        super().__init__()
        self._show = show
        self._counts: dict[str, int] = {}
        self._waiting: dict[str, str] = {}

    def finished(self, ran: FinishedSample) -> None:
        """Show that a sample has ended."""
        health = "skipped" if ran.verdict is None else ran.verdict.health
        self._counts[health] = self._counts.get(health, 0) + 1
        self._show(self._line(), 1)

    def waits(self, sample: str, turn: models.LaneTurn | None) -> None:
        """Show that a sample waits for its lane, or, without a turn, that it does no longer."""
        before = dict(self._waiting)
        if turn is None:
            self._waiting.pop(sample, None)
        else:
            self._waiting[sample] = turn.sentence or "the lane answers nobody"
        if before != self._waiting:
            self._show(self._line(), 0)

    def _line(self) -> str:
        parts = [f"{count} {name}" for name, count in self._counts.items()]
        waiting = list(self._waiting.values())
        if waiting:
            parts.append(f"{len(waiting)} waiting: {waiting[-1]}")
        return ", ".join(parts)


@contextmanager
def progress_table(total: int, enabled: bool | None) -> Iterator[Progress]:
    """Show a progress bar; by default (``enabled`` is None) only on a terminal."""
    if not (sys.stderr.isatty() if enabled is None else enabled):
        yield Progress()
        return
    from rich.console import Console  # noqa: PLC0415  only loaded where it is drawn
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn  # noqa: PLC0415
    from rich.progress import Progress as Bars  # noqa: PLC0415

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    with Bars(*columns, console=Console(stderr=True)) as bars:
        bar = bars.add_task("", total=total)
        yield ProgressBar(lambda line, ended: bars.update(bar, advance=ended, description=line))


# --- samples at once ---
#
# The only part that threads and tasks do each in their own way.


class Stop(threading.Event):
    """Set where no further sample starts; a thread waits for it so many seconds at most."""


def run_in_threads(
    plan: Sequence[Sample[Any]],
    one: Callable[[Sample[Any], Stop, Progress], FinishedSample | None],
    *,
    concurrency: int,
    progress: bool | None,
) -> tuple[FinishedSample, ...]:
    """Run samples in threads, so many at once; return what became of them, in their order.

    Arguments:
        one: runs a sample; a wait before an attempt ends where all is to stop. Returns None if
            the sample is to go on after all that have not started.

    Raises:
        ServiceError: the service became unavailable; no further sample was started.
    """
    stop = Stop()

    def unless_stopped(sample: Sample[Any]) -> FinishedSample | None:
        if stop.is_set():
            return None
        try:
            return one(sample, stop, shown)
        except ServiceError:
            stop.set()  # before this thread takes the next sample
            raise

    results: dict[int, FinishedSample] = {}
    with (
        progress_table(len(plan), progress) as shown,
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
                        shown.finished(ran)
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
    one: Callable[[Sample[Any], AsyncStop, Progress], Awaitable[FinishedSample | None]],
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
                    ran = await one(sample, stop, shown)
                except ServiceError:
                    stop.set()
                    raise
                if ran is not None:
                    shown.finished(ran)
                    return ran
        return None

    with progress_table(len(plan), progress) as shown:
        running = [asyncio.ensure_future(unless_stopped(sample)) for sample in plan]
        finished = await asyncio.gather(*running, return_exceptions=True)
    for each in finished:
        if isinstance(each, BaseException):
            raise each
    return tuple(each for each in finished if isinstance(each, FinishedSample))


# --- lanes ---


def main_model(facts: LaneFacts) -> str | None:
    """Return the model that facts register, the first of several."""
    model = facts.get("model")
    return model if model is None or isinstance(model, str) else next(iter(model), None)


def of_lane(lanes: Sequence[models.BreakerLane], facts: LaneFacts) -> list[models.BreakerLane]:
    """Return the breakers that may stop a rollout with these facts, whatever its key."""
    upstream, model = facts.get("upstream"), main_model(facts)
    if upstream is None or model is None:
        return list(lanes)
    return [lane for lane in lanes if lane.lane.startswith(f"{upstream}/{model}/")]


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


def warn_of_waiting(wait_for_health: object) -> None:
    """Warn that the argument ``wait_for_health`` of the caller's caller is gone, if it is given."""
    if wait_for_health is not None:
        said = "wait_for_health is gone, and has no effect: waiting is always on"
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


def rewards_of(value: object) -> Rewards | None:
    """Return what a measured function returned if it is a reward or rewards by name, else None."""
    if isinstance(value, int | float):
        return float(value)
    return value if isinstance(value, Mapping) else None


def not_measured(ended: FinishedSample, stop: Literal["raise", "interrupt"]) -> BaseException:
    """Return what ends the caller of a task that is not measured.

    Arguments:
        stop: ``interrupt`` ends loops, too, that swallow exceptions, of whatever thread.
    """
    if stop == "raise":
        return NotMeasured(ended.why_not)
    if threading.current_thread() is not threading.main_thread():
        log.error("%s", ended.why_not)  # the main thread gets a bare KeyboardInterrupt
        _thread.interrupt_main()
    return MeasuringStopped(ended.why_not)


class BaseBatch:
    """A batch's name and the facts that its rollouts share."""

    def __init__(self, name: str, facts: LaneFacts) -> None:
        self.name = name
        self._facts = facts
        self._repeats: dict[str, Iterator[int]] = {}

    def _next_repeat(self, task: str, known: Sequence[models.RolloutItem]) -> int:
        """Return the number of a task's next sample; ``known`` are its rollouts at first."""
        first = 1 + max((item.repeat or 0 for item in known), default=-1)
        return next(self._repeats.setdefault(task, itertools.count(first)))

    def _rollout_facts(self, task: str | None, facts: RunFacts) -> RolloutFacts:
        return {**self._facts, "batch": self.name, "task": task, **facts}

    def _sample_facts(self, sample: Sample[Task], tries: Tries, facts: LaneFacts) -> RunFacts:
        own: RunFacts = {
            "repeat": tries.repeat_of(sample),
            "repeats": sample.repeats,
            "attempt": tries.next_attempt,
        }
        return {**facts, **own}
