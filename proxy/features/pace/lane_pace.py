"""The pace of calls to one lane: how many may go when, and whose turn it is.

A lane is an upstream, a model and a key: what a provider counts against one limit. Its calls wait
here instead of meeting a 429. Nothing in this module reads a clock, so that tests play it on one of
their own: ``now`` is monotonic seconds everywhere.

Limits are those that answers state in their heads (see `stated_limits`), those that the operator
gives, and, if a 429 comes that neither explains, a rate and a number of calls at once that are
learnt of it (see `learnt_limits`).

What answers state binds other rollouts than the one that was told once a second one is told too.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from proxy.features.pace.learnt_limits import (
    FEWEST_AT_ONCE,
    LearntLimit,
    at_least,
    in_vain,
    number_stands,
    pause_after,
    rate_between,
    same_rate,
    shown_at_once,
    tells_number,
    tells_rate,
)
from proxy.features.pace.settings import GivenPace
from proxy.features.pace.stated_limits import Allowance, Unit

LEARN = GivenPace()  # no limits but those that are learnt

MINUTE_S = 60.0
_ELSEWHERE = ""  # the rollouts of another process
_PERIODS = (1.0, MINUTE_S, 3_600.0, 86_400.0)
_NEAR = 0.25  # by which a period that was worked out may differ from one of those
_RESERVE = 0.02  # of a limit: calls overtake each other on their way
_UPWARDS = 0.05  # of a limit, by which the provider must have more than we think
_BURST_S = 10.0  # of a given limit that may go at once: most providers smooth theirs
_TRY_S = 1.0  # between calls of others while only one rollout was told of a limit
_OF_TIMEOUT = 0.5  # of a client's own time-out, that a call may wait of it


@dataclass(slots=True)
class Told:
    """The rollouts that answers told of a limit: the first, or several."""

    rollout: str | None = None
    several: bool = False

    def note(self, rollout: str) -> None:
        """Note a rollout that was told."""
        if self.rollout is None:
            self.rollout = rollout
        self.several = self.several or rollout != self.rollout

    def binds(self, rollout: str) -> bool:
        """Return True if the limit holds a rollout's calls, False if it may try."""
        return self.several or rollout == self.rollout


