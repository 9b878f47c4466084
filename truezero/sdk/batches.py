"""A batch of rollouts for a harness: register, run, report, and run again.

Whether a rollout counts and whether to run it again is the service's decision.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

from truezero import models
from truezero.sdk import endpoints
from truezero.sdk.arguments import LaneFacts, RolloutFacts, RunFacts
from truezero.sdk.errors import ServiceError
from truezero.sdk.events import Event
from truezero.sdk.rollouts import AsyncPlayer, AsyncRollout, Rollout, Skipped, SyncPlayer
from truezero.sdk.steps import Pause, Story, Work

# --- plan ---
#
# The tasks to run, and when to retry them.


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


# --- groups ---
#
# They come as they settle, from the event stream of the batch.


class SettledGroups:
    """Asks for the groups that have settled, once each time they do, until the batch has ended.

    Those that have already are asked for at the first sign that the stream is open, so that
    none is missed in between; all of them again when the batch ends, when each is final.
    """

    def __init__(
        self, batch: str, *, method: models.AdvantageMethod = "grpo", min_valid: int = 2
    ) -> None:
        self._batch = batch
        self._method: models.AdvantageMethod = method
        self._min_valid = min_valid
        self._open = False
        self._told: dict[str, tuple[int, bool, list[str]]] = {}
        self.ended = False

    def wants(self, event: Event) -> bool:
        """Whether groups are to be asked for after this event; alive ones count."""
        return not self._open or event.kind in ("group_settled", "batch_ended")

    def after(self, event: Event) -> Story[list[models.Group]]:
        """Return the groups that have settled since the event before."""
        task = event.data["task"] if self._open and event.kind == "group_settled" else None
        self._open = True
        pages = yield from self._pages(task)
        if task is not None and pages[-1].ended:
            pages = yield from self._pages(None)
            task = None
        self.ended = task is None and all(page.ended for page in pages)
        return [group for page in pages for group in page.items if self._is_new(group)]

    def _pages(self, task: str | None) -> Story[list[models.GroupPage]]:
        return endpoints.group_pages(
            self._batch, method=self._method, min_valid=self._min_valid, settled=True, task=task
        )

    def _is_new(self, group: models.Group) -> bool:
        """Whether it has settled anew, or become final, since it was told of before."""
        before = self._told.get(group.task)
        self._told[group.task] = group.revision, group.final, group.rollout_ids
        return before != self._told[group.task]


@contextmanager
def unless_unknown() -> Iterator[None]:
    """Go on where the batch has no rollout yet, and so no group."""
    try:
        yield
    except ServiceError as error:
        if error.code != "unknown_batch":
            raise


# --- batches ---


class _Batch:
    """What both kinds of batch share."""

    def __init__(self, name: str, facts: LaneFacts) -> None:
        self.name = name
        self._facts = facts

    def _rollout_facts(self, task: str | None, facts: RunFacts) -> RolloutFacts:
        return {**self._facts, "batch": self.name, "task": task, **facts}

    def _sample_facts(self, sample: Sample[Task], attempt: int, facts: LaneFacts) -> RunFacts:
        own: RunFacts = {"repeat": sample.repeat, "repeats": sample.repeats, "attempt": attempt}
        return {**facts, **own}


class Batch(_Batch):
    """A named group of rollouts."""

    def __init__(self, client: SyncPlayer, name: str, facts: LaneFacts) -> None:
        super().__init__(name, facts)
        self._client = client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Do nothing: a batch holds no resources."""

    def rollout(self, task: str | None = None, **facts: Unpack[RunFacts]) -> Rollout:
        """Return a rollout of a task; enter it with ``with``."""
        return Rollout(self._client, self._rollout_facts(task, facts))

    def summary(self) -> models.BatchSummary:
        """Return counts, tokens, cost, scores, and the rollouts to run again."""
        return self._client.play(endpoints.summary(self.name))

    def check(self) -> models.Check:
        """Check whether the batch is a valid measurement."""
        return self._client.play(endpoints.check(self.name))

    def rerun(self) -> models.Reruns:
        """Return what to run again, by what is to be done first."""
        return self._client.play(endpoints.rerun(self.name))

    def breaker(self) -> models.Breaker:
        """Return the batch's circuit breakers, lane by lane."""
        return self._client.play(endpoints.breaker(self.name))

    def reset_breaker(self, lane: str | None = None) -> models.Breaker:
        """Allow one probe (half-open) in one open lane, or in all of them."""
        return self._client.play(endpoints.reset_breaker(self.name, lane=lane))

    def events(self, *, after: int | None = None) -> Iterator[Event]:
        """Follow the batch's events from now on; never ends by itself."""
        return self._client.events(self.name, after=after)

    def groups(
        self, *, method: models.AdvantageMethod = "grpo", min_valid: int = 2
    ) -> Iterator[models.Group]:
        """Yield the group of each task as it settles, until the batch has ended.

        Those that have settled come first. A group whose rollouts are run again settles again, with
        the next ``revision``; it is ``final`` if it is not expected to. One settles by itself only
        if its rollouts are registered with ``repeats``, as ``run`` does. The batch has ended when
        every ``run`` has returned and every rollout is judged; whoever starts rollouts otherwise
        calls ``end``.

        Arguments:
            method: of the advantages: ``grpo``, ``rloo`` (leave one out) or ``mean``.
            min_valid: a group that cannot have so many measured rollouts is to be dropped.
        """
        groups = SettledGroups(self.name, method=method, min_valid=min_valid)
        for event in self._client.events(self.name, alive=True):
            if groups.wants(event):
                found: list[models.Group] = []
                with unless_unknown():
                    found = self._client.play(groups.after(event))
                yield from found
                if groups.ended:
                    return

    def begin(self, run: str) -> models.BatchRuns:
        """Say that you start rollouts of the batch, which does not end before you say so.

        Arguments:
            run: your name for it; of several who share a batch, each has another.
        """
        return self._client.play(endpoints.begin(self.name, run))

    def end(self, run: str | None = None) -> models.BatchRuns:
        """Say that you start no more rollouts of the batch; without a name, that nobody does.

        Rollouts without an outcome are given up; an outcome that comes later counts all the same.
        """
        return self._client.play(endpoints.end(self.name, run))

    def run(
        self,
        tasks: Iterable[Task],
        fn: Callable[[Task, Rollout], Rewards | None],
        *,
        name: Callable[[Task], str] = str,
        repeats: int = 1,
        concurrency: int = 8,
        retry: bool = True,
        max_wait_s: float = 300.0,
        progress: bool | None = None,
        **facts: Unpack[LaneFacts],
    ) -> BatchRun:
        """Run every task once, in threads, and again where the service advises it.

        Samples start one task after the other, so that the first group settles early. A task that
        an open breaker does not admit is returned as skipped; running tasks finish. An exception
        of ``fn`` becomes the rollout's status and is kept in ``Ran``.

        Arguments:
            fn: runs one attempt: points an agent at ``rollout.env``, and either calls
                ``rollout.finish`` or returns the rewards.
            name: returns the unique name of a task.
            repeats: how often each task is sampled; each sample is retried by itself.
            concurrency: maximum number of tasks at once, including those waiting to retry.
            retry: run transient failures again as the service advises, unless the wait is
                longer than ``max_wait_s`` seconds.
            progress: show a bar on standard error; by default if that is a terminal.
            facts: apply to each rollout (model, upstream, …).

        Raises:
            ServiceError: the service became unavailable; no further task was started.
            ValueError: two tasks have the same name.
        """
        plan = planned_samples(tasks, name, repeats)
        this = run_name(plan)
        self.begin(this)
        following = self._client.play(next_attempts(self.name))
        stop = threading.Event()
        again = retry_advice(max_wait_s if retry else None, stop.is_set)

        def begin(sample: Sample[Task], attempt: int) -> Rollout:
            return self.rollout(sample.name, **self._sample_facts(sample, attempt, facts))

        def one(sample: Sample[Task]) -> Ran | None:
            if stop.is_set():
                return None
            try:
                return self._client.play(
                    run_until_settled(
                        sample,
                        following.get((sample.name, sample.repeat), 0),
                        partial(begin, sample),
                        lambda rollout: _attempt(rollout, sample.task, fn),
                        again,
                    ),
                    sleep=stop.wait,
                )
            except ServiceError:
                stop.set()  # before this thread takes the next sample
                raise

        with progress_table(len(plan), progress) as tell:
            with ThreadPoolExecutor(concurrency, "rollout") as pool:
                running = [pool.submit(one, sample) for sample in plan]
                try:
                    for finished in as_completed(running):
                        if (ran := finished.result()) is not None:
                            tell(ran)
                except BaseException:
                    stop.set()
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
            results = tuple(filter(None, (finished.result() for finished in running)))
        self.end(this)
        return BatchRun(results=results, summary=self.summary())


