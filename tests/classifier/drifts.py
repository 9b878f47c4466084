"""Scripted drifts and calm hours with their seven days before, on a simulated clock.

`python -m tests.classifier.outages` writes them into docs/measurements/health.md.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from classifier.lane_drifts import Drift, LaneAnswer, LaneUsual, drifts, measured
from classifier.records import DriftMeasure

CALM_HOURS = 1000
WEEK_S = 7 * 86_400.0
HOUR_S = 3600.0
BEGIN_S = 1800.0  # of a drift, in its hour
_EACH_S = 60.0  # a lane is looked at during a drift
_OF_WEEK = 84 * 40  # answers of the week that are read


@dataclass(slots=True, kw_only=True)
class Request:
    """The facts of an answered call that figures are measured of."""

    rollout_id: str
    batch: str | None
    at: float
    streamed: bool = True
    first_byte_s: float
    duration_s: float
    input_tokens: int
    output_tokens: int
    output_limit: int | None = 4096
    finish_reason: str = "stop"
    content_seen: bool = True

    def answer(self) -> LaneAnswer:
        """Return it as drifts read it."""
        return LaneAnswer(
            rollout_id=self.rollout_id,
            batch=self.batch,
            at=self.at,
            figures=measured(
                streamed=self.streamed,
                first_byte_s=self.first_byte_s,
                duration_s=self.duration_s,
                input_tokens=self.input_tokens,
                output_tokens=self.output_tokens,
                output_limit=self.output_limit,
                finish_reason=self.finish_reason,
                content_seen=self.content_seen,
                weight_version=None,
            ),
        )


Change = Callable[[Request, random.Random], Request]
"""A call as it is while something changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """The habits of one batch's agents and tasks."""

    name: str | None
    empty: float
    cut: float
    prompt: float  # tokens in the median, as are those of answers
    answer: float
    streamed: bool
    limit: int | None


def habits(rng: random.Random, name: str | None) -> Habits:
    """Draw a batch: half of them differ from each other by a factor."""
    return Habits(
        name=name,
        empty=rng.choice((0.0, 0.01, 0.02, 0.05)),
        cut=rng.choice((0.0, 0.01, 0.03, 0.08)),
        prompt=rng.choice((500, 2000, 8000, 30_000)),
        answer=rng.choice((60, 200, 800)),
        streamed=rng.random() < 0.7,
        limit=rng.choice((None, 1024, 4096)),
    )


def _request(rng: random.Random, at: float, of: Habits, rollout: str) -> Request:
    sent = int(of.prompt * rng.lognormvariate(0, 0.7))
    wrote = max(1, int(of.answer * rng.lognormvariate(0, 0.8)))
    busy = 1 + 0.3 * math.sin(at / 86_400 * 2 * math.pi)  # by the time of the day
    first = (0.3 + sent / 40_000) * busy * rng.lognormvariate(0, 0.4)
    writes = wrote / 60 * busy * rng.lognormvariate(0, 0.25)
    empty, cut = rng.random() < of.empty, rng.random() < of.cut
    return Request(
        rollout_id=rollout, batch=of.name, at=at, streamed=of.streamed,
        first_byte_s=first if of.streamed else first + writes, duration_s=first + writes,
        input_tokens=sent, output_tokens=0 if empty else wrote, output_limit=of.limit,
        finish_reason="length" if cut else "stop", content_seen=not empty,
    )  # fmt: skip


def week(rng: random.Random, batches: list[Habits]) -> LaneUsual:
    """Simulate the sample of the seven days: as many calls every two hours."""
    answers = []
    for n in range(_OF_WEEK):
        of = batches[int(n / _OF_WEEK * len(batches) * 3) % len(batches)]  # each three times
        at = -WEEK_S + n * WEEK_S / _OF_WEEK
        answers.append(_request(rng, at, of, f"w{n // 3}").answer())
    return LaneUsual(answers)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftScript:
    """A drift, or what agents do (``measure`` is None: nothing may be told)."""

    name: str
    measure: DriftMeasure | None
    change: Change = lambda call, _rng: call
    batches: int = 2
    new: tuple[Habits, ...] = ()
    """Batches that begin with the change."""
    only: str | None = None
    """A rollout that alone changes, and makes half of all calls."""
    per_minute: float = 60.0
    rollouts: int = 32


@dataclass(slots=True)
class Hour:
    """One hour of a lane, with what was usual before it."""

    usual: LaneUsual
    answers: list[LaneAnswer] = field(default_factory=list)


def hour(script: DriftScript, seed: int, length_s: float = HOUR_S) -> Hour:
    """Simulate the calls of an hour."""
    rng = random.Random(seed)
    batches = [habits(rng, f"b{n}") for n in range(max(script.batches, 1))]
    found = Hour(week(rng, [*batches, *(habits(rng, f"o{n}") for n in range(4))]))
    at = 0.0
    while (at := at + rng.expovariate(script.per_minute / 60)) < length_s:
        changed = at >= BEGIN_S
        of = rng.choice(list(script.new) if changed and script.new else batches)
        rollout = f"r{int(at // 900)}-{rng.randrange(script.rollouts)}"
        if changed and script.only is not None and rng.random() < 0.5:
            rollout = script.only
        call = _request(rng, at, of, rollout)
        if changed and script.only in (None, rollout):
            call = script.change(call, rng)
        found.answers.append(call.answer())
    return found


