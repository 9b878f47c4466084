"""A batch of rollouts, as a harness drives them: announce, run, report, and run again.

It judges nothing: whether a rollout counts and whether it is run again, the service says.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self, Unpack

from truezero import models
from truezero.sdk import endpoints
from truezero.sdk.batch_plan import (
    BatchRun,
    Ran,
    Rewards,
    Task,
    planned_attempts,
    progress_table,
    retry_advice,
    run_until_settled,
)
from truezero.sdk.endpoints import (
    Event,
    LaneFacts,
    RolloutFacts,
    RunFacts,
    ServiceError,
    Story,
)
from truezero.sdk.rollouts import AsyncPlayer, AsyncRollout, Rollout, SyncPlayer


class _Batch:
    """What a batch is to both clients."""

    def __init__(self, name: str, facts: LaneFacts) -> None:
        self.name = name
        self._facts = facts

    def _rollout_facts(self, task: str | None, facts: RunFacts) -> RolloutFacts:
        return {**self._facts, "batch": self.name, "task": task, **facts}

    def _attempts(self) -> Story[dict[str, int]]:
        """Per task, the number of its next attempt: they never start over."""
        items = yield from endpoints.rollouts(batch=self.name)
        following: dict[str, int] = {}
        for item in items:
            if item.task is not None:
                following[item.task] = max(following.get(item.task, 0), (item.attempt or 0) + 1)
        return following


class Batch(_Batch):
    """Rollouts that belong together."""

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
        """Nothing is held open."""

    def rollout(self, task: str | None = None, **facts: Unpack[RunFacts]) -> Rollout:
        """One rollout of a task, to be entered by ``with``."""
        return Rollout(self._client, self._rollout_facts(task, facts))

    def summary(self) -> models.BatchSummary:
        """Counts, tokens, cost, scores, and who should be run again."""
        return self._client.play(endpoints.summary(self.name))

    def check(self) -> models.Check:
        """Whether the batch is a valid measurement."""
        return self._client.play(endpoints.check(self.name))

    def breaker(self) -> models.Breaker:
        """The batch's breakers, lane by lane."""
        return self._client.play(endpoints.breaker(self.name))

    def reset_breaker(self, lane: str | None = None) -> models.Breaker:
        """Let a canary into one open lane, or into each."""
        return self._client.play(endpoints.reset_breaker(self.name, lane=lane))

    def events(self, *, after: int | None = None) -> Iterator[Event]:
        """What happens in the batch, from now on; without end."""
        return self._client.events(self.name, after=after)

    def run(
        self,
        tasks: Iterable[Task],
        fn: Callable[[Task, Rollout], Rewards | None],
        *,
        name: Callable[[Task], str] = str,
        concurrency: int = 8,
        retry: bool = True,
        max_wait_s: float = 300.0,
        progress: bool | None = None,
        **facts: Unpack[LaneFacts],
    ) -> BatchRun:
        """Run every task once, and again where the service advises it; in threads.

        A task that an open breaker does not admit comes back as skipped, and whatever flies
        is let finish. What ``fn`` raises becomes the rollout's status and stands in ``Ran``.

        Arguments:
            fn: runs one attempt: it points an agent at ``rollout.env``, and reports by
                ``rollout.finish`` or returns the rewards.
            name: what a task is called; each has a name of its own.
            concurrency: how many run at once, waiting for a retry included.
            retry: run a transient failure again as the service advises, unless it asks for
                more than ``max_wait_s`` seconds.
            progress: a bar on standard error; by default where that is a terminal.
            facts: hold for each rollout (model, upstream, …).

        Raises:
            ServiceError: the service went away; nothing new was started since.
            ValueError: two tasks share a name.
        """
        plan = planned_attempts(tasks, name)
        following = self._client.play(self._attempts())
        stop = threading.Event()
        again = retry_advice(max_wait_s if retry else None, stop.is_set)

        def one(task: str, given: Task) -> Ran:
            return self._client.play(
                run_until_settled(
                    task,
                    following.get(task, 0),
                    lambda attempt: self.rollout(task, attempt=attempt, **facts),
                    lambda rollout: _attempt(rollout, given, fn),
                    again,
                ),
                sleep=stop.wait,
            )

        with progress_table(len(plan), progress) as tell:
            with ThreadPoolExecutor(concurrency, "rollout") as pool:
                flying = [pool.submit(one, task, given) for task, given in plan]
                try:
                    for landed in as_completed(flying):
                        tell(landed.result())
                except BaseException:
                    stop.set()
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
            results = tuple(landed.result() for landed in flying)
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
    """Rollouts that belong together, for asyncio."""

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
        """Nothing is held open."""

    def rollout(self, task: str | None = None, **facts: Unpack[RunFacts]) -> AsyncRollout:
        """One rollout of a task, to be entered by ``async with``."""
        return AsyncRollout(self._client, self._rollout_facts(task, facts))

    async def summary(self) -> models.BatchSummary:
        """Counts, tokens, cost, scores, and who should be run again."""
        return await self._client.play(endpoints.summary(self.name))

    async def check(self) -> models.Check:
        """Whether the batch is a valid measurement."""
        return await self._client.play(endpoints.check(self.name))

    async def breaker(self) -> models.Breaker:
        """The batch's breakers, lane by lane."""
        return await self._client.play(endpoints.breaker(self.name))

    async def reset_breaker(self, lane: str | None = None) -> models.Breaker:
        """Let a canary into one open lane, or into each."""
        return await self._client.play(endpoints.reset_breaker(self.name, lane=lane))

    def events(self, *, after: int | None = None) -> AsyncIterator[Event]:
        """What happens in the batch, from now on; without end."""
        return self._client.events(self.name, after=after)

    async def run(
        self,
        tasks: Iterable[Task],
        fn: Callable[[Task, AsyncRollout], Awaitable[Rewards | None]],
        *,
        name: Callable[[Task], str] = str,
        concurrency: int = 8,
        retry: bool = True,
        max_wait_s: float = 300.0,
        progress: bool | None = None,
        **facts: Unpack[LaneFacts],
    ) -> BatchRun:
        """Run every task once, and again where the service advises it, as ``Batch.run`` does."""
        plan = planned_attempts(tasks, name)
        following = await self._client.play(self._attempts())
        stop = asyncio.Event()
        again = retry_advice(max_wait_s if retry else None, stop.is_set)
        slots = asyncio.Semaphore(concurrency)

        async def one(task: str, given: Task) -> Ran | None:
            async with slots:
                if stop.is_set():
                    return None
                try:
                    ran = await self._client.play(
                        run_until_settled(
                            task,
                            following.get(task, 0),
                            lambda attempt: self.rollout(task, attempt=attempt, **facts),
                            lambda rollout: _attempt_async(rollout, given, fn),
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
            flying = [asyncio.ensure_future(one(task, given)) for task, given in plan]
            landed = await asyncio.gather(*flying, return_exceptions=True)
        return BatchRun(results=tuple(_or_raise(landed)), summary=await self.summary())


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


def _or_raise(landed: Iterable[Ran | BaseException | None]) -> Iterator[Ran]:
    """The results; the first failure of the service instead, where there was one."""
    found = list(landed)
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return (one for one in found if isinstance(one, Ran))


# --- progress ------------------------------------------------------------------------------
