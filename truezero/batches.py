"""A batch of rollouts, as a harness drives them: announce, run, report, and run again.

It judges nothing: whether a rollout counts and whether it is run again, the service says.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self, TypeVar, Unpack

from truezero import models, questions
from truezero.loop import ExecutionLoop, Seen
from truezero.questions import (
    Event,
    LaneFacts,
    OutcomeFacts,
    Pause,
    RolloutFacts,
    RunFacts,
    ServiceError,
    Story,
    Work,
)

T = TypeVar("T")
Task = TypeVar("Task")
Rewards = float | Mapping[str, float]


# --- what an exception means ---------------------------------------------------------------


class ExecutionError(Exception):
    """Raised inside a rollout's block to say what went wrong; its text is reported.

    A subclass with another ``status`` means that status.
    """

    status: ClassVar[models.ExecutionStatus] = "unknown_execution_error"


class AgentError(ExecutionError):
    """The agent itself failed."""

    status = "agent_error"


class EnvironmentError(ExecutionError):
    """The sandbox, container or tool around the agent failed."""

    status = "environment_error"


class UserError(ExecutionError):
    """The user, or who plays it, failed."""

    status = "user_error"


class EvaluationFailed(ExecutionError):
    """The agent ran, and what it did could not be evaluated."""

    status = "evaluation_failed"


class SetupFailed(ExecutionError):
    """The rollout never began: no prompt was executed."""

    status = "setup_failed"


class TaskTimeout(ExecutionError, TimeoutError):
    """The task took too long."""

    status = "task_timeout"


class Skipped(Exception):
    """A rollout that was not admitted: the batch's breaker is open on its lane."""

    def __init__(self, rollout_id: str, reason: str) -> None:
        super().__init__(reason)
        self.rollout_id = rollout_id
        self.reason = reason


# Exceptions of others that mean something; the first that fits.
_MEANS: tuple[tuple[type[Exception], models.ExecutionStatus], ...] = (
    (TimeoutError, "task_timeout"),
    (subprocess.TimeoutExpired, "task_timeout"),
)


def outcome_of(error: Exception) -> OutcomeFacts:
    """What to report of a block that ended in this exception.

    Only who raises an ``ExecutionError`` chose its words; of any other the name alone is
    told, for its message may hold a prompt or a key.
    """
    if isinstance(error, ExecutionError):
        told: OutcomeFacts = {"status": error.status, "error": str(error) or type(error).__name__}
        return {**told, "prompts_executed": 0} if error.status == "setup_failed" else told
    status = next((means for kind, means in _MEANS if isinstance(error, kind)), None)
    return {"status": status or "unknown_execution_error", "error": type(error).__name__}


# --- one rollout ---------------------------------------------------------------------------


class _Rollout:
    """What a rollout is to both clients."""

    def __init__(self, facts: RolloutFacts) -> None:
        self._facts = facts
        self._registered: models.RolloutRegistered | None = None
        self._ended: tuple[models.Result, models.Verdict] | None = None
        self._loop: ExecutionLoop | None = None

    @property
    def id(self) -> str:
        """Its id; the service makes one where none was given."""
        return self._known.id

    @property
    def key(self) -> str:
        """An API key of the service's own that proves this rollout, ``tz-…``."""
        return self._known.key

    @property
    def base_urls(self) -> dict[str, str]:
        """Where to point the clients of each upstream, by its name."""
        return self._known.base_urls

    @property
    def env(self) -> dict[str, str]:
        """Variables that point common agents at the service."""
        return self._known.env

    @property
    def task(self) -> str | None:
        """What it runs."""
        return self._facts.get("task")

    @property
    def attempt(self) -> int | None:
        """Which run of its task it is, from 0; None where nobody counts."""
        return self._facts.get("attempt")

    @property
    def finished(self) -> bool:
        """Whether its outcome was reported."""
        return self._ended is not None

    @property
    def result(self) -> models.Result:
        """The record to store, once it has finished."""
        return self._end_known[0]

    @property
    def verdict(self) -> models.Verdict:
        """The judgement on it, once it has finished; before, ask ``peek``."""
        return self._end_known[1]

    def loop(
        self,
        max_steps: int,
        *,
        agent_done: Seen | None = None,
        user_satisfied: Seen | None = None,
    ) -> ExecutionLoop:
        """A loop whose steps and reason to stop are reported with this rollout."""
        self._loop = ExecutionLoop(max_steps, agent_done=agent_done, user_satisfied=user_satisfied)
        return self._loop

    @property
    def _known(self) -> models.RolloutRegistered:
        if self._registered is None:
            raise RuntimeError("the rollout has not begun: enter it by `with`")
        return self._registered

    @property
    def _end_known(self) -> tuple[models.Result, models.Verdict]:
        if self._ended is None:
            raise RuntimeError("the rollout has not finished: call finish(), or leave its block")
        return self._ended

    def _begin(self) -> Story[None]:
        registered = yield from questions.register(**self._facts)
        if not registered.admitted:
            raise Skipped(registered.id, registered.error or "skipped")
        self._registered = registered

    def _finish(self, seen: OutcomeFacts) -> Story[models.Result]:
        facts: OutcomeFacts = {**self._counted(seen.get("status", "success")), **seen}
        self._ended = yield from questions.ended(self.id, **facts)
        return self._ended[0]

    def _leave(self, error: BaseException | None) -> Story[None]:
        """Report what the block came to; a block that was broken off came to nothing."""
        if self.finished or isinstance(error, ServiceError):
            return
        if error is None:
            yield from self._finish({})
        elif isinstance(error, Exception):
            yield from self._finish(outcome_of(error))

    def _counted(self, status: models.ExecutionStatus) -> OutcomeFacts:
        """What its loop knows."""
        if self._loop is None:
            return {}
        counted: OutcomeFacts = {"prompts_executed": self._loop.steps}
        if status == "success":
            counted["termination_reason"] = self._loop.termination_reason
        return counted