# --- one limit ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Bucket:
    """One limit of a lane, as far as this process may use it.

    ``capacity`` and ``rate`` (per second) are the whole lane's, ``level`` is of this process's
    ``share``. ``taken`` counts all that was ever taken. ``told`` are those whom it was stated to,
    None where nobody but the operator states it. ``window_at``: nothing comes back before
    then, as the limit is of a fixed window, in which ``window_left`` is left; its calls are spread
    over the window. None for a bucket that fills all the time.
    """

    unit: Unit
    capacity: float
    rate: float
    at: float
    share: float = 1.0
    level: float = 0.0
    taken: float = 0.0
    told: Told | None = None
    window_at: float | None = None
    window_left: float = math.inf
    _mark: tuple[float, float] | None = None  # remaining and reset of an earlier answer

    @classmethod
    def stated(cls, stated: Allowance, *, now: float, share: float) -> Bucket | None:
        """Make one of what an answer states; None if it states no limit."""
        limit = stated.limit
        if limit is None or limit <= 0:
            return None
        bucket = cls(stated.unit, limit, limit / _period(stated, limit), now, share, told=Told())
        remaining = limit if stated.remaining is None else stated.remaining
        bucket.level = (remaining - bucket.reserve) * share
        return bucket

    @property
    def reserve(self) -> float:
        """The part of the limit that is left alone."""
        return max(1.0, self.capacity * _RESERVE) if self.capacity >= 10 else 0.0

    @property
    def most(self) -> float:
        """The most that this process may have in it."""
        whole = self.capacity - self.reserve
        if self.window_at is not None:
            whole = min(whole, self.rate * _BURST_S)
        return max(whole * self.share, 1e-9)

    def refill(self, now: float) -> None:
        """Add what came back since the last time."""
        since, self.at = now - self.at, now
        self.level = min(self.most, self.level + self.rate * self.share * since)
        if self.window_at is not None and now >= self.window_at:
            self.window_left = math.inf  # until an answer states it

    def wait(self, cost: float, now: float) -> float:
        """Return how long it takes until there is enough for a call, in seconds.

        One that costs more than there can ever be goes when the bucket is full.
        """
        if self.window_at is not None and self.window_left < cost:
            return max(0.0, self.window_at - now)
        short = min(cost, self.most) - self.level
        if short <= 1e-9:
            return 0.0
        speed = self.rate * self.share
        return short / speed if speed > 0 else math.inf

    def take(self, cost: float) -> None:
        """Charge what a call costs; the level may fall below zero."""
        # Calls that went on although it was empty do not hold up others for ever.
        self.level = max(self.level - cost, -self.capacity * self.share - cost)
        self.window_left -= cost
        self.taken += cost

    def resize(self, share: float) -> None:
        """Change to another share; a larger one fills with time."""
        if share < self.share and self.level > 0:
            self.level *= share / self.share
        self.share = share

    def observe(
        self, stated: Allowance, *, now: float, sent_at: float, taken: float | None
    ) -> None:
        """Note what an answer states.

        Arguments:
            sent_at: when its call was sent, which is when the provider counted.
            taken: as it was right after the call had taken its part; None: before there was one.
        """
        limit = stated.limit
        if limit is not None and limit > 0 and limit != self.capacity:
            self.level *= min(1.0, limit / self.capacity)
            self.capacity = limit
            self.rate = limit / _period(stated, limit)
        remaining = stated.remaining
        if remaining is None:
            return
        self._look_for_window(stated, remaining, now)
        if self.window_at is None and remaining < self.capacity * (1 - _UPWARDS):
            self.rate = self.capacity / _period(stated, self.capacity, self.capacity / self.rate)
        since = 0.0 if taken is None else self.taken - taken
        if self.window_at is not None:
            self.window_left = (remaining - self.reserve) * self.share - since
            return
        back = self.rate * (now - sent_at)
        left = (remaining - self.reserve + back) * self.share - since
        margin = self.capacity * _UPWARDS
        if left < self.level:
            self.level = left
        elif self.share > 0.999 and taken is not None and left - margin > self.level:
            self.level = left - margin  # more than that is another call's, on its way
        self.level = min(self.level, self.most)

    def _look_for_window(self, stated: Allowance, remaining: float, now: float) -> None:
        """See if the time of the reset stands still while calls are counted: a fixed window.

        That of a bucket moves on with each: it is when all of it has come back.
        """
        if stated.reset_s is None:
            return
        reset_at, mark = now + stated.reset_s, self._mark
        if self.window_at is not None and reset_at > self.window_at + 1.5:
            self.window_at = reset_at  # the next one
        if mark is None or remaining >= mark[0] or abs(reset_at - mark[1]) > 30:
            self._mark = (remaining, reset_at)
            return
        moves = (mark[0] - remaining) / self.rate  # that of a bucket, in seconds
        if moves < 5:
            return
        if reset_at - mark[1] < 1.5:
            self.window_at = reset_at
            period = next((each for each in _PERIODS if stated.reset_s <= each), _PERIODS[-1])
            self.rate = self.capacity / (stated.period_s or max(period, MINUTE_S))
        else:
            self.window_at, self.window_left, self._mark = None, math.inf, (remaining, reset_at)


def _period(stated: Allowance, limit: float, otherwise: float = MINUTE_S) -> float:
    """Return the seconds in which a limit comes back.

    As its name says; else as the reset says, which is that of a bucket: when all that was taken
    has come back. Where that is no usual period it is ``otherwise``.
    """
    if stated.period_s is not None:
        return stated.period_s
    used = None if stated.remaining is None else limit - stated.remaining
    if used and used > 0 and stated.reset_s:
        worked_out = stated.reset_s * limit / used
        for period in _PERIODS:
            if abs(worked_out / period - 1) <= _NEAR:
                return period
    return otherwise


# --- turns: whose it is ------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Turn:
    """One call's place in a lane.

    ``go`` is called when it may be sent. ``costs`` are what it is taken to use, by unit.
    ``patience_s``: how long it waits at most. ``sent_at`` is None while it waits.
    """

    rollout: str
    batch: str | None
    go: Callable[[], None]
    size: int  # of its request, in bytes
    began: float
    patience_s: float
    deadline: float = 0.0  # until when it waits
    costs: Mapping[Unit, float] = field(default_factory=dict)
    sent_at: float | None = None
    beside: float = 0.0  # calls of the lane under way as it was sent, it among them
    overdue: bool = False  # it went on because it had waited long enough
    ended: bool = False
    marks: dict[str, float] = field(default_factory=dict)  # `taken` of buckets as it was sent
    settled: dict[Unit, float] = field(default_factory=dict)


