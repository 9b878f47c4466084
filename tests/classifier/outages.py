"""Scripted outages and calm hours on a simulated clock, and how soon the word of a lane tells them.

`python -m tests.classifier.outages` writes docs/measurements/health.md.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from classifier.lane_health import (
    Failures,
    LaneHealth,
    LaneTally,
    LaneWord,
    RolloutCalls,
    lane_health,
    second_of,
    vote_of,
    weighed,
)
from classifier.records import Ending, KeySource
from classifier.verdicts import Subcategory

PAGE = Path(__file__).parents[2] / "docs" / "measurements" / "health.md"
CALM_HOURS = 1000
BEGIN_S = 2400.0  # of an outage, after as much calm
LONGEST_S = 3 * 3600.0
_LOOKED_BACK_S = 3600
_EACH_S = 5.0  # a lane is looked at during an outage
_CALM_EACH_S = 60.0

OWN = KeySource.OPERATOR


class Fault(NamedTuple):
    """The way in which a call fails."""

    subcategory: Subcategory
    status: int | None
    ending: Ending = Ending.COMPLETE


UNAVAILABLE = Fault(Subcategory.PROVIDER_ERROR, 503)
INTERNAL = Fault(Subcategory.PROVIDER_ERROR, 500)
CUT = Fault(Subcategory.PROVIDER_ERROR, None, Ending.CUT_UPSTREAM)
REFUSED = Fault(Subcategory.PROVIDER_ERROR, None, Ending.NEVER_CONNECTED)
QUOTA = Fault(Subcategory.QUOTA, 429)
AUTH = Fault(Subcategory.AUTH, 401)
LIMIT = Fault(Subcategory.RATE_LIMIT, 429)
GONE = Fault(Subcategory.MODEL_NOT_FOUND, 404)
REJECTED = Fault(Subcategory.REJECTED_REQUEST, 400)
# What a healthy lane does now and then: 1 % of its calls.
SPORADIC = (LIMIT, LIMIT, LIMIT, INTERNAL, UNAVAILABLE, CUT)


@dataclass(frozen=True, slots=True)
class SimulatedCall:
    """One call; ``fault`` is None where it is answered. Times in seconds of the simulation."""

    at: float
    ended_at: float
    rollout_id: str
    key: str
    server: str
    fault: Fault | None


Script = Callable[[float, SimulatedCall, random.Random], Fault | None]
"""A fault for a call that begins so many seconds after the outage did; None leaves it as it is."""
Extra = Callable[[random.Random], Iterator[tuple[float, str, Fault | None]]]
"""Calls that an agent makes beside the others: seconds after the begin, rollout, fault."""


def _no_more(_: random.Random) -> Iterator[tuple[float, str, Fault | None]]:
    return iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """An outage, or what an agent does (``cause`` is None: nothing may be told)."""

    name: str
    kind: str
    cause: Subcategory | None
    script: Script = lambda _t, _call, _rng: None
    extra: Extra = _no_more
    per_minute: float = 30.0
    rollouts: int = 16
    keys: int = 1
    servers: int = 1


class Told(NamedTuple):
    """The moment at which an outage was told: seconds and calls since it began, the word."""

    after_s: float
    calls: int
    health: LaneHealth


def calls_of(scenario: Scenario, seed: int, length_s: float) -> list[SimulatedCall]:
    """Simulate the calls to one model, those of the outage and of agents' extra calls included."""
    rng = random.Random(seed)
    calls: list[SimulatedCall] = []
    at = 0.0
    while (at := at + rng.expovariate(scenario.per_minute / 60)) < length_s:
        # A rollout calls for some minutes, then another takes its place.
        agent = rng.randrange(scenario.rollouts)
        place = int(at // 900)
        calls.append(_call(rng, scenario, at, f"r{place}-{agent}"))
    for after, rollout, fault in scenario.extra(rng):
        if BEGIN_S + after < length_s:
            at = BEGIN_S + after
            calls.append(_ended(rng, SimulatedCall(at, at, rollout, "k0", "s0", fault)))
    return sorted(calls, key=lambda call: call.at)


def _call(rng: random.Random, scenario: Scenario, at: float, rollout: str) -> SimulatedCall:
    key, server = f"k{rng.randrange(scenario.keys)}", f"s{rng.randrange(scenario.servers)}"
    fault = rng.choice(SPORADIC) if rng.random() < 0.01 else None
    if rng.random() < 0.02:
        fault = REJECTED  # agents' own
    call = SimulatedCall(at, at, rollout, key, server, fault)
    if at >= BEGIN_S and (broken := scenario.script(at - BEGIN_S, call, rng)) is not None:
        call = SimulatedCall(at, at, rollout, key, server, broken)
    return _ended(rng, call)


def _ended(rng: random.Random, call: SimulatedCall) -> SimulatedCall:
    took_s = rng.lognormvariate(math.log(8), 0.8) if call.fault is None else rng.uniform(0.1, 0.9)
    return SimulatedCall(
        call.at, call.at + took_s, call.rollout_id, call.key, call.server, call.fault
    )


class _Lane:
    """The calls of one lane, so that a moment looks only at those which it may tell apart."""

    def __init__(self, calls: Sequence[SimulatedCall]) -> None:
        self._longest_s = max(call.ended_at - call.at for call in calls)
        minutes: defaultdict[int, list[SimulatedCall]] = defaultdict(list)
        for call in calls:
            minutes[int(call.at // 60)].append(call)
        self._whole = {minute: _tally(minute, theirs) for minute, theirs in minutes.items()}
        self._minutes = minutes

    def health(self, now: float, *, since: float) -> LaneHealth:
        """Return its health at a moment, by the calls that began from ``since`` on."""
        # Of minutes that ended before `settled` each call has ended; those since are looked at.
        settled = int(max(since, now - self._longest_s) // 60)
        tallies = [
            tally for minute, tally in self._whole.items() if since // 60 <= minute < settled
        ]
        pending: defaultdict[int, set[str]] = defaultdict(set)
        for minute in range(settled, int(now // 60) + 1):
            begun = [call for call in self._minutes.get(minute, ()) if call.at <= now]
            ended = [call for call in begun if call.ended_at <= now]
            if ended:
                tallies.append(_tally(minute, ended))
            pending[minute].update(call.rollout_id for call in begun if call.ended_at > now)
        in_flight = {minute: len(rollouts) for minute, rollouts in pending.items() if rollouts}
        return lane_health(weighed(tallies, pending=in_flight), now)


def _tally(minute: int, calls: Sequence[SimulatedCall]) -> LaneTally:
    answered: Counter[str] = Counter()
    failed: defaultdict[str, dict[str, Failures]] = defaultdict(dict)
    causes: Counter[str] = Counter()
    for call in calls:
        name = call.rollout_id
        if call.fault is None:
            answered[name] += 1
            continue
        cause, status, ending = call.fault
        causes[cause] += 1
        outage = vote_of(
            cause, status=status, ending=ending, held=None, key_source=OWN, injected=False
        )
        if outage is not None:
            before = failed[name].get(cause)
            first, count = (call.at, 0) if before is None else (before.first, before.calls)
            seconds = second_of(call.at) | (before.seconds if before else 0)
            outage = outage or (before is not None and before.outage)
            failed[name][cause] = Failures(count + 1, outage, first, call.at, seconds)
    return LaneTally(
        minute=minute,
        calls=len(calls),
        answered=answered.total(),
        failed=causes,
        last_answered_at=max((call.at for call in calls if call.fault is None), default=None),
        own_key=True,
        failing={name: RolloutCalls(answered.pop(name, 0), of) for name, of in failed.items()},
        answering=answered,
    )


def _lanes(calls: Sequence[SimulatedCall]) -> list[_Lane]:
    """Part calls, oldest first, into lanes: by key, and by server where there are some."""
    lanes: defaultdict[tuple[str, str], list[SimulatedCall]] = defaultdict(list)
    several = len({call.server for call in calls}) > 1
    for call in calls:
        lanes[call.key, "~"].append(call)
        if several:
            lanes[call.key, call.server].append(call)
    return [_Lane(lanes[name]) for name in sorted(lanes)]


def told(scenario: Scenario, seed: int, length_s: float = LONGEST_S) -> tuple[Told | None, int]:
    """Play a scenario until it is told.

    Returns:
        When, None if it was not; and how many moments before its begin said that something fails.
    """
    calls = calls_of(scenario, seed, BEGIN_S + length_s)
    lanes, false, now = _lanes(calls), 0, 600.0
    while now < BEGIN_S + length_s:
        words = (each.health(now, since=now - _LOOKED_BACK_S) for each in lanes)
        failing = next(filter(_fails, words), None)
        if failing and now >= BEGIN_S:
            since = sum(BEGIN_S <= call.at <= now for call in calls)
            return Told(now - BEGIN_S, since, failing), false
        false += bool(failing)
        now += _CALM_EACH_S if now < BEGIN_S else _EACH_S
    return None, false


def _fails(health: LaneHealth) -> bool:
    return health.word in (LaneWord.DEGRADED, LaneWord.DOWN)


def calm_alarms(hours: int, *, seed: int = 0) -> tuple[int, int]:
    """Play calm hours at many rates of calls; return them with calls, and those with an alarm."""
    calls_made = alarms = 0
    for n in range(hours):
        rate = (0.5, 2, 6, 15, 30, 60)[n % 6]
        scenario = Scenario(
            name="calm", kind="calm", cause=None, per_minute=rate, rollouts=1 + n % 12,
            keys=1 + n % 2, servers=1 + n % 3,
        )  # fmt: skip
        calls = calls_of(scenario, seed * 100_000 + n, 3600.0)
        calls_made += len(calls)
        moments, lanes = range(60, 3600, int(_CALM_EACH_S)), _lanes(calls)
        alarms += any(_fails(each.health(now, since=0)) for now in moments for each in lanes)
    return calls_made, alarms


# --- the scripts -------------------------------------------------------------------------------


def whole(fault: Fault, share: float = 1.0, after_s: float = 0.0) -> Script:
    """Fail this share of all calls."""
    return lambda t, _, rng: fault if t >= after_s and rng.random() < share else None


def ramp(fault: Fault, over_s: float, most: float = 1.0) -> Script:
    """Fail a share that grows from none."""
    return lambda t, _, rng: fault if rng.random() < most * min(1.0, t / over_s) else None


def flap(fault: Fault, up_s: float, down_s: float) -> Script:
    """Fail everything for a while, and nothing for a while, in turns."""
    return lambda t, _call, _rng: fault if t % (up_s + down_s) < down_s else None


def one(part: str, name: str, fault: Fault, share: float = 1.0) -> Script:
    """Fail the calls of one key or to one server."""
    return lambda _t, call, rng: (
        fault if getattr(call, part) == name and rng.random() < share else None
    )


def agent(fault: Fault | None, count: int, every_s: float, rollouts: int = 1) -> Extra:
    """Let one agent, or two, make many calls of its own."""

    def extra(rng: random.Random) -> Iterator[tuple[float, str, Fault | None]]:
        for n in range(count):
            yield n * every_s + rng.random() * every_s, f"own-{n % rollouts}", fault

    return extra


def _scenarios() -> Iterator[Scenario]:
    error = Subcategory.PROVIDER_ERROR
    for fault, name in (
        (UNAVAILABLE, "503 for all"),
        (INTERNAL, "500 for all"),
        (REFUSED, "no connection"),
        (CUT, "every answer cut"),
    ):
        yield Scenario(name=name, kind="outage", cause=error, script=whole(fault))
    for over_s in (120, 600, 1800):
        script = ramp(UNAVAILABLE, over_s)
        yield Scenario(name=f"over {over_s} s to all", kind="ramp", cause=error, script=script)
    script = ramp(INTERNAL, 900, 0.4)
    yield Scenario(name="over 900 s to 40 %", kind="ramp", cause=error, script=script)
    script = ramp(LIMIT, 900, 0.5)
    cause = Subcategory.RATE_LIMIT
    yield Scenario(name="rate limit, 900 s to 50 %", kind="ramp", cause=cause, script=script)
    for up_s, down_s in ((60, 30), (120, 60), (300, 20), (30, 10)):
        script = flap(UNAVAILABLE, up_s, down_s)
        name = f"{down_s} s down, {up_s} s up"
        yield Scenario(name=name, kind="flap", cause=error, script=script)
    for rate in (120.0, 30.0, 9.0, 3.0):
        script = one("server", "s1", UNAVAILABLE)
        yield Scenario(name=f"{rate:g} calls a minute", kind="one server of three", cause=error,
                       script=script, servers=3, per_minute=rate)  # fmt: skip
    for fault, rate in ((AUTH, 30.0), (QUOTA, 30.0), (AUTH, 4.0), (LIMIT, 30.0)):
        name = f"{fault.subcategory.value}, {rate:g} calls a minute"
        yield Scenario(name=name, kind="one key of two", cause=fault.subcategory, keys=2,
                       script=one("key", "k1", fault), per_minute=rate)  # fmt: skip
    for rate, rollouts in ((1.0, 4), (0.5, 2), (0.25, 1), (0.1, 1)):
        yield Scenario(name=f"{rate:g} calls a minute", kind="low volume", cause=error,
                       script=whole(UNAVAILABLE), per_minute=rate, rollouts=rollouts)  # fmt: skip
    for rate in (60.0, 10.0, 2.0):
        yield Scenario(name=f"{rate:g} calls a minute", kind="quota at midnight",
                       cause=Subcategory.QUOTA, script=whole(QUOTA), per_minute=rate)  # fmt: skip
    for share in (0.5, 0.25, 0.15):
        yield Scenario(name=f"{share:.0%} of calls for good", kind="slow death", cause=error,
                       script=whole(INTERNAL, share))  # fmt: skip
    script = ramp(UNAVAILABLE, 7200, 0.6)
    yield Scenario(name="over two hours to 60 %", kind="slow death", cause=error, script=script)
    gone = Subcategory.MODEL_NOT_FOUND
    yield Scenario(name="the model is retired", kind="outage", cause=gone, script=whole(GONE))
    for name, extra in (
        ("400s of its own", agent(REJECTED, 400, 2.0)),
        ("a burst over the limit", agent(LIMIT, 200, 0.2)),
        ("two agents' bursts", agent(LIMIT, 300, 0.5, 2)),
        ("a request that kills its worker", agent(UNAVAILABLE, 300, 4.0)),
        ("a request that the engine answers 500", agent(INTERNAL, 300, 4.0)),
        ("a misspelt model", agent(GONE, 200, 3.0)),
        ("a key of its own", agent(AUTH, 200, 3.0)),
    ):
        yield Scenario(name=name, kind="an agent's own", cause=None, extra=extra)


SCENARIOS: tuple[Scenario, ...] = tuple(_scenarios())


# --- the page ----------------------------------------------------------------------------------


_HEAD = """# The word of a lane: how soon, and how often wrong

| measured | machine | command |
|---|---|---|
| {when} | any: a simulated clock and fixed seeds | `python -m tests.classifier.outages` |

<!-- outages -->
{outages} scripted outages, {own} scripts of what agents do, and {calm:,} calm hours. In each script
a model is called 30 times a minute by 16 rollouts, unless its line says otherwise. An answer takes
8 s in the median, a failure less than one; 1 % of the calls fail now and then, and 2 % are requests
of agents that are rejected. A lane is looked at every 5 s. The calm hours have 0.5 to 60 calls a
minute, one or two keys and one to three servers, and are looked at every minute.

- False alarms: **{alarms}** in {calm:,} calm hours with {calls:,} calls, **{early}** in the calm
  before the outages.
- Told of what agents do: **{agents}** of {own} scripts.

| script | | told after | calls | as |
|---|---|--:|--:|---|
"""


def page(calm_hours: int = CALM_HOURS) -> str:
    """Play everything and return the page."""
    lines, early, agents = [], 0, 0
    for seed, scenario in enumerate(SCENARIOS):
        found, false = told(scenario, seed)
        early += false
        agents += scenario.cause is None and found is not None
        lines.append(_line(scenario, found))
    calls, alarms = calm_alarms(calm_hours)
    own = sum(scenario.cause is None for scenario in SCENARIOS)
    head = _HEAD.format(when=f"{datetime.now(UTC):%Y-%m-%d}", outages=len(SCENARIOS) - own,
                        calm=calm_hours, alarms=alarms or "none",
                        calls=calls, early=early or "none", agents=agents or "none",
                        own=own)  # fmt: skip
    return head + "\n".join(lines) + "\n<!-- /outages -->\n"


def _line(scenario: Scenario, found: Told | None) -> str:
    if found is None:
        return f"| {scenario.kind} | {scenario.name} | never | | |"
    said = f"{found.health.word.value}, {found.health.cause}"
    return f"| {scenario.kind} | {scenario.name} | {found.after_s:.0f} s | {found.calls} | {said} |"


if __name__ == "__main__":
    text = page()
    if len(sys.argv) > 1:
        sys.stdout.write(text)
    else:
        written_by_hand = "".join(PAGE.read_text("utf-8").partition("\n## Cost\n")[1:])
        PAGE.write_text(text + written_by_hand, "utf-8")