class SyncPlayer(Protocol):
    """Who plays stories, waiting."""

    def play(self, story: Story[T], *, sleep: Callable[[float], object] | None = None) -> T:
        """Play a story to its end."""
        ...

    def events(self, batch: str, *, after: int | None = None) -> Iterator[Event]:
        """What happens in a batch."""
        ...


class AsyncPlayer(Protocol):
    """Who plays stories, awaiting."""

    async def play(
        self, story: Story[T], *, sleep: Callable[[float], Awaitable[object]] | None = None
    ) -> T:
        """Play a story to its end."""
        ...

    def events(self, batch: str, *, after: int | None = None) -> AsyncIterator[Event]:
        """What happens in a batch."""
        ...


class Rollout(_Rollout):
    """One rollout: announced on entry, reported at the latest when its block is left.

    An exception that leaves the block becomes the status it means, and goes on. What is no
    ``Exception`` (Ctrl-C) goes on and reports nothing: nobody knows what would have come.

    Raises:
        Skipped: on entry, where the batch's breaker does not admit it.
        ServiceError: the service is not there, or refuses.
    """

    def __init__(self, client: SyncPlayer, facts: RolloutFacts) -> None:
        super().__init__(facts)
        self._client = client

    def __enter__(self) -> Self:
        self._client.play(self._begin())
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._client.play(self._leave(exc))

    def finish(self, **seen: Unpack[OutcomeFacts]) -> models.Result:
        """Report what the runner saw, success by default; returns the record to store."""
        return self._client.play(self._finish(seen))

    def peek(self) -> models.Verdict:
        """The verdict as it stands; ``doomed`` says that going on is pointless."""
        return self._client.play(questions.verdict(self.id))


class AsyncRollout(_Rollout):
    """The same for ``async with``."""

    def __init__(self, client: AsyncPlayer, facts: RolloutFacts) -> None:
        super().__init__(facts)
        self._client = client

    async def __aenter__(self) -> Self:
        await self._client.play(self._begin())
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._client.play(self._leave(exc))

    async def finish(self, **seen: Unpack[OutcomeFacts]) -> models.Result:
        """Report what the runner saw, success by default; returns the record to store."""
        return await self._client.play(self._finish(seen))

    async def peek(self) -> models.Verdict:
        """The verdict as it stands; ``doomed`` says that going on is pointless."""
        return await self._client.play(questions.verdict(self.id))