def _deadline(turn: Turn) -> float:
    return turn.deadline


class FairQueue:
    """Waiting calls: batches by weight, in each the rollouts in turns, in each of those in order.

    Arguments:
        weight: of a batch; twice the weight is twice as many turns.
    """

    def __init__(self, weight: Callable[[str | None], float] = lambda batch: 1.0) -> None:
        self._weight = weight
        self._batches: dict[str | None, OrderedDict[str, deque[Turn]]] = {}
        self._passes: dict[str | None, float] = {}
        self._deadlines: list[Turn] = []  # all that wait, by when they go on in any case
        self._now = 0.0  # the pass of the batch that had the last turn
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Turn]:
        for rollouts in self._batches.values():
            for turns in rollouts.values():
                yield from turns

    def add(self, turn: Turn) -> None:
        """Put a call behind the others of its rollout."""
        rollouts = self._batches.get(turn.batch)
        if rollouts is None:
            rollouts = self._batches[turn.batch] = OrderedDict()
            self._passes[turn.batch] = max(self._passes.get(turn.batch, 0.0), self._now)
        turns = rollouts.setdefault(turn.rollout, deque())
        turn.deadline = turn.began + turn.patience_s
        if turns:  # it overtakes none of its rollout's, however little patience it has
            turn.deadline = max(turn.deadline, turns[-1].deadline)
        turns.append(turn)
        insort(self._deadlines, turn, key=_deadline)
        self._count += 1

    def late(self, now: float) -> list[Turn]:
        """Return the calls that have waited for as long as they may, in the order of that."""
        return self._deadlines[: bisect_right(self._deadlines, now + 1e-6, key=_deadline)]

    def deadline(self) -> float:
        """Return when the first of them has."""
        return self._deadlines[0].deadline if self._deadlines else math.inf

    def first(self, but: str | None = None) -> Turn | None:
        """Return the call whose turn is next; of a rollout alone (``but``) only if no other waits.

        That one has no turn yet, which is no reason for the others to wait.
        """
        if not self._count:
            return None
        passes = sorted(self._batches, key=lambda each: (self._passes[each], each or ""))
        own = None
        for batch in passes if but is not None else passes[:1]:
            for rollout, turns in self._batches[batch].items():
                if rollout != but:
                    return turns[0]
                own = own or turns[0]
        return own

    def pop(self, turn: Turn) -> None:
        """Give a call its turn: its rollout is the last of its batch then."""
        batch = turn.batch
        self._now = max(self._now, self._passes[batch])
        self._passes[batch] += 1.0 / max(self._weight(batch), 1e-3)
        self._batches[batch].move_to_end(turn.rollout)
        self.remove(turn)

    def remove(self, turn: Turn) -> None:
        """Remove a call."""
        rollouts = self._batches[turn.batch]
        turns = rollouts[turn.rollout]
        turns.remove(turn)
        at = bisect_left(self._deadlines, turn.deadline, key=_deadline)
        while self._deadlines[at] is not turn:
            at += 1
        del self._deadlines[at]
        self._count -= 1
        if not turns:
            del rollouts[turn.rollout]
            if not rollouts:
                del self._batches[turn.batch]
        if len(self._passes) > 1_000:
            self._passes = {each: self._passes[each] for each in self._batches}


# --- a lane ------------------------------------------------------------------------------------


class ExpectedUsage:
    """The tokens that a lane's calls take, as its last ones did."""

    __slots__ = ("_bytes", "_calls", "_input", "_output")

    def __init__(self) -> None:
        self._calls = self._bytes = self._input = self._output = 0.0

    def note(self, size: int, used: Mapping[Unit, float]) -> None:
        """Note an answered call's request in bytes, and its tokens."""
        for name, value in (("_calls", 1.0), ("_bytes", float(size)),
                            ("_input", used.get(Unit.INPUT, 0.0)),
                            ("_output", used.get(Unit.OUTPUT, 0.0))):  # fmt: skip
            setattr(self, name, getattr(self, name) * 0.97 + value)  # some thirty calls

    def expected(self, size: int) -> dict[Unit, float]:
        """Return what a call with a request of so many bytes is taken to use."""
        each_byte = self._input / self._bytes if self._bytes else 0.25
        output = self._output / self._calls if self._calls else 0.0
        return {
            Unit.REQUESTS: 1.0,
            Unit.INPUT: each_byte * size,
            Unit.OUTPUT: output,
            Unit.TOKENS: each_byte * size + output,
        }


