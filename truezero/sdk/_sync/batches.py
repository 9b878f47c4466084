# Made of truezero/sdk/_async by `python -m tests.sync_client`: change it there.
"""A batch of rollouts for a harness: register, run, report, and run again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from truezero import models
from truezero.sdk._sync.rollouts import Rollout
from truezero.sdk.arguments import LaneFacts, RunFacts
from truezero.sdk.batches import (
    HEALTH_EACH_S,
    STALE_S,
    BaseBatch,
    BatchRun,
    FinishedSample,
    LaneWaits,
    Rewards,
    Sample,
    SettledGroups,
    Stop,
    Task,
    Tries,
    is_down,
    main_model,
    planned_samples,
    retry_advice,
    run_in_threads,
    run_name,
    unless_unknown,
    warn_of_method,
)
from truezero.sdk.errors import ServiceError
from truezero.sdk.events import Event
from truezero.sdk.rest import next_attempts
from truezero.sdk.rollouts import Skipped

if TYPE_CHECKING:
    from truezero.sdk._sync.client import Client


class Batch(BaseBatch):
    """A named group of rollouts; safe to share between threads."""

    def __init__(self, client: Client, name: str, facts: LaneFacts) -> None:
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
        return self._client.summary(self.name)

    def check(self) -> models.Check:
        """Check whether the batch is a valid measurement."""
        return self._client.check(self.name)

    def rerun(self) -> models.Reruns:
        """Return what to run again, by what is to be done first."""
        return self._client.rerun(self.name)

    def breaker(self) -> models.Breaker:
        """Return the batch's circuit breakers, lane by lane."""
        return self._client.breaker(self.name)

    def reset_breaker(self, lane: str | None = None) -> models.Breaker:
        """Allow one probe (half-open) in one open lane, or in all of them."""
        return self._client.reset_breaker(self.name, lane=lane)

    def events(self, *, after: int | None = None) -> Iterator[Event]:
        """Follow the batch's events from now on; never ends by itself."""
        return self._client.events(self.name, after=after)

    def groups(self, *, min_valid: int = 2, method: object = None) -> Iterator[models.Group]:
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
        with closing(self._client.events(self.name, alive=True)) as events:
            for event in events:
                if groups.wants(event):
                    settled: list[models.Group] = []
                    with unless_unknown():
                        settled = settled_since(self._client, groups, event)
                    yield from settled
                    if groups.ended:
                        return

    def begin(self, run: str) -> models.BatchRuns:
        """Say that you start rollouts of the batch, which does not end before you say so.

        Arguments:
            run: your name for it; of several who share a batch, each has another.
        """
        return self._client.begin(self.name, run)

    def end(self, run: str | None = None) -> models.BatchRuns:
        """Say that you start no more rollouts of the batch; without a name, that nobody does.

        Rollouts without an outcome are given up; an outcome that comes later counts all the same.
        """
        return self._client.end(self.name, run)

    def run(
        self,
        tasks: Iterable[Task],
        fn: Callable[[Task, Rollout], Rewards | None],
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
        """Run every task once, in threads, and again where the service advises it.

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
        self.begin(this)
        following = next_attempts(self._client.rollouts(batch=self.name))

        lane = LaneWaits(max_wait_s, retries=retry)
        tried: dict[tuple[str, int | None], Tries] = {}

        def one(sample: Sample[Task], stop: Stop) -> FinishedSample | None:
            place = sample.name, sample.repeat
            tries = tried.setdefault(place, Tries(next_attempt=following.get(place, 0)))
            if wait_for_health and not tries.made:
                self._wait_for_health(facts, lane, tries, stop)
            return run_until_settled(
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

        results = run_in_threads(plan, one, concurrency=concurrency, progress=progress)
        self.end(this)
        return BatchRun(results=results, summary=self.summary())

    def _wait_for_health(self, facts: LaneFacts, lane: LaneWaits, tries: Tries, stop: Stop) -> None:
        """Wait while the lane of some facts is down, unless this sample is to probe it.

        A run without retries has none to spare for probes, and waits while others renew the word.
        """
        known: LaneFacts = {**self._facts, **facts}
        before = lane.answered
        while lane.left_s(tries) and lane.answered == before and not stop.is_set():
            down = is_down(
                self._client.status(),
                upstream=known.get("upstream"),
                model=main_model(known),
                within_s=math.inf if lane.retries else STALE_S,
            )
            if not down or (lane.retries and lane.probes()):
                return
            wait_s = min(HEALTH_EACH_S, lane.left_s(tries))
            stop.wait(wait_s)
            tries.waited_s += wait_s


def _attempt(
    rollout: Rollout,
    task: Task,
    fn: Callable[[Task, Rollout], Rewards | None],
) -> Exception | None:
    """Run one attempt; return the exception of the runner's own code."""
    try:
        with rollout:
            rewards = fn(task, rollout)
            if not rollout.finished:
                rollout.finish(rewards=rewards)
    except ServiceError:
        raise
    except Exception as error:  # whatever the runner's code raises is the outcome
        return error
    return None


def settled_since(client: Client, groups: SettledGroups, event: Event) -> list[models.Group]:
    """Return the groups that have settled since the event before."""
    task = groups.task_of(event)
    pages = client.group_pages(groups.batch, **groups.asked(task))
    if task is not None and pages[-1].ended:
        task = None
        pages = client.group_pages(groups.batch, **groups.asked(None))
    return groups.take(pages, all_tasks=task is None)


def run_until_settled(
    sample: Sample[Any],
    tries: Tries,
    lane: LaneWaits,
    *,
    begin: Callable[[int], Rollout],
    play: Callable[[Rollout], Exception | None],
    again: Callable[[models.Verdict], float | None],
    sleep: Callable[[float], object],
) -> FinishedSample | None:
    """Run attempts of one sample until the service advises no further one.

    Returns None if others are to go first.

    Arguments:
        play: runs an attempt and returns the exception that it raised.
        again: returns the advised wait in seconds before the next one, None to stop.
    """
    while True:
        rollout = begin(tries.next_attempt)
        error = play(rollout)
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
        sleep(wait_s)
        tries.next_attempt += 1
        tries.waited_s += wait_s
        if lane.steps_aside(tries):
            return None