# --- a batch -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of one task.

    ``result`` and ``verdict`` are those of its last attempt, None where none was admitted;
    then ``skipped`` says why. ``attempts`` counts those of this run. ``error`` is what the
    runner's function raised in the last.
    """

    task: str
    rollout_id: str
    attempts: int
    result: models.Result | None = None
    verdict: models.Verdict | None = None
    skipped: str | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRun:
    """A run of tasks, in their order, and what the whole batch stands on now."""

    results: tuple[Ran, ...]
    summary: models.BatchSummary


class _Batch:
    """What a batch is to both clients."""

    def __init__(self, name: str, facts: LaneFacts) -> None:
        self.name = name
        self._facts = facts

    def _rollout_facts(self, task: str | None, facts: RunFacts) -> RolloutFacts:
        return {**self._facts, "batch": self.name, "task": task, **facts}

    def _attempts(self) -> Story[dict[str, int]]:
        """Per task, the number of its next attempt: they never start over."""
        items = yield from questions.rollouts(batch=self.name)
        following: dict[str, int] = {}
        for item in items:
            if item.task is not None:
                following[item.task] = max(following.get(item.task, 0), (item.attempt or 0) + 1)
        return following


R = TypeVar("R", Rollout, AsyncRollout)


def _until_settled(
    task: str,
    first: int,
    begin: Callable[[int], R],
    play: Callable[[R], Any],
    again: Callable[[models.Verdict], float | None],
) -> Story[Ran]:
    """Attempt after attempt of one task, until the service advises no further one.

    ``play`` runs an attempt and returns what it raised; ``again`` is the wait in seconds
    before the next, None for an end.
    """
    attempt = first
    while True:
        rollout = begin(attempt)
        error = yield Work(partial(play, rollout))
        count = attempt - first + 1
        if isinstance(error, Skipped):
            return Ran(
                task=task, rollout_id=error.rollout_id, attempts=count - 1, skipped=error.reason
            )
        wait_s = again(rollout.verdict)
        if wait_s is None:
            return Ran(
                task=task,
                rollout_id=rollout.id,
                attempts=count,
                result=rollout.result,
                verdict=rollout.verdict,
                error=error,
            )
        yield Pause(wait_s)
        attempt += 1


def _advice(
    max_wait_s: float | None, stopped: Callable[[], bool]
) -> Callable[[models.Verdict], float | None]:
    """The wait that the service advises; None where that is more than we have."""

    def again(verdict: models.Verdict) -> float | None:
        wait_s = verdict.retry.after_s or 0.0
        if max_wait_s is None or not verdict.retry.eligible or wait_s > max_wait_s or stopped():
            return None
        return wait_s

    return again


def _planned(tasks: Iterable[Task], name: Callable[[Task], str]) -> list[tuple[str, Task]]:
    """Each task under its name.

    Raises:
        ValueError: two of them share one, so that their attempts would mix.
    """
    plan = [(name(task), task) for task in tasks]
    seen: set[str] = set()
    for named, _ in plan:
        if named in seen:
            raise ValueError(f"tasks: two are called {named!r}; give each a name of its own")
        seen.add(named)
    return plan


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
        return self._client.play(questions.summary(self.name))

    def check(self) -> models.Check:
        """Whether the batch is a valid measurement."""
        return self._client.play(questions.check(self.name))

    def breaker(self) -> models.Breaker:
        """The batch's breakers, lane by lane."""
        return self._client.play(questions.breaker(self.name))

    def reset_breaker(self, lane: str | None = None) -> models.Breaker:
        """Let a canary into one open lane, or into each."""
        return self._client.play(questions.reset_breaker(self.name, lane=lane))

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
        plan = _planned(tasks, name)
        following = self._client.play(self._attempts())
        stop = threading.Event()
        again = _advice(max_wait_s if retry else None, stop.is_set)

        def one(task: str, given: Task) -> Ran:
            return self._client.play(
                _until_settled(
                    task,
                    following.get(task, 0),
                    lambda attempt: self.rollout(task, attempt=attempt, **facts),
                    lambda rollout: _attempt(rollout, given, fn),
                    again,
                ),
                sleep=stop.wait,
            )

        with _board(len(plan), progress) as tell:
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
        return await self._client.play(questions.summary(self.name))

    async def check(self) -> models.Check:
        """Whether the batch is a valid measurement."""
        return await self._client.play(questions.check(self.name))

    async def breaker(self) -> models.Breaker:
        """The batch's breakers, lane by lane."""
        return await self._client.play(questions.breaker(self.name))

    async def reset_breaker(self, lane: str | None = None) -> models.Breaker:
        """Let a canary into one open lane, or into each."""
        return await self._client.play(questions.reset_breaker(self.name, lane=lane))

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
        plan = _planned(tasks, name)
        following = await self._client.play(self._attempts())
        stop = asyncio.Event()
        again = _advice(max_wait_s if retry else None, stop.is_set)
        slots = asyncio.Semaphore(concurrency)

        async def one(task: str, given: Task) -> Ran | None:
            async with slots:
                if stop.is_set():
                    return None
                try:
                    ran = await self._client.play(
                        _until_settled(
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

        with _board(len(plan), progress) as tell:
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


@contextmanager
def _board(total: int, shown: bool | None) -> Iterator[Callable[[Ran], None]]:
    """A bar for people; ``shown`` None draws it only on a terminal."""
    if not (sys.stderr.isatty() if shown is None else shown):
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
            shown = ", ".join(f"{count} {name}" for name, count in counts.items())
            progress.update(bar, advance=1, description=shown)

        yield tell