@dataclass(frozen=True, slots=True)
class Load:
    """A process's part of a lane's calls, and the limits of the whole lane that it learnt.

    ``answered`` is in calls a second. ``rate`` and ``at_once`` are None before a 429 came.
    """

    in_flight: float = 0.0
    answered: float = 0.0
    rate: LearntLimit | None = None
    at_once: LearntLimit | None = None


class LimitEstimator:
    """Counts what a whole lane's calls met, and learns its limits: `learnt_limits` says how.

    They are a ``rate``, and a number of calls ``at_once``; None before a 429 came.
    """

    def __init__(self, now: float) -> None:
        self.rate: LearntLimit | None = None
        self.at_once: LearntLimit | None = None
        self._since = now  # the end of the last episode that told a rate
        self._let_in = 0  # calls since
        self._was_free = False  # nothing had to wait for the rate, at some time since
        self._began = -math.inf  # the last episode's 429
        self._is_open = False
        self._met_rate = math.inf  # at which it came
        self._of_many = False  # it tells of calls at once, unless it lasts
        self._before: LearntLimit | None = None  # `at_once` before it
        self._peak = 0.0  # calls at once that were all let in, of those sent since it
        self._shown = 0  # calls that were
        self._vain = 0  # 429s in a row
        self._latency_s = 0.0  # of calls that were let in
        self._pause_s = 0.0
        self._paused_until = -math.inf

    def let_in_rate(self, now: float) -> float:
        """Return how many calls were let in each second, since the last episode."""
        return self._let_in / max(now - self._since, 1.0)

    def wait(self, now: float) -> float:
        """Return how long it takes until a call may try if any is let in again, in seconds."""
        return self._paused_until - now

    def send(self, now: float) -> None:
        """Note that a call is sent."""
        if self._pause_s:
            self._paused_until = now + self._pause_s

    def note_free(self) -> None:
        """Note a call that did not wait for the rate: less is let in than the limit allows."""
        self._was_free = True

    def let_in(self, turn: Turn, now: float, others: float) -> bool:
        """Note a call that was let in; True if that changed the rate.

        Arguments:
            others: calls a second that other processes were let in.
        """
        self._let_in += 1
        if turn.sent_at is None or turn.sent_at <= self._began:
            return False
        self._peak = max(self._peak, turn.beside)
        self._shown += 1
        vain, self._vain, self._pause_s, self._paused_until = self._vain, 0, 0.0, -math.inf
        took_s = now - turn.sent_at
        self._latency_s += (0.1 if self._latency_s else 1.0) * (took_s - self._latency_s)
        if self._is_open:
            self._is_open = False
            if self._of_many:
                if number_stands(vain, turn.sent_at - self._began):
                    return False
                self.at_once = self._before
            return self._learn_rate(turn.sent_at, others)
        if self.rate is None and now - self._since > MINUTE_S:
            self._let_in, self._since = 0, now
        return False

    def refuse(self, turn: Turn, now: float, under_way: float) -> bool:
        """Note a call that met a 429; True if that changed the rate.

        Arguments:
            under_way: the lane's other calls.
        """
        if turn.sent_at is None or turn.sent_at <= self._began:
            # Of many refusals at once the last one shows best how many were let in.
            if self._is_open and self.at_once is not None and self.at_once.at == self._began:
                let_in = shown_at_once(under_way, 0.0 if self._of_many else self._peak)
                self.at_once = LearntLimit(min(self.at_once.value, let_in), self._began)
            return False
        if self._is_open:
            self._vain += 1
            if in_vain(self._vain) or not under_way:
                self._pause_s = pause_after(self._pause_s)
                self._paused_until = now + self._pause_s
            return False
        let_in = shown_at_once(under_way, self._peak)
        self._before = self.at_once
        self._of_many = tells_number(let_in, self._latency_s)
        if self._of_many:
            most = math.inf if self.at_once is None else self.at_once.at_once(now)
            self.at_once = LearntLimit(min(shown_at_once(under_way, 0.0), most), now)
        elif self.at_once is None or self._shown >= self.at_once.value:
            self.at_once = LearntLimit(let_in, now)
        self._begin(now)
        self._is_open = True
        if self.rate is None:
            return False
        self._met_rate = self.rate.rate(now)
        if self._of_many:
            return False
        self.rate = LearntLimit(self.rate.value, now)
        return True

    def _begin(self, now: float) -> None:
        self._began, self._is_open, self._peak, self._shown = now, False, 0.0, 0

    def _count_from(self, now: float) -> None:
        self._let_in, self._since, self._was_free = 0, now, False

    def _learn_rate(self, now: float, others: float) -> bool:
        """Learn from an episode that ended at a time; True if that changed the rate."""
        since_s = max(now - self._since, 0.1)
        mean = self._let_in / since_s + others
        before = self.rate
        if not tells_rate(mean * since_s, since_s, first=before is None):
            if before is not None:
                self.rate = LearntLimit(before.value, now)
            return before is not None
        value = mean
        if before is not None:
            value = rate_between(
                mean,
                self._met_rate,
                since_s=since_s,
                episode_s=now - self._began,
                before=before.value,
                was_free=self._was_free,
            )
        self.rate = LearntLimit(at_least(value), now)
        self._count_from(now)
        return True

    def merge(self, rate: LearntLimit | None, at_once: LearntLimit | None, now: float) -> bool:
        """Note what another process learnt; the newest holds. True if that changed the rate."""
        if at_once is not None and (self.at_once is None or self.at_once.precedes(at_once)):
            self.at_once = at_once
        if rate is None or (self.rate is not None and not self.rate.precedes(rate)):
            return False
        if self.rate is None or not same_rate(rate.value, self.rate.value):
            self._count_from(now)
            self._begin(now)
        self.rate = rate
        return True

    def forget(self, now: float) -> None:
        """Forget a rate."""
        self.rate = None
        self._let_in, self._since, self._met_rate = 0, now, math.inf


