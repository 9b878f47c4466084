"""Calls wait for their turn: on a clock of its own, with a provider that keeps a bucket."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from proxy.features.pace.lane_pace import LEARN, ClientPatience, LanePace, Turn
from proxy.features.pace.settings import GivenPace
from proxy.features.pace.stated_limits import Allowance, Unit

PATIENCE_S = 30.0


@dataclass
class Clock:
    """A clock that goes to the next thing that happens."""

    now: float = 0.0
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    def at(self, when: float, then: Callable[[], None]) -> None:
        """Have something happen."""
        heapq.heappush(self._events, (max(when, self.now), next(self._numbers), then))

    def run(self, until: float) -> None:
        """Let all happen that happens until then."""
        while self._events and self._events[0][0] <= until:
            self.now, _, then = heapq.heappop(self._events)
            then()
        self.now = until


@dataclass
class Provider:
    """A provider with a bucket of requests a minute, or a fixed window; it may state neither."""

    clock: Clock
    limit: float
    states: bool = True
    window: bool = False
    burst_s: float = 60.0  # of the limit that a full bucket lets in at once
    concurrent: float = math.inf
    tokens: float = math.inf  # a minute
    latency_s: float = 0.5
    _levels: dict[str, float] = field(default_factory=dict)
    _at: float = 0.0
    _under_way: int = 0

    def _levels_now(self) -> dict[str, float]:
        limits = {"requests": self.limit, "tokens": self.tokens}
        since, now = self.clock.now - self._at, self.clock.now
        for name, limit in limits.items():
            level = self._levels.get(name, limit)
            if self.window:
                fresh = now // 60 > self._at // 60
                self._levels[name] = limit if fresh else level
            else:
                most = limit * self.burst_s / 60
                self._levels[name] = min(most, level + limit / 60 * since)
        self._at = now
        return self._levels

    def ask(self, tokens: float) -> tuple[bool, list[Allowance], float]:
        """Take a call; return whether it is answered, what the head states, and when it ends."""
        levels = self._levels_now()
        fits = levels["requests"] >= 1 and levels["tokens"] >= tokens
        fits = fits and self._under_way < self.concurrent
        if fits:
            levels["requests"] -= 1
            levels["tokens"] -= tokens
            self._under_way += 1
        stated = []
        for name, limit in (("requests", self.limit), ("tokens", self.tokens)):
            if self.states and limit < math.inf:
                left = levels[name]
                reset_s = 60 - self.clock.now % 60 if self.window else (limit - left) / limit * 60
                stated.append(
                    Allowance(name, Unit(name), limit, float(math.floor(left)), reset_s, None)
                )
        return fits, stated, self.latency_s if fits else 0.02

    def end(self) -> None:
        """Take that an answer went out."""
        self._under_way -= 1


@dataclass
class Service:
    """One process's lane, and the agents that call through it, one call after the other each."""

    clock: Clock
    provider: Provider
    lane: LanePace
    thinks_s: float = 0.0
    size: Callable[[int], int] = lambda number: 400
    sent: list[tuple[float, str]] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    held: list[float] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)
    _looks_at: float = -1.0

    def begin(self, rollout: str, batch: str | None = None, *, goes_on: bool = True) -> None:
        """Have an agent call, and go on calling."""
        now, number = self.clock.now, next(self._numbers)
        turn = Turn(rollout, batch, lambda: None, self.size(number), now, PATIENCE_S)
        turn.go = lambda: self._send(turn, goes_on)
        if self.lane.enter(turn, now):
            self._send(turn, goes_on)
        self._look()

    def _look(self) -> None:
        now = self.clock.now
        for turn in self.lane.due(now):
            turn.go()
        at = self.lane.next_at(now)
        if at is not None and at < math.inf and not now < self._looks_at <= at:
            self._looks_at = max(at, now + 0.001)
            self.clock.at(self._looks_at, self._look)

    def _send(self, turn: Turn, goes_on: bool) -> None:
        self.held.append(self.clock.now - turn.began)
        tokens = turn.size / 4
        # A little later, and not always as late: calls overtake each other.
        delay = 0.005 + 0.01 * ((len(self.sent) * 7919) % 10) / 10
        self.sent.append((self.clock.now, turn.rollout))

        def arrive() -> None:
            fits, stated, after_s = self.provider.ask(tokens)
            self.clock.at(self.clock.now + after_s, lambda: answer(fits, stated))

        def answer(fits: bool, stated: list[Allowance]) -> None:
            now = self.clock.now
            self.lane.answered(turn, stated, now)
            if fits:
                self.provider.end()
                used = {Unit.INPUT: tokens, Unit.OUTPUT: 0.0, Unit.TOKENS: tokens}
                self.lane.ended(turn, now, used)
            else:
                self.refused.append(now)
                self.lane.ended(turn, now, None)
                self.lane.limited(turn, now, None)
            self._look()
            if goes_on:
                again = now + (self.thinks_s if fits else 1.0)
                self.clock.at(again, lambda: self.begin(turn.rollout, turn.batch))

        self.clock.at(self.clock.now + delay, arrive)

    def between(self, start: float, end: float) -> list[str]:
        """List the rollouts whose calls were sent then."""
        return [rollout for at, rollout in self.sent if start <= at < end]

    def refusals(self, after: float) -> int:
        """Count the 429s from then on."""
        return sum(1 for at in self.refused if at >= after)


