"""A batch of rollouts for a harness: register, run, report, and run again."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from truezero import models
from truezero.sdk._async.rollouts import AsyncRollout
from truezero.sdk.arguments import LaneFacts, RunFacts
from truezero.sdk.batches import (
    HEALTH_EACH_S,
    STALE_S,
    AsyncStop,
    BaseBatch,
    BatchRun,
    FinishedSample,
    LaneWaits,
    Rewards,
    Sample,
    SettledGroups,
    Task,
    Tries,
    is_down,
    main_model,
    planned_samples,
    retry_advice,
    run_in_tasks,
    run_name,
    unless_unknown,
    warn_of_method,
)
from truezero.sdk.errors import ServiceError
from truezero.sdk.events import Event
from truezero.sdk.rest import next_attempts
from truezero.sdk.rollouts import Skipped

if TYPE_CHECKING:
    from truezero.sdk._async.client import AsyncClient


class AsyncBatch(BaseBatch):
    """A named group of rollouts, for asyncio."""

    def __init__(self, client: AsyncClient, name: str, facts: LaneFacts) -> None:
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
        return await self._client.summary(self.name)

    async def check(self) -> models.Check:
        """Check whether the batch is a valid measurement."""
        return await self._client.check(self.name)

    async def rerun(self) -> models.Reruns:
        """Return what to run again, by what is to be done first."""
        return await self._client.rerun(self.name)

    async def breaker(self) -> models.Breaker:
        """Return the batch's circuit breakers, lane by lane."""
        return await self._client.breaker(self.name)

    async def reset_breaker(self, lane: str | None = None) -> models.Breaker:
        """Allow one probe (half-open) in one open lane, or in all of them."""
        return await self._client.reset_breaker(self.name, lane=lane)

    def events(self, *, after: int | None = None) -> AsyncIterator[Event]:
        """Follow the batch's events from now on; never ends by itself."""
        return self._client.events(self.name, after=after)

    async def groups(
        self, *, min_valid: int = 2, method: object = None
    ) -> AsyncIterator[models.Group]:
        """Yield the group of each task as it settles, until the batch has ended.

        Those that have settled come first. A group whose rollouts are run again settles again, with
        the next ``revision``; it is ``final`` if it is not expected to. One settles by itself only
        if its rollouts are registered with ``repeats``, as ``run`` does. The batch has ended when
        every ``run`` has returned and every rollout is judged; whoever starts rollouts otherwise
        calls ``end``.

        Arguments:
            min_valid: a group that cannot have so many measured rollouts is to be dropped.
            method: gone, and without effect.
        """
        warn_of_method(method)
        groups = SettledGroups(self.name, min_valid=min_valid)
        async with aclosing(self._client.events(self.name, alive=True)) as events:
            async for event in events:
                if groups.wants(event):
                    settled: list[models.Group] = []
                    with unless_unknown():
                        settled = await settled_since(self._client, groups, event)
                    for group in settled:
                        yield group
                    if groups.ended:
                        return

    async def begin(self, run: str) -> models.BatchRuns:
        """Say that you start rollouts of the batch, which does not end before you say so.

        Arguments:
            run: your name for it; of several who share a batch, each has another.
        """
        return await self._client.begin(self.name, run)

    async def end(self, run: str | None = None) -> models.BatchRuns:
        """Say that you start no more rollouts of the batch; without a name, that nobody does.

        Rollouts without an outcome are given up; an outcome that comes later counts all the same.
        """
        return await self._client.end(self.name, run)

    async def run(
        self,
        tasks: Iterable[Task],
        fn: Callable[[Task, AsyncRollout], Awaitable[Rewards | None]],
        *,
        name: Callable[[Task], str] = str,
        repeats: int = 1,
        concurrency: int = 8,
        retry: bool = True,
        max_wait_s: float = 600.0,
        progress: bool | None = None,
        wait_for_health: bool = False,
        **facts: Unpack[LaneFacts],
    ) -> BatchRun:
        """Run every task once, several at a time, and again where the service advises it.

        Samples start one task after the other, so that the first group settles early. A task that
        an open breaker does not admit is returned as skipped; running tasks finish. An exception
        of ``fn`` becomes the rollout's status and is kept in ``FinishedSample``. While nobody is
        answered, tasks are tried again until ``max_wait_s``; then each of the others is tried once.

        Arguments:
            fn: runs one attempt: points an agent at ``rollout.env``, and either calls
                ``rollout.finish`` or returns the rewards.
            name: returns the unique name of a task.
            repeats: how often each task is sampled; each sample is retried by itself.
            concurrency: maximum number of tasks at once, including those waiting to retry.
            retry: run transient failures again as the service advises.
            max_wait_s: maximum wait before an attempt, and of a task in all while its lane answers
                nobody, in seconds.
            progress: show a bar on standard error; by default if that is a terminal.
            wait_for_health: before each task wait while the model's lane is down, but no longer
                than ``max_wait_s`` seconds. One task at a time goes on, to see if it still is.
            facts: apply to each rollout (model, upstream, …).

        Raises:
            ServiceError: the service became unavailable; no further task was started.
            ValueError: two tasks have the same name.
        """
        plan = planned_samples(tasks, name, repeats)
        this = run_name(plan)
        await self.begin(this)
        following = next_attempts(await self._client.rollouts(batch=self.name))

        lane = LaneWaits(max_wait_s, retries=retry)
        tried: dict[tuple[str, int | None], Tries] = {}

        async def one(sample: Sample[Task], stop: AsyncStop) -> FinishedSample | None:
            place = sample.name, sample.repeat
            tries = tried.setdefault(place, Tries(next_attempt=following.get(place, 0)))
            if wait_for_health and not tries.made:
                await self._wait_for_health(facts, lane, tries, stop)
            return await run_until_settled(
                sample,
                tries,
                lane,
                begin=lambda attempt: self.rollout(
                    sample.name, **self._sample_facts(sample, attempt, facts)
                ),
                play=lambda rollout: _attempt(rollout, sample.task, fn),
                again=retry_advice(math.inf if retry else None, stop.is_set),
                sleep=stop.wait,
            )

        results = await run_in_tasks(plan, one, concurrency=concurrency, progress=progress)
        await self.end(this)
        return BatchRun(results=results, summary=await self.summary())

    async def _wait_for_health(
        self, facts: LaneFacts, lane: LaneWaits, tries: Tries, stop: AsyncStop
    ) -> None:
        """Wait while the lane of some facts is down, unless this sample is to probe it.

        A run without retries has none to spare for probes, and waits while others renew the word.
        """
        known: LaneFacts = {**self._facts, **facts}
        before = lane.answered
        while lane.left_s(tries) and lane.answered == before and not stop.is_set():
            down = is_down(
                await self._client.status(),
                upstream=known.get("upstream"),
                model=main_model(known),
                within_s=math.inf if lane.retries else STALE_S,
            )
            if not down or (lane.retries and lane.probes()):
                return
            wait_s = min(HEALTH_EACH_S, lane.left_s(tries))
            await stop.wait(wait_s)
            tries.waited_s += wait_s