class LanePace:
    """The limits of one lane, the calls that wait for them, and those under way.

    What 429s teach is of the whole lane: what any process learnt last holds for all.

    Arguments:
        given: limits of the operator's; None of its fields has to be set.
        share: of the lane's limits that this process may use, from 0 to 1.
        weight: of a batch.
    """

    def __init__(
        self,
        given: GivenPace = LEARN,
        *,
        now: float = 0.0,
        share: float = 1.0,
        weight: Callable[[str | None], float] = lambda batch: 1.0,
    ) -> None:
        self.share = share
        self.queue = FairQueue(weight)
        self.buckets: dict[str, Bucket] = {}
        self.blocked_until = 0.0
        self._told = Told()  # of that wait
        self._tries = False  # the last call that was looked at goes on to try a limit of others
        self._try_at = -math.inf
        self.in_flight = 0
        self.used_at = now
        self.usage = ExpectedUsage()
        self._concurrency = math.inf if given.concurrency is None else float(given.concurrency)
        self._estimator = LimitEstimator(now)
        self._learnt: Bucket | None = None  # of the rate that is learnt
        self._others = Load()  # of all other processes together
        for name, unit, limit in (
            ("given requests", Unit.REQUESTS, given.requests_per_minute),
            ("given tokens", Unit.TOKENS, given.tokens_per_minute),
        ):
            if limit is not None:
                burst = max(1.0, limit * _BURST_S / MINUTE_S)
                self.buckets[name] = Bucket(unit, burst, limit / MINUTE_S, now, share)
                self.buckets[name].level = self.buckets[name].most

    # calls

    def enter(self, turn: Turn, now: float) -> bool:
        """Queue a call; return True if it may be sent at once, else it waits for `due`."""
        turn.costs = self.usage.expected(turn.size)
        self.used_at = now
        first = self._first(now)
        passes = first is None or first.rollout == self._alone(now) != turn.rollout
        if passes and self._wait(turn, now) <= 0:
            if self._learnt is not None and self._learnt.level >= self._learnt.most:
                self._estimator.note_free()
            self._send(turn, now)
            return True
        self.queue.add(turn)
        return False

    def due(self, now: float) -> list[Turn]:
        """Return the waiting calls that are to be sent now, in their order."""
        sent = []
        while (turn := self._first(now)) is not None and self._wait(turn, now) <= 0:
            self.queue.pop(turn)
            self._send(turn, now)
            sent.append(turn)
        self._tries = False
        late = self.queue.late(now)
        for turn in late:
            turn.overdue = True
            self.queue.remove(turn)
            self._send(turn, now)
        return sent + late

    def next_at(self, now: float) -> float | None:
        """Return when to look for calls that are due; None if none waits."""
        turn = self._first(now)
        if turn is None:
            return None
        head = self.queue.first() or turn
        wait = min(self._wait(head, now), self._wait(turn, now))
        return min(self.queue.deadline(), now + wait)

    def _first(self, now: float) -> Turn | None:
        """Return the call whose turn is next; that of the only one told of a limit comes last."""
        return self.queue.first(self._alone(now)) if len(self.queue) else None

    def _alone(self, now: float) -> str | None:
        """Return the only rollout that was told of a limit that holds now, None without one."""
        told = self._told
        if self.blocked_until > now and not told.several:
            return told.rollout
        for bucket in self.buckets.values():
            if bucket.told is not None and not bucket.told.several and bucket.level < 1:
                return bucket.told.rollout
        return None

    def leave(self, turn: Turn) -> None:
        """Remove a call that will not be sent, or whose end nobody will report."""
        if turn.ended:
            return
        turn.ended = True
        if turn.sent_at is None:
            self.queue.remove(turn)
        else:
            self.in_flight -= 1

    def _wait(self, turn: Turn, now: float) -> float:
        """Return how long a call has to wait for all limits, in seconds."""
        if self.in_flight + 1 > self._most_at_once(now):
            return math.inf  # until one ends
        self._raise_rate(now)
        wait, others = self._estimator.wait(now), 0.0
        if self._told.binds(turn.rollout):
            wait = max(wait, self.blocked_until - now)
        else:
            others = self.blocked_until - now
        for bucket in self._all():
            bucket.refill(now)
            held = bucket.wait(turn.costs[bucket.unit], now)
            if bucket.told is None or bucket.told.binds(turn.rollout):
                wait = max(wait, held)
            else:
                others = max(others, held)
        self._tries = others > 0
        return max(wait, min(others, self._try_at - now))

    def _most_at_once(self, now: float) -> float:
        """Return how many calls this process may have under way."""
        given, learnt = self._concurrency, self._learnt_at_once(now)
        if given < math.inf:
            given = max(1.0, given * self.share)
        if learnt < math.inf:
            learnt = max(FEWEST_AT_ONCE, learnt * self.share)
        return min(given, learnt)

    def _learnt_at_once(self, now: float) -> float:
        learnt = self._estimator.at_once
        return math.inf if learnt is None else learnt.at_once(now)

    def _send(self, turn: Turn, now: float) -> None:
        turn.sent_at = now
        self.in_flight += 1
        if self._tries:
            self._try_at = now + _TRY_S
        self._estimator.send(now)
        turn.beside = self.in_flight + self._others.in_flight
        for bucket in self._all():
            bucket.take(turn.costs[bucket.unit])
        turn.marks = {name: bucket.taken for name, bucket in self.buckets.items()}

    def _all(self) -> list[Bucket]:
        buckets = list(self.buckets.values())
        return buckets if self._learnt is None else [*buckets, self._learnt]

    # what comes back

    def answered(self, turn: Turn, stated: Iterable[Allowance], now: float) -> None:
        """Note the limits that the head of a call's answer states."""
        sent_at = turn.sent_at if turn.sent_at is not None else now
        for each in stated:
            bucket = self.buckets.get(each.name)
            if bucket is None:
                made = Bucket.stated(each, now=now, share=self.share)
                if made is not None:
                    self.buckets[each.name] = bucket = made
                    # Calls on their way that the provider had not counted yet.
                    others = max(0, self.in_flight - 1)
                    made.level -= min(others * turn.costs[each.unit], made.most)
            else:
                bucket.refill(now)
                taken = turn.marks.get(each.name)
                bucket.observe(each, now=now, sent_at=sent_at, taken=taken)
            if bucket is not None and bucket.told is not None:
                bucket.told.note(turn.rollout)

    def ended(self, turn: Turn, now: float, used: Mapping[Unit, float] | None) -> None:
        """Note that a call ended; may be called again if more is known.

        Arguments:
            used: its tokens, empty if they are not known; None if it was not answered.
        """
        if not turn.ended:
            turn.ended = True
            self.in_flight -= 1
            self.used_at = now
        if used is None:
            return
        if not turn.settled:
            if used:
                self.usage.note(turn.size, used)
            if self._estimator.let_in(turn, now, self._others.answered):
                self._keep_rate(now)
        for bucket in self._all():
            if bucket.unit is not Unit.REQUESTS:
                before = turn.settled.get(bucket.unit, turn.costs[bucket.unit])
                bucket.take(used.get(bucket.unit, before) - before)
        turn.settled = {**turn.settled, **used}

    def limited(self, turn: Turn, now: float, retry_after_s: float | None) -> None:
        """Note that a call met a rate limit."""
        if retry_after_s:
            self.block(now + retry_after_s, now, rollout=turn.rollout)
        for bucket in self._all():  # none is charged for
            if bucket.unit is not Unit.REQUESTS and not turn.settled:
                bucket.take(-turn.costs[bucket.unit])
        turn.settled = turn.settled or dict.fromkeys(Unit, 0.0)
        explained = [
            bucket
            for name, bucket in self.buckets.items()
            if not name.startswith("given") and bucket.level < turn.costs[bucket.unit]
        ]
        for bucket in explained:
            bucket.level = min(bucket.level, 0.0)
        if explained or turn.overdue:
            return
        if self._estimator.refuse(turn, now, self.in_flight + self._others.in_flight):
            self._keep_rate(now)
            if self._learnt is not None:
                self._learnt.level = min(self._learnt.level, self.share)

    def _keep_rate(self, now: float) -> None:
        """Keep to the rate that was learnt, by this process's share of it."""
        rate = self._estimator.rate
        if rate is None:
            return
        value = rate.rate(now)
        if self._learnt is None:
            self._learnt = Bucket(Unit.REQUESTS, 2.0, value, now, self.share, self.share)
        self._learnt.refill(now)
        self._learnt.capacity, self._learnt.rate = max(2.0, value), value

    def _raise_rate(self, now: float) -> None:
        learnt = self._estimator.rate
        if learnt is None or self._learnt is None:
            return
        rate = learnt.rate(now)
        if rate == math.inf:
            self._learnt = None
            self._estimator.forget(now)
        else:
            self._learnt.rate = rate

    # shares

    def resize(self, share: float) -> None:
        """Change to another share of the lane's limits."""
        self.share = share
        for bucket in self._all():
            bucket.resize(share)

    def load(self, now: float) -> Load:
        """Return this process's part of the lane's calls, and what it learnt of 429s."""
        learnt = self._estimator
        return Load(self.in_flight, learnt.let_in_rate(now), learnt.rate, learnt.at_once)

    def merge(self, others: Iterable[Load], now: float) -> None:
        """Note other processes' parts of the lane's calls, and what those learnt of 429s."""
        in_flight = answered = 0.0
        for other in others:
            in_flight += other.in_flight
            answered += other.answered
            if self._estimator.merge(other.rate, other.at_once, now):
                self._keep_rate(now)
        self._others = Load(in_flight, answered)

    def block(self, until: float, now: float, *, rollout: str = _ELSEWHERE) -> None:
        """Note a wait that the provider told a rollout, or another process."""
        if self.blocked_until <= now:
            self._told = Told()
        self._told.note(rollout)
        self.blocked_until = max(self.blocked_until, until)

    def waits(self, now: float) -> tuple[int, float]:
        """Return how many calls wait, and for how long the longest has, in seconds."""
        longest = max((now - turn.began for turn in self.queue), default=0.0)
        return len(self.queue), longest