def service(provider: Provider, given: GivenPace = LEARN, *, agents: int = 0) -> Service:
    """Make a process with agents that begin one after the other, within a second."""
    made = Service(provider.clock, provider, LanePace(given))
    for number in range(agents):
        provider.clock.at(number / max(agents, 1), lambda n=number: made.begin(f"r{n}"))  # type: ignore[misc]
    return made


def test_calls_take_all_of_a_stated_limit_and_meet_no_429() -> None:
    clock = Clock()
    made = service(Provider(clock, 600), agents=64)
    clock.run(180)
    assert made.refusals(0) == 0
    counted = Counter(made.between(60, 180))
    assert sum(counted.values()) >= 0.95 * 600 / 60 * 120
    assert max(counted.values()) <= 1.2 * min(counted.values())
    assert len(counted) == 64


def test_nobody_waits_below_a_limit() -> None:
    clock = Clock()
    made = service(Provider(clock, 60_000), agents=64)
    clock.run(30)
    assert max(made.held) == 0
    assert made.refused == []


def test_a_limit_that_is_halved_is_kept_as_soon_as_it_is_stated() -> None:
    clock = Clock()
    provider = Provider(clock, 600)
    made = service(provider, agents=64)
    clock.at(90, lambda: setattr(provider, "limit", 300))
    clock.run(240)
    assert made.refusals(95) == 0
    assert len(made.between(140, 240)) >= 0.95 * 300 / 60 * 100


def test_a_fixed_window_is_known_by_a_reset_that_stands_still() -> None:
    clock = Clock()
    made = service(Provider(clock, 300, window=True), agents=32)
    clock.run(360)
    assert made.refusals(60) <= 3
    assert len(made.between(60, 360)) >= 0.9 * 300 * 5


def test_a_limit_of_tokens_is_kept_by_what_the_last_calls_took() -> None:
    clock = Clock()
    provider = Provider(clock, math.inf, tokens=2_400_000)
    made = service(provider, agents=64)
    made.size = lambda number: 1_000 if number % 3 else 100_000
    clock.run(300)
    assert made.refusals(30) == 0
    tokens = sum(1_000 if n % 3 else 100_000 for n in range(len(made.sent))) / 4
    assert tokens >= 0.95 * 2_400_000 * 5
    lengths = Counter(made.between(60, 300))
    assert max(lengths.values()) <= 1.2 * min(lengths.values()) + 1