def told(script: DriftScript, seed: int, length_s: float = HOUR_S) -> tuple[float, Drift] | None:
    """Return after how many seconds a drift was told, and the drift; None: it was not."""
    played, now = hour(script, seed, length_s), 600.0
    starts = [each.at for each in played.answers]
    while now < length_s:
        known = played.answers[: bisect_right(starts, now)]
        for drift in drifts(played.usual, known, since=now, now=now):
            return now - BEGIN_S, drift
        now += _EACH_S
    return None


def calm_alarms(hours: int, *, seed: int = 0) -> tuple[int, int]:
    """Play calm hours at many rates of calls; return calls, and hours in which one was told."""
    calls = alarms = 0
    for n in range(hours):
        script = DriftScript(
            name="calm", measure=None, batches=1 + n % 3, rollouts=(4, 16, 64)[n % 3],
            per_minute=(2, 10, 30, 60)[n % 4],
        )  # fmt: skip
        played = hour(script, 1_000_000 + seed * 100_000 + n)
        calls += len(played.answers)
        alarms += bool(drifts(played.usual, played.answers, since=600.0, now=HOUR_S))
    return calls, alarms


# --- the scripts -------------------------------------------------------------------------------


def _now_and_then(share: float, **facts: object) -> Change:
    return lambda call, rng: replace(call, **facts) if rng.random() < share else call  # type: ignore[arg-type]


def _slower(first: float = 1.0, writes: float = 1.0) -> Change:
    def slower(call: Request, _rng: random.Random) -> Request:
        begin = call.first_byte_s if call.streamed else 0.0
        wrote = (call.duration_s - begin) * writes
        begin *= first
        return replace(
            call, duration_s=begin + wrote, first_byte_s=begin if call.streamed else begin + wrote
        )

    return slower


_NOTHING: dict[str, object] = {"content_seen": False, "output_tokens": 0, "finish_reason": "stop"}
_REFUSED: dict[str, object] = {"finish_reason": "refusal", "content_seen": True}
_CUT: dict[str, object] = {"finish_reason": "length"}


def _new(name: str, **facts: object) -> Habits:
    usual = Habits(name=name, empty=0.01, cut=0.01, prompt=2000, answer=200, streamed=True,
                   limit=4096)  # fmt: skip
    return replace(usual, **facts)  # type: ignore[arg-type]


def _scripts() -> Iterator[DriftScript]:
    empty, cut = DriftMeasure.EMPTY_OR_REFUSED, DriftMeasure.CUT_AT_LIMIT
    speed, first = DriftMeasure.OUTPUT_SPEED, DriftMeasure.FIRST_BYTE
    for share in (1.0, 0.5, 0.3):
        yield DriftScript(name=f"{share:.0%} of the answers are empty", measure=empty,
                          change=_now_and_then(share, **_NOTHING))  # fmt: skip
    yield DriftScript(name="40% of the answers are refused", measure=empty,
                      change=_now_and_then(0.4, **_REFUSED))  # fmt: skip
    yield DriftScript(name="50% are empty, in the lane's only batch", measure=empty,
                      change=_now_and_then(0.5, **_NOTHING), batches=1)  # fmt: skip
    yield DriftScript(name="50% are empty, 6 calls a minute", measure=empty, per_minute=6,
                      change=_now_and_then(0.5, **_NOTHING), batches=1)  # fmt: skip
    for share in (0.8, 0.4):
        yield DriftScript(name=f"{share:.0%} of the answers are cut", measure=cut,
                          change=_now_and_then(share, **_CUT))  # fmt: skip
    for times in (5.0, 3.0):
        yield DriftScript(name=f"an answer is written {times:g} times as slowly", measure=speed,
                          change=_slower(writes=times))  # fmt: skip
        yield DriftScript(name=f"the first byte takes {times:g} times as long", measure=first,
                          change=_slower(first=times))  # fmt: skip
    own = "own"
    yield DriftScript(name="one agent asks for 8 tokens at most", measure=None, only=own,
                      change=_now_and_then(1.0, output_limit=8, **_CUT))  # fmt: skip
    yield DriftScript(name="one agent is cut at the usual limit", measure=None, only=own,
                      change=_now_and_then(1.0, **_CUT))  # fmt: skip
    yield DriftScript(name="one agent asks for what is refused", measure=None, only=own,
                      change=_now_and_then(1.0, **_REFUSED))  # fmt: skip
    yield DriftScript(name="one agent sends prompts of 200,000 tokens", measure=None, only=own,
                      change=lambda call, rng: _slower(first=8.0)(
                          replace(call, input_tokens=200_000), rng))  # fmt: skip
    yield DriftScript(name="all agents ask for 8 tokens at most", measure=None,
                      change=_now_and_then(1.0, output_limit=8, **_CUT))  # fmt: skip
    yield DriftScript(name="a new batch asks for what is refused", measure=None,
                      new=(_new("new"),), change=_now_and_then(0.9, **_REFUSED))  # fmt: skip
    yield DriftScript(name="a new batch is cut at the usual limit", measure=None,
                      new=(_new("new", cut=0.8),))  # fmt: skip
    yield DriftScript(name="a new batch has reasoning before the first byte", measure=None,
                      new=(_new("new"),), change=_slower(first=20.0))  # fmt: skip
    yield DriftScript(name="new batches with prompts of 30,000 tokens", measure=None,
                      new=(_new("n1", prompt=30_000), _new("n2", prompt=30_000)))  # fmt: skip


SCRIPTS: tuple[DriftScript, ...] = tuple(_scripts())