# --- how long a client waits -------------------------------------------------------------------


class ClientPatience:
    """The patience of clients, by their rollouts: less where one gave up sooner.

    Arguments:
        most_s: for any call.
        rollouts: how many are known at once.
    """

    def __init__(self, most_s: float, *, rollouts: int = 4_096) -> None:
        self.most_s = most_s
        self._seen: OrderedDict[str, float] = OrderedDict()
        self._limit = rollouts

    def of(self, rollout: str, batch: str | None, stated_s: float | None) -> float:
        """Return how long a call may wait, in seconds; ``stated_s``: its client's time-out."""
        gave_up = self._seen.get(rollout)
        if gave_up is None and batch is not None:
            gave_up = self._seen.get(f"batch {batch}")
        times = [each for each in (gave_up, stated_s) if each is not None]
        return min([self.most_s, *(each * _OF_TIMEOUT for each in times)])

    def note(self, rollout: str, batch: str | None, after_s: float) -> None:
        """Note that a client gave a call up unanswered, so many seconds after its start."""
        for name in (rollout, None if batch is None else f"batch {batch}"):
            if name is None:
                continue
            self._seen[name] = min(after_s, self._seen.pop(name, after_s))
            if len(self._seen) > self._limit:
                self._seen.popitem(last=False)