of_processes = pytest.mark.parametrize("count_", [1, 3], ids=["a process", "three processes"])


@of_processes
@pytest.mark.parametrize(
    ("kind", "limit"),
    [
        pytest.param({}, 60, id="a bucket of 60"),
        pytest.param({"burst_s": 1.0}, 300, id="a bucket of a second", marks=pytest.mark.slow),
        pytest.param({"window": True}, 300, id="a window", marks=pytest.mark.slow),
    ],
)
def test_an_unstated_limit_is_used_but_for_a_few_percent(
    kind: dict[str, Any], limit: float, count_: int
) -> None:
    provider = Provider(Clock(), limit, states=False, **kind)
    check_use(provider, [16] if count_ == 1 else [2, 4, 10], since=60, until=180)


@pytest.mark.slow
@pytest.mark.whole
@of_processes
@pytest.mark.parametrize(
    ("window", "limit", "latency_s"),
    [(False, 1_200, 0.2), (True, 2_400, 0.4)],
    ids=["a bucket of 1200", "a window of 2400"],
)
def test_so_is_a_large_one_for_minutes(
    window: bool, limit: float, latency_s: float, count_: int
) -> None:
    provider = Provider(Clock(), limit, states=False, latency_s=latency_s, window=window)
    check_use(provider, [64] if count_ == 1 else [8, 16, 40], since=120, until=360)


def check_use(provider: Provider, agents: Sequence[int], *, since: float, until: float) -> None:
    """Check that nearly all of a limit is used in a time, with few 429s."""
    made = processes(provider, agents)
    provider.clock.run(until)
    sent = sum(len(each.between(since, until)) for each in made)
    refused = sum(each.refusals(since) for each in made)
    # Processes see the ends of a window at different times.
    least = 0.85 if provider.window and len(agents) > 1 else 0.95
    assert sent - refused >= least * provider.limit / 60 * (until - since)
    assert refused <= 0.08 * sent


@pytest.mark.parametrize("factor", [0.5, pytest.param(2.0, marks=pytest.mark.slow)])
def test_an_unstated_limit_that_changes_is_learnt_anew(factor: float) -> None:
    clock = Clock()
    provider = Provider(clock, 240, states=False)
    made = processes(provider, [4, 8, 20])
    clock.at(60, lambda: setattr(provider, "limit", 240 * factor))
    clock.run(240)
    sent = sum(len(each.between(120, 240)) for each in made)
    refused = sum(each.refusals(120) for each in made)
    assert refused <= 0.05 * sent
    assert sent - refused >= 0.95 * 240 * factor / 60 * 120


def processes(provider: Provider, agents: Sequence[int]) -> list[Service]:
    """Make processes on one lane, with so many agents each, that hear of each other by the second.

    Each has a share by its agents, as leases have it.
    """
    clock, made = provider.clock, []
    for number, count_ in enumerate(agents):
        each = Service(clock, provider, LanePace(share=count_ / sum(agents)))
        for agent in range(count_):
            name = f"{number} {agent}"
            clock.at(agent / count_, lambda s=each, n=name: s.begin(n))  # type: ignore[misc]
        made.append(each)

    def report() -> None:
        loads = [each.lane.load(clock.now) for each in made]
        for number, each in enumerate(made):
            each.lane.merge(loads[:number] + loads[number + 1 :], clock.now)
        clock.at(clock.now + 1, report)

    clock.at(1, report)
    return made