def _attempt(
    rollout: Rollout, task: Task, fn: Callable[[Task, Rollout], Rewards | None]
) -> Exception | None:
    try:
        with rollout:
            rewards = fn(task, rollout)
            if not rollout.finished:
                rollout.finish(rewards=rewards)
    except ServiceError:
        raise
    except Exception as error:  # the runner's own code: whatever it raises is the outcome
        return error
    return None


class AsyncBatch(_Batch):
    """A named group of rollouts, for asyncio."""

    def __init__(self, client: AsyncPlayer, name: str, facts: LaneFacts) -> None:
        super().__init__(name, facts)
        self._client = client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Do nothing: a batch holds no resources."""

    def rollout(self, task: str | None = None, **facts: Unpack[RunFacts]) -> AsyncRollout:
        """Return a rollout of a task; enter it with ``async with``."""
        return AsyncRollout(self._client, self._rollout_facts(task, facts))

    async def summary(self) -> models.BatchSummary:
        """Return counts, tokens, cost, scores, and the rollouts to run again."""
        return await self._client.play(endpoints.summary(self.name))

    async def check(self) -> models.Check:
        """Check whether the batch is a valid measurement."""
        return await self._client.play(endpoints.check(self.name))

    async def rerun(self) -> models.Reruns:
        """Return what to run again, by what is to be done first."""
        return await self._client.play(endpoints.rerun(self.name))

    async def breaker(self) -> models.Breaker:
        """Return the batch's circuit breakers, lane by lane."""
        return await self._client.play(endpoints.breaker(self.name))

    async def reset_breaker(self, lane: str | None = None) -> models.Breaker:
        """Allow one probe (half-open) in one open lane, or in all of them."""
        return await self._client.play(endpoints.reset_breaker(self.name, lane=lane))

    def events(self, *, after: int | None = None) -> AsyncIterator[Event]:
        """Follow the batch's events from now on; never ends by itself."""
        return self._client.events(self.name, after=after)

    async def groups(
        self, *, method: models.AdvantageMethod = "grpo", min_valid: int = 2
    ) -> AsyncIterator[models.Group]:
        """Yield the group of each task as it settles, like ``Batch.groups``."""
        groups = SettledGroups(self.name, method=method, min_valid=min_valid)
        async with aclosing(self._client.events(self.name, alive=True)) as events:
            async for event in events:
                if groups.wants(event):
                    found: list[models.Group] = []
                    with unless_unknown():
                        found = await self._client.play(groups.after(event))
                    for group in found:
                        yield group
                    if groups.ended:
                        return

    async def begin(self, run: str) -> models.BatchRuns:
        """Say that you start rollouts of the batch, like ``Batch.begin``."""
        return await self._client.play(endpoints.begin(self.name, run))

    async def end(self, run: str | None = None) -> models.BatchRuns:
        """Say that you start no more rollouts of the batch, like ``Batch.end``."""
        return await self._client.play(endpoints.end(self.name, run))

    async def run(
        self,
        tasks: Iterable[Task],
        fn: Callable[[Task, AsyncRollout], Awaitable[Rewards | None]],
        *,
        name: Callable[[Task], str] = str,
        repeats: int = 1,
        concurrency: int = 8,
        retry: bool = True,
        max_wait_s: float = 300.0,
        progress: bool | None = None,
        **facts: Unpack[LaneFacts],
    ) -> BatchRun:
        """Run every task once, and again where the service advises it, like ``Batch.run``."""
        plan = planned_samples(tasks, name, repeats)
        this = run_name(plan)
        await self.begin(this)
        following = await self._client.play(next_attempts(self.name))
        stop = asyncio.Event()
        again = retry_advice(max_wait_s if retry else None, stop.is_set)
        slots = asyncio.Semaphore(concurrency)

        def begin(sample: Sample[Task], attempt: int) -> AsyncRollout:
            return self.rollout(sample.name, **self._sample_facts(sample, attempt, facts))

        async def one(sample: Sample[Task]) -> Ran | None:
            async with slots:
                if stop.is_set():
                    return None
                try:
                    ran = await self._client.play(
                        run_until_settled(
                            sample,
                            following.get((sample.name, sample.repeat), 0),
                            partial(begin, sample),
                            lambda rollout: _attempt_async(rollout, sample.task, fn),
                            again,
                        ),
                        sleep=partial(_unless, stop),
                    )
                except ServiceError:
                    stop.set()
                    raise
                tell(ran)
                return ran

        with progress_table(len(plan), progress) as tell:
            running = [asyncio.ensure_future(one(sample)) for sample in plan]
            finished = await asyncio.gather(*running, return_exceptions=True)
        results = tuple(_or_raise(finished))
        await self.end(this)
        return BatchRun(results=results, summary=await self.summary())


async def _attempt_async(
    rollout: AsyncRollout,
    task: Task,
    fn: Callable[[Task, AsyncRollout], Awaitable[Rewards | None]],
) -> Exception | None:
    try:
        async with rollout:
            rewards = await fn(task, rollout)
            if not rollout.finished:
                await rollout.finish(rewards=rewards)
    except ServiceError:
        raise
    except Exception as error:  # the runner's own code: whatever it raises is the outcome
        return error
    return None


async def _unless(stop: asyncio.Event, seconds: float) -> None:
    """Sleep, unless all is to stop."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


def _or_raise(finished: Iterable[Ran | BaseException | None]) -> Iterator[Ran]:
    """Return the results, or raise the first error of the service."""
    results = list(finished)
    for one in results:
        if isinstance(one, BaseException):
            raise one
    return (one for one in results if isinstance(one, Ran))
