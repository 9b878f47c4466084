# Made of truezero/sdk/_async by `python -m tests.sync_client`: change it there.
"""A batch of rollouts for a harness: register, run, report, and run again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from truezero import models
from truezero.sdk._sync.rollouts import Rollout
from truezero.sdk.arguments import LaneFacts, RunFacts
from truezero.sdk.batches import (
    PROBE_S,
    SUSPECTED_TRIES,
    BaseBatch,
    BatchRun,
    EarlierTries,
    FinishedSample,
    LanePatience,
    Progress,
    Rewards,
    Sample,
    SettledGroups,
    Stop,
    Task,
    Tries,
    Value,
    main_model,
    not_measured,
    of_lane,
    planned_samples,
    rewards_of,
    run_in_threads,
    run_name,
    unless_unknown,
    warn_of_method,
    warn_of_waiting,
)
from truezero.sdk.errors import ServiceError
from truezero.sdk.events import Event
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

    def __exit__(self, *_: object) -> None:
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
        wait_for_health: object = None,
        **facts: Unpack[LaneFacts],
    ) -> BatchRun:
        """Run every task once, in threads, and again where the service advises it.

        Run again in the same batch, it tries only what is not measured yet. Samples start one task
        after the other, so that the first group settles early. A task that an open breaker does
        not admit is returned as skipped; running tasks finish. An exception of ``fn`` becomes the
        rollout's status and is kept in ``FinishedSample``. While the lane answers nobody, no task
        starts but one at a time that tries it; after ``max_wait_s`` the rest is returned without a
        measurement.

        Arguments:
            fn: runs one attempt: points an agent at ``rollout.env``, and either calls
                ``rollout.finish`` or returns the rewards.
            name: returns the unique name of a task.
            repeats: how often each task is sampled; each sample is retried by itself.
            concurrency: maximum number of tasks at once, including those waiting to retry.
            retry: run transient failures again as the service advises.
            max_wait_s: maximum wait in seconds for a lane that answers nobody, and of a task in
                all until it is answered; 0 waits for nothing.
            progress: show a bar on standard error; by default if that is a terminal.
            wait_for_health: gone, and without effect: waiting is always on.
            facts: apply to each rollout (model, upstream, …).

        Raises:
            ServiceError: the service became unavailable; no further task was started.
            ValueError: two tasks have the same name.
        """
        warn_of_waiting(wait_for_health)
        plan = planned_samples(tasks, name, repeats)
        this = run_name(plan)
        self.begin(this)
        earlier = EarlierTries(self._client.rollouts(batch=self.name))
        measured = earlier.measured(plan)
        patience = LanePatience(max_wait_s, retries=retry)
        tried: dict[tuple[str, int | None], Tries] = {}

        def one(sample: Sample[Task], stop: Stop, shown: Progress) -> FinishedSample | None:
            place = sample.name, sample.repeat
            if place in measured:
                return self._measured_before(sample, measured[place])
            tries = tried.setdefault(place, earlier.of(sample))
            return self._tried(sample, fn, facts, tries, patience, stop=stop, shown=shown)

        results = run_in_threads(plan, one, concurrency=concurrency, progress=progress)
        self.end(this)
        return BatchRun(results=results, summary=self.summary())

    def measure(
        self,
        task: Task,
        fn: Callable[[Task, Rollout], Value],
        *,
        name: Callable[[Task], str] = str,
        max_wait_s: float = 600.0,
        stop: Literal["raise", "interrupt"] = "raise",
        **facts: Unpack[LaneFacts],
    ) -> Value:
        """Call a function, one rollout of a task a try, until its rollout is measured.

        Returns its value, which is the reward if it is a number or numbers by name, unless it has
        called ``rollout.finish``. Each call is a further sample of its task, with retries and
        waits of its own, and two more for a model that says nothing. An exception of a measured
        ``fn`` is raised as it is.

        Arguments:
            fn: runs one try.
            name: returns the name of a task.
            max_wait_s: maximum wait in seconds until it is answered.
            stop: ``interrupt`` ends loops that swallow exceptions, as Ctrl-C does.
            facts: apply to each rollout (model, upstream, …).

        Raises:
            NotMeasured: it is not, and is not tried again by itself; the message says why, and
                what to do.
            MeasuringStopped: the same with ``stop="interrupt"``.
            ServiceError: the service became unavailable.
        """
        called, values, cannot_stop = name(task), list[Value](), Stop()
        known = (
            [] if called in self._repeats else self._client.rollouts(batch=self.name, task=called)
        )
        repeat = self._next_repeat(called, known)
        sample = Sample(name=called, repeat=repeat, repeats=None, task=task)

        def kept(each: Task, rollout: Rollout) -> Rewards | None:
            values[:] = [fn(each, rollout)]
            return rewards_of(values[0])

        tries = Tries(next_attempt=0)
        patience = LanePatience(max_wait_s, retries=True, suspected=SUSPECTED_TRIES)
        ended: FinishedSample | None = None
        while ended is None:
            ended = self._tried(
                sample, kept, facts, tries, patience, stop=cannot_stop, shown=Progress()
            )
        if not ended.measured:
            raise not_measured(ended, stop) from ended.error
        if ended.error is not None:
            raise ended.error
        return values[0]

    def _measured_before(self, sample: Sample[Any], rollout_id: str) -> FinishedSample:
        return FinishedSample(
            task=sample.name,
            repeat=sample.repeat,
            rollout_id=rollout_id,
            attempts=0,
            result=self._client.result(rollout_id),
            verdict=self._client.verdict(rollout_id),
        )

    def _tried(
        self,
        sample: Sample[Task],
        fn: Callable[[Task, Rollout], Rewards | None],
        facts: LaneFacts,
        tries: Tries,
        patience: LanePatience,
        *,
        stop: Stop,
        shown: Progress,
    ) -> FinishedSample | None:
        """Try a sample until it is settled, or others are to go first."""
        while True:
            ended = run_until_settled(
                sample,
                tries,
                patience,
                ask=lambda: self._take_turn(facts),
                begin=lambda: self.rollout(sample.name, **self._sample_facts(sample, tries, facts)),
                play=lambda rollout: _attempt(rollout, sample.task, fn),
                stop=stop,
                shown=shown,
            )
            if ended is None or ended.skipped is None:
                return ended
            if not self._probe_closes(facts, tries, patience, stop):
                return ended
            tries.go_on()

    def _probe_closes(
        self, facts: LaneFacts, tries: Tries, patience: LanePatience, stop: Stop
    ) -> bool:
        """Wait while another rollout probes a breaker that was reset; return True to try again."""
        waited = False
        while tries.waited_s < patience.most_s and not stop.is_set():
            lanes = of_lane((self.breaker()).lanes, {**self._facts, **facts})
            probes = [lane.canary for lane in lanes if lane.phase == "half_open"]
            if any(lane.phase == "open" for lane in lanes):
                return False
            if not probes:  # it closed the lane, if one of these lanes was the one that was shut
                return waited or tries.may_repeat_unseen()
            if waited and None in probes:  # the probe told nothing: be the next one
                return True
            stop.wait(PROBE_S)
            tries.waited_s += PROBE_S
            waited = True
        return False

    def _take_turn(self, facts: LaneFacts) -> models.LaneTurn:
        known: LaneFacts = {**self._facts, **facts}
        return self._client.take_turn(upstream=known.get("upstream"), model=main_model(known))


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
    patience: LanePatience,
    *,
    ask: Callable[[], models.LaneTurn],
    begin: Callable[[], Rollout],
    play: Callable[[Rollout], Exception | None],
    stop: Stop,
    shown: Progress,
) -> FinishedSample | None:
    """Run attempts of one sample until the service advises no further one.

    Returns None if others are to go first, since nobody was answered meanwhile.

    Arguments:
        ask: asks whether the sample may start on its lane.
        play: runs an attempt and returns the exception that it raised.
    """
    while True:
        answered = patience.answered
        over = _wait(sample, tries, patience, ask=ask, stop=stop, shown=shown)
        if over is not None:
            return tries.ended(sample, given_up=over)
        rollout = begin()
        tries.error = play(rollout)
        if isinstance(tries.error, Skipped):
            return tries.ended(sample, skipped=tries.error)
        tries.made += 1
        tries.begun(repeat=rollout.repeat, attempt=rollout.attempt)
        tries.rollout_id, tries.result = rollout.id, rollout.result
        tries.verdict = verdict = rollout.verdict
        patience.told(tries, verdict)
        if stop.is_set() or not patience.goes_on(tries, verdict):
            return tries.ended(sample, given_up=patience.gives_up(tries, verdict))
        tries.go_on()
        if patience.answered == answered:
            return None


def _wait(
    sample: Sample[Any],
    tries: Tries,
    patience: LanePatience,
    *,
    ask: Callable[[], models.LaneTurn],
    stop: Stop,
    shown: Progress,
) -> str | None:
    """Wait until a sample may be tried; return why it is not waited for any longer."""

    def rest(seconds: float) -> None:
        stop.wait(seconds)
        tries.waited_s += seconds

    if tries.stated:
        rest(patience.wait_s(tries))
    while patience.most_s:
        turn = ask()
        left_s = patience.left_s(tries, turn)
        if stop.is_set() or turn.state == "probing":
            break
        if turn.state == "answering":
            wait_s = patience.wait_s(tries)
            if not wait_s:
                break
            shown.waits(sample.name, None)
            rest(wait_s)
            continue
        if not left_s:
            if not patience.started:
                break  # so that the batch has a rollout that says why
            shown.waits(sample.name, None)
            return patience.over(turn)
        shown.waits(sample.name, turn)
        rest(min(turn.ask_s, left_s))
    shown.waits(sample.name, None)
    tries.stated = False
    patience.started = True
    return None