async def _attempt(
    rollout: AsyncRollout,
    task: Task,
    fn: Callable[[Task, AsyncRollout], Awaitable[Rewards | None]],
) -> Exception | None:
    """Run one attempt; return the exception of the runner's own code."""
    try:
        async with rollout:
            rewards = await fn(task, rollout)
            if not rollout.finished:
                await rollout.finish(rewards=rewards)
    except ServiceError:
        raise
    except Exception as error:  # whatever the runner's code raises is the outcome
        return error
    return None


async def settled_since(
    client: AsyncClient, groups: SettledGroups, event: Event
) -> list[models.Group]:
    """Return the groups that have settled since the event before."""
    task = groups.task_of(event)
    pages = await client.group_pages(groups.batch, **groups.asked(task))
    if task is not None and pages[-1].ended:
        task = None
        pages = await client.group_pages(groups.batch, **groups.asked(None))
    return groups.take(pages, all_tasks=task is None)


async def run_until_settled(
    sample: Sample[Any],
    tries: Tries,
    lane: LaneWaits,
    *,
    begin: Callable[[int], AsyncRollout],
    play: Callable[[AsyncRollout], Awaitable[Exception | None]],
    again: Callable[[models.Verdict], float | None],
    sleep: Callable[[float], Awaitable[object]],
) -> FinishedSample | None:
    """Run attempts of one sample until the service advises no further one.

    Returns None if others are to go first.

    Arguments:
        play: runs an attempt and returns the exception that it raised.
        again: returns the advised wait in seconds before the next one, None to stop.
    """
    while True:
        rollout = begin(tries.next_attempt)
        error = await play(rollout)
        if isinstance(error, Skipped):
            return FinishedSample(
                task=sample.name,
                repeat=sample.repeat,
                rollout_id=error.rollout_id,
                attempts=tries.made,
                skipped=error.reason,
            )
        tries.made += 1
        verdict = rollout.verdict
        lane.told(verdict, tries)
        advised_s = again(verdict)
        wait_s = None if advised_s is None else lane.wait_s(advised_s, tries)
        if wait_s is None:
            return FinishedSample(
                task=sample.name,
                repeat=sample.repeat,
                rollout_id=rollout.id,
                attempts=tries.made,
                result=rollout.result,
                verdict=verdict,
                error=error,
                given_up=lane.given_up(verdict),
            )
        await sleep(wait_s)
        tries.next_attempt += 1
        tries.waited_s += wait_s
        if lane.steps_aside(tries):
            return None