@pytest.mark.parametrize(
    ("provider", "least"),
    [
        pytest.param(
            lambda clock: Provider(clock, 300, states=False),
            0.8 * 300 / 60,
            id="a rate",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            lambda clock: Provider(clock, math.inf, states=False, concurrent=24, latency_s=4),
            0.7 * 24 / 4,
            id="calls at once",
        ),
    ],
)
def test_what_one_process_learns_of_429s_holds_for_all_so_that_turns_are_fair(
    provider: Callable[[Clock], Provider], least: float
) -> None:
    clock = Clock()
    made = processes(provider(clock), [8, 16, 40])
    clock.run(300)
    sent = [each.between(100, 300) for each in made]
    refused = sum(each.refusals(100) for each in made)
    total = sum(map(len, sent))
    assert refused <= 0.05 * total
    assert total - refused >= least * 200
    calls = Counter(name for each in sent for name in each)
    assert len(calls) == 64
    assert max(calls.values()) <= 1.2 * min(calls.values())


def test_calls_at_once_are_learnt_from_429s() -> None:
    clock = Clock()
    provider = Provider(clock, math.inf, states=False, concurrent=8, latency_s=4)
    made = service(provider, agents=40)
    clock.run(600)
    sent = len(made.between(200, 600))
    assert made.refusals(200) <= 0.1 * sent
    assert sent - made.refusals(200) >= 0.7 * 8 / 4 * 400


def test_given_limits_are_kept_where_the_provider_states_none() -> None:
    clock = Clock()
    given = GivenPace(requests_per_minute=300, concurrency=20)
    made = service(Provider(clock, 300, states=False, concurrent=20), given, agents=64)
    clock.run(300)
    assert made.refused == []
    assert len(made.between(60, 300)) >= 0.95 * 300 / 60 * 240


def test_a_burst_of_one_rollout_holds_nobody_else() -> None:
    clock = Clock()
    made = service(Provider(clock, 60), GivenPace(requests_per_minute=60))
    for _ in range(100):
        made.begin("burst", goes_on=False)
    clock.at(5, lambda: made.begin("other", goes_on=False))
    clock.run(8)
    (at,) = [at for at, rollout in made.sent if rollout == "other"]
    assert at <= 5 + 2.1  # behind one call of the burst


def test_batches_have_turns_by_weight() -> None:
    clock = Clock()
    provider = Provider(clock, 600, states=False)
    lane = LanePace(
        GivenPace(requests_per_minute=600), weight=lambda batch: 3.0 if batch == "a" else 1.0
    )
    made = Service(clock, provider, lane)
    for number in range(60):
        made.begin(f"a{number}", "a")
        made.begin(f"b{number}", "b")
    clock.run(10)
    turns = Counter(rollout[0] for rollout in made.between(1, 10))
    assert turns["a"] == pytest.approx(3 * turns["b"], rel=0.1)


def test_a_call_that_has_waited_long_enough_goes_on_in_the_order_of_its_rollout() -> None:
    lane = LanePace(GivenPace(requests_per_minute=1))
    turns = [
        Turn("r", None, lambda: None, 1, float(at), patience_s)
        for at, patience_s in ((0, 30.0), (1, 30.0), (2, 5.0))
    ]
    assert lane.enter(turns[0], 0.0)
    assert not lane.enter(turns[1], 1.0)
    assert not lane.enter(turns[2], 2.0)
    assert lane.due(30.9) == []
    assert lane.next_at(30.9) == pytest.approx(31.0)
    assert lane.due(31.0) == turns[1:]
    assert [turn.overdue for turn in turns] == [False, True, True]


def test_what_a_provider_says_to_wait_is_waited() -> None:
    lane = LanePace()
    first = Turn("r", None, lambda: None, 1, 0.0, PATIENCE_S)
    assert lane.enter(first, 0.0)
    lane.ended(first, 0.1, None)
    lane.limited(first, 0.1, 7.0)
    second = Turn("r", None, lambda: None, 1, 0.2, PATIENCE_S)
    assert not lane.enter(second, 0.2)
    assert lane.due(7.0) == []
    assert lane.due(7.2) == [second]


def turn(rollout: str, at: float) -> Turn:
    return Turn(rollout, None, lambda: None, 1, at, PATIENCE_S)


