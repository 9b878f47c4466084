"""A fleet of agents on a lane, on a clock that is turned by hand: the SDK's own loop by the law.

The service is played: it answers turns and gives advice by `classifier.lane`, over what it knows
of the calls that have ended.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, NamedTuple, TypeVar

from classifier import advise, judge
from classifier.lane import (
    LOOKED_BACK_S,
    PENDING_S,
    Silence,
    Spell,
    State,
    sentence,
    silence,
    tries,
    turn,
)
from classifier.lane_health import (
    NAMED_FAILING,
    Failures,
    LaneTally,
    RolloutCalls,
    lane_health,
    weighed,
)
from classifier.verdicts import Retry, Verdict
from tests.builders import rollout
from tests.truezero.sdk.test_client import VERDICT
from truezero import models
from truezero.sdk._async.batches import run_until_settled
from truezero.sdk.batches import (
    AsyncStop,
    FinishedSample,
    LanePatience,
    Progress,
    Sample,
    Tries,
    planned_samples,
    run_in_tasks,
)

T = TypeVar("T")
FAILING_S = 0.1  # until a call has failed
_JUDGED = {kind: judge(rollout(kind)) for kind in ("200", "503", "429", "401*2")}


class Fault(NamedTuple):
    """The way in which a call fails, as `tests.builders` writes it, and the wait it states."""

    kind: str
    wait_s: float | None = None


DOWN, LIMITED, DEAD = Fault("503"), Fault("429"), Fault("401*2")
Script = Callable[[float, str], Fault | None]
"""A fault for a call that arrives at a time, in seconds, by a key; None answers it."""


def outages(*spans: tuple[float, float]) -> Script:
    """Return a provider that answers nobody from one time to another."""
    return lambda at, _key: DOWN if any(since <= at < until for since, until in spans) else None


def limited(per_minute: int, *, states: bool) -> Script:
    """Return a provider that answers so many calls each minute; it may state when the next is."""
    served: Counter[int] = Counter()

    def script(at: float, _key: str) -> Fault | None:
        served[int(at // 60)] += 1
        if served[int(at // 60)] <= per_minute:
            return None
        return Fault("429", 60 - at % 60 if states else None)

    return script


# --- a clock -----------------------------------------------------------------------------------


class _Turning(selectors.SelectSelector):
    """Turns a clock on by what it would have waited for."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for nothing."""
        self.now += max(timeout or 0.0, 0.0)
        return super().select(0)


class TurnedLoop(asyncio.SelectorEventLoop):
    """An event loop whose seconds pass at once."""

    def __init__(self) -> None:
        self._turning = _Turning()
        super().__init__(self._turning)

    def time(self) -> float:
        """Return the seconds since it began."""
        return self._turning.now