def told(lane: LanePace, rollout: str, at: float, wait_s: float) -> None:
    """Let a call of a rollout meet a limit with a stated wait."""
    first = turn(rollout, at)
    assert lane.enter(first, at)
    lane.ended(first, at, None)
    lane.limited(first, at, wait_s)


def test_a_wait_that_one_rollout_is_told_lets_others_try_once_a_second() -> None:
    lane = LanePace()
    told(lane, "a", 0.0, 20.0)
    own, others = turn("a", 0.1), [turn("b", 0.2 + n / 10) for n in range(4)]
    assert not lane.enter(own, 0.1)
    assert lane.enter(others[0], 0.2), "the first is the try"
    assert [lane.enter(each, each.began) for each in others[1:]] == [False] * 3
    assert lane.next_at(0.6) == pytest.approx(1.2)
    assert lane.due(1.1) == []
    for n, at in enumerate((1.2, 2.2, 3.2), 1):
        lane.ended(others[n - 1], at - 0.5, None)
        assert lane.due(at) == others[n : n + 1]
    lane.ended(others[3], 4.0, None)
    assert lane.due(19.9) == []
    assert lane.due(20.0) == [own]


def test_a_wait_that_a_second_rollout_is_told_too_holds_everybody() -> None:
    lane = LanePace()
    told(lane, "a", 0.0, 9.0)
    told(lane, "b", 0.5, 9.0)
    third = turn("c", 0.6)
    assert not lane.enter(third, 0.6)
    assert lane.due(9.4) == []
    assert lane.due(9.5) == [third]
    lane.ended(third, 10.0, {})
    told(lane, "c", 11.0, 9.0)
    assert lane.enter(turn("a", 12.0), 12.0), "of another limit only one is told yet"


def test_a_wait_that_another_process_is_told_is_tried_until_one_here_is_told_too() -> None:
    lane = LanePace()
    lane.block(30.0, 0.0)
    assert lane.enter(turn("a", 0.1), 0.1)
    assert not lane.enter(turn("b", 0.2), 0.2)
    (tried,) = lane.due(1.1)
    lane.ended(tried, 1.2, None)
    lane.limited(tried, 1.2, 28.8)
    assert not lane.enter(turn("c", 3.0), 3.0)
    assert lane.due(29.9) == []


def test_a_limit_in_the_head_of_one_rollouts_answers_lets_others_try_once_a_second() -> None:
    lane = LanePace()
    spent = [Allowance("requests", Unit.REQUESTS, 10.0, 0.0, 60.0, None)]
    first, second = turn("a", 0.0), turn("a", 0.1)
    assert lane.enter(first, 0.0)
    lane.answered(first, spent, 0.05)
    assert not lane.enter(second, 0.1)
    tried, held = turn("b", 0.2), turn("c", 0.3)
    assert lane.enter(tried, 0.2)
    assert not lane.enter(held, 0.3)
    lane.answered(tried, spent, 0.4)
    assert lane.due(5.0) == [], "two are told"


def test_a_call_that_leaves_frees_its_place() -> None:
    lane = LanePace(GivenPace(concurrency=1))
    turns = [Turn(name, None, lambda: None, 1, 0.0, PATIENCE_S) for name in "abc"]
    assert [lane.enter(turn, 0.0) for turn in turns] == [True, False, False]
    lane.leave(turns[1])
    lane.ended(turns[0], 1.0, None)
    assert lane.due(1.0) == [turns[2]]


def test_a_client_that_gave_up_sooner_is_held_less() -> None:
    patience = ClientPatience(PATIENCE_S)
    assert patience.of("r", None, None) == PATIENCE_S
    patience.note("r", "b", 10.0)
    assert patience.of("r", None, None) == 5.0
    assert patience.of("another of its batch", "b", None) == 5.0
    assert patience.of("another", None, 20.0) == 10.0  # as its client states