def played(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a clock of its own."""
    with asyncio.Runner(loop_factory=TurnedLoop) as runner:
        return runner.run(main)


# --- the service -------------------------------------------------------------------------------


@dataclass(slots=True)
class _Key:
    """The ended calls by one key: starts of answered ones, and of failed ones with their tries."""

    answered: list[float] = field(default_factory=list)
    failed: list[tuple[float, int, str]] = field(default_factory=list)


@dataclass(slots=True)
class Ended:
    """One ended call: when it began, if it was answered, if its try began on a lane known down."""

    at: float
    answered: bool
    late: bool


class Service:
    """One lane of a service, with its keys. ``calls`` have ended."""

    def __init__(self, rng: random.Random) -> None:
        self.calls: list[Ended] = []
        self._rng = rng
        self._keys: defaultdict[str, _Key] = defaultdict(_Key)
        self._tallies: dict[int, LaneTally] = {}
        self._failing: dict[int, dict[str, RolloutCalls]] = {}
        self._in_flight: dict[int, tuple[float, str]] = {}
        self._numbers = count()
        self._probed_at: float | None = None

    def began(self, name: str, at: float) -> int:
        """Note that a call of a rollout began."""
        number = next(self._numbers)
        self._in_flight[number] = at, name
        return number

    def ended(
        self, number: int, key: str, fault: Fault | None, *, task: str, attempt: int, late: bool
    ) -> None:
        """Note that a call ended."""
        at, name = self._in_flight.pop(number)
        self.calls.append(Ended(at, fault is None, late))
        calls, minute = self._keys[key], int(at // 60)
        tally = self._tallies.get(minute)
        failing = self._failing.setdefault(minute, {})
        if tally is None:
            tally = LaneTally(minute=minute, calls=0, answered=0, failed={}, failing=failing)
        if fault is None:
            calls.answered.insert(bisect_left(calls.answered, at), at)
            last = max(tally.last_answered_at or 0.0, at)
            names = {**tally.answering, name: 1} if name not in failing else tally.answering
            self._tallies[minute] = replace(
                tally, answered=tally.answered + 1, last_answered_at=last, answering=names
            )
            return
        calls.failed.append((at, attempt, task))
        cause = str(_JUDGED[fault.kind].subcategory)
        if len(failing) < NAMED_FAILING or name in failing:
            before = failing[name].failed[cause] if name in failing else Failures(0, True, at, at)
            of = Failures(before.calls + 1, True, before.first, max(at, before.last))
            failing[name] = RolloutCalls(0, {cause: of})
            more = tally.more_failing
        else:
            more = {cause: tally.more_failing.get(cause, 0) + 1}
        last = max(tally.last_failed_at or 0.0, at)
        self._tallies[minute] = replace(tally, more_failing=more, last_failed_at=last)

    def is_down(self, now: float) -> bool:
        """Return True if the lane is known to be down."""
        silent = self._silence(now)
        return silent is not None and silent.is_down(self._pending(silent, now))

    def word(self, now: float) -> str:
        """Return how the lane is, in a word, as `truezero status` prints it."""
        return lane_health(weighed(list(self._tallies.values())), now).word.value

    def take_turn(self, now: float) -> models.LaneTurn:
        """Answer one that asks to start."""
        silent = self._silence(now)
        if silent is None:
            return models.LaneTurn(state="answering")
        pending = self._pending(silent, now)
        taken = turn(
            silent, pending=pending, probed_at=self._probed_at, now=now, drawn=self._rng.random()
        )
        if taken.state is State.PROBING:
            self._probed_at = now
        said = sentence("openai/gpt-5", silent, taken, now=now)
        return models.LaneTurn(state=taken.state.value, ask_s=taken.ask_s, sentence=said)

    def advice(self, verdict: Verdict, key: str, begins: list[float], now: float) -> Retry:
        """Advise on a task by its tries."""
        counted = None
        if verdict.transient and len(begins) > 2:
            counted = tries(begins, lambda at: self._spell(key, at, now), now=now)
        return advise(verdict, attempt=len(begins) - 1, rand=self._rng.random, tries=counted)

    def _silence(self, now: float) -> Silence | None:
        oldest = (now - LOOKED_BACK_S) // 60
        return silence(each for minute, each in self._tallies.items() if minute >= oldest)

    def _pending(self, silent: Silence, now: float) -> int:
        since = max(silent.since, now - PENDING_S)
        return len({name for at, name in self._in_flight.values() if at > since})

    def _spell(self, key: str, at: float, now: float) -> Spell:
        calls = self._keys[key]
        place = bisect_left(calls.answered, at)
        since = calls.answered[place - 1] if place else at - LOOKED_BACK_S
        until = calls.answered[place] if place < len(calls.answered) else None
        last = now if until is None else until
        first = bisect_right(calls.failed, (since, 99, ""))
        names = {
            name
            for at, attempt, name in calls.failed[first:]
            if at < last and not (until is None and attempt)
        }
        return Spell(until, len(names))


# --- a fleet -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Agents that work on tasks at once, each in some calls of some seconds."""

    agents: int
    script: Script
    tasks: int
    calls: int = 3
    call_s: float = 4.0
    dead: int = 0
    """Of a hundred tasks, those whose agents call with another key, named ``dead``."""
    max_wait_s: float = 600.0
    bad: frozenset[int] = frozenset()
    """Tasks whose calls always fail."""
    watched: bool = False
    """Whether the lane's word is looked at, each five seconds."""


@dataclass(frozen=True, slots=True)
class Played:
    """What became of a fleet."""

    results: tuple[FinishedSample, ...]
    calls: list[Ended]
    took_s: float
    words: list[tuple[float, str]]

    @property
    def measured(self) -> int:
        """The number of tasks that were answered."""
        return sum(
            ran.verdict is not None and ran.verdict.health == "healthy" for ran in self.results
        )

    def wasted(self, since: float, until: float) -> int:
        """Count the failed calls of a time, of tries that began on a lane known to be down."""
        return sum(not x.answered and x.late and since <= x.at < until for x in self.calls)

    def begun(self, since: float, until: float) -> int:
        """Count the calls that began in a time."""
        return sum(since <= each.at < until for each in self.calls)


class _Ran:
    """One try at a task."""

    repeat = attempt = None

    def __init__(self, number: int) -> None:
        self.id = f"r{number}"
        self.result: Any = None
        self.verdict: Any = None


def play(fleet: Fleet, seed: int = 0) -> Played:
    """Run a fleet to its end."""
    rng = random.Random(seed)
    service, numbers = Service(rng), count()
    patience_of: dict[str, Tries] = {}
    begins: defaultdict[str, list[float]] = defaultdict(list)
    loop: asyncio.AbstractEventLoop

    async def solve(sample: Sample[int], ran: _Ran) -> None:
        key = "dead" if sample.task % 100 < fleet.dead else "live"
        fault: Fault | None = None
        late = service.is_down(loop.time())
        for _ in range(fleet.calls):
            at = loop.time()
            number = service.began(ran.id, at)
            fault = DOWN if sample.task in fleet.bad else fleet.script(at, key)
            seconds = FAILING_S if fault else fleet.call_s * rng.uniform(0.5, 1.5)
            await asyncio.sleep(seconds)
            attempt = len(begins[sample.name])
            service.ended(number, key, fault, task=sample.name, attempt=attempt, late=late)
            if fault is not None:
                begins[sample.name].append(at)
                break
        judged = _JUDGED["200" if fault is None else fault.kind]
        if fault is None:
            retry = judged.retry
        else:
            judged = replace(judged, provider_wait_s=fault.wait_s)
            retry = service.advice(judged, key, begins[sample.name], loop.time())
        said = {"eligible": retry.eligible, "after_s": retry.after_s, "reason": retry.reason}
        facts = {"health": judged.health.value, "retry": said, "output_tokens": None}
        ran.verdict = models.Verdict.model_validate({**VERDICT, **facts})

    async def main() -> Played:
        nonlocal loop
        loop = asyncio.get_running_loop()
        patience = LanePatience(fleet.max_wait_s, retries=True, clock=loop.time)

        async def one(
            sample: Sample[int], stop: AsyncStop, shown: Progress
        ) -> FinishedSample | None:
            async def ask() -> models.LaneTurn:
                return service.take_turn(loop.time())

            async def go(ran: Any) -> Exception | None:
                await solve(sample, ran)
                return None

            def begin() -> Any:
                return _Ran(next(numbers))

            mine = patience_of.setdefault(sample.name, Tries(next_attempt=0))
            return await run_until_settled(
                sample, mine, patience, ask=ask, begin=begin, play=go, stop=stop, shown=shown
            )

        words: list[tuple[float, str]] = []

        async def watch() -> None:
            while True:
                await asyncio.sleep(5.0)
                words.append((loop.time(), service.word(loop.time())))

        watching = asyncio.ensure_future(watch()) if fleet.watched else None
        plan = planned_samples(range(fleet.tasks), str)
        results = await run_in_tasks(plan, one, concurrency=fleet.agents, progress=False)
        if watching is not None:
            watching.cancel()
        return Played(results, service.calls, loop.time(), words)

    return played(main())
