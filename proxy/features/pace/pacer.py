"""The pace of this process's calls: its lanes, and the timers by which waiting calls are sent."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from classifier.records import Exchange
from classifier.verdicts import Subcategory
from proxy.features.pace.lane_pace import ClientPatience, LanePace, Load, Turn
from proxy.features.pace.learnt_limits import LearntLimit
from proxy.features.pace.settings import GivenPace
from proxy.features.pace.stated_limits import Unit, allowances, codex_wait_s
from proxy.routing import headers as http_headers
from proxy.routing.headers import Pairs
from proxy.wire.dialect import Headers
from proxy.wire.provider_error import stated_wait

_TIMEOUTS = (b"x-stainless-timeout", b"x-stainless-read-timeout")  # openai-python, _base_client.py
_ACTIVE_S = 10.0  # after its last call a lane is no longer reported, and its lease ends
_IDLE_S = 600.0  # without a call, after which a lane is forgotten
_LANES = 1_024
_ROLLOUTS = 16_384  # whose batch is known

LaneKey = tuple[str, str | None, str | None]
"""Upstream, model as it is asked for, and digest of the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceReport:
    """One lane of a process, as others need to know it.

    ``rollouts`` have had a call under way or waiting since the last report. ``waiting`` calls have
    waited for ``longest_s`` at most. ``blocked_s``: for how long the provider wants no call.
    ``load`` has its times in seconds since the epoch.
    """

    rollouts: int
    waiting: int
    longest_s: float
    blocked_s: float
    load: Load


class Pacer:
    """Paces the calls of this process, by lane; all methods are called in the event loop.

    ``share`` is what a new lane gets of its limits, until `resize` says otherwise, and
    ``on_change`` is called when there is one, and after a 429. ``batches`` are those of rollouts,
    as far as they are known.

    Arguments:
        given: by the names of the upstreams whose calls wait.
        clock: monotonic seconds.
        wall: seconds since the epoch.
        patience_s: for which a call waits at most.
        weights: of batches, by name; a name that ends in ``*`` stands for all that begin so.
    """

    def __init__(
        self,
        given: Mapping[str, GivenPace],
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
        patience_s: float = 30.0,
        weights: Mapping[str, float] | None = None,
        share: float = 1.0,
    ) -> None:
        self._given = given
        self._clock = clock
        self._wall = wall
        self._weights = weights or {}
        self.share = share
        self.patience = ClientPatience(patience_s)
        self.batches: dict[str, str | None] = {}
        self.on_change: Callable[[], None] | None = None
        self._lanes: dict[LaneKey, LanePace] = {}
        self._timers: dict[LaneKey, asyncio.TimerHandle] = {}
        self._rollouts: dict[LaneKey, set[str]] = {}

    def paces(self, upstream: str) -> bool:
        """Return True if calls of models to an upstream wait for their turn."""
        return upstream in self._given

    def turn(self, rollout: str, headers: Headers, *, size: int, go: Callable[[], None]) -> Turn:
        """Make a call's turn; ``size`` of its request is in bytes."""
        batch = self.batches.get(rollout)
        patience_s = self.patience.of(rollout, batch, _stated_timeout(headers))
        return Turn(rollout, batch, go, size, self._clock(), patience_s)

    def enter(self, key: LaneKey, turn: Turn) -> bool:
        """Queue a call; return True if it may be sent at once, else ``turn.go`` is called later."""
        now = self._clock()
        lane = self._lanes.get(key) or self._new_lane(key, now)
        if now - lane.used_at > _ACTIVE_S and self.on_change is not None:
            self.on_change()  # its lease has ended
        self._rollouts.setdefault(key, set()).add(turn.rollout)
        if lane.enter(turn, now):
            return True
        self._look_later(key, lane, now)
        return False

    def leave(self, key: LaneKey, turn: Turn) -> None:
        """Remove a call that will not be sent, or whose end nobody will report."""
        if lane := self._lanes.get(key):
            lane.leave(turn)
            self._look(key)

    def answered(self, key: LaneKey, turn: Turn, headers: Pairs) -> None:
        """Note the head of a call's answer."""
        stated = allowances(headers, now=self._wall())
        if stated and (lane := self._lanes.get(key)):
            lane.answered(turn, stated, self._clock())
            self._look(key)

    def told(self, key: LaneKey, turn: Turn, event: Mapping[str, object]) -> None:
        """Note the limits that a message of a WebSocket states."""
        lane, wait_s = self._lanes.get(key), codex_wait_s(event, self._wall())
        if lane is None or wait_s is None:
            return
        now = self._clock()
        lane.block(now + wait_s, now, rollout=turn.rollout)
        if self.on_change is not None:
            self.on_change()

    def ended(self, key: LaneKey, turn: Turn, exchange: Exchange, headers: Pairs) -> None:
        """Note a call that ended, and the head of its answer, empty if none came."""
        lane, now, cause = self._lanes.get(key), self._clock(), exchange.cause
        if lane is None:
            return
        lane.ended(turn, now, _used(exchange) if cause is None and exchange.status else None)
        if cause is not None and cause.subcategory is Subcategory.RATE_LIMIT:
            wait_s = _told_wait(headers, self._wall())
            if wait_s is None and not lane.buckets:
                wait_s = cause.retry_after_s
            lane.limited(turn, now, wait_s)
            if self.on_change is not None:
                self.on_change()
        self._look(key)

    # shares

    def reports(self) -> dict[LaneKey, PaceReport]:
        """Return what others need to know of each lane in use; begin to count rollouts anew."""
        now, epoch = self._clock(), self._epoch()
        for key, lane in tuple(self._lanes.items()):
            if now - lane.used_at > _IDLE_S and not lane.in_flight and not len(lane.queue):
                del self._lanes[key]
                self._rollouts.pop(key, None)
        found = {}
        for key, lane in self._lanes.items():
            if now - lane.used_at > _ACTIVE_S and not len(lane.queue):
                lane.resize(self.share)
                continue
            waiting, longest_s = lane.waits(now)
            rollouts = self._rollouts.pop(key, set()) | {turn.rollout for turn in lane.queue}
            found[key] = PaceReport(
                rollouts=len(rollouts),
                waiting=waiting,
                longest_s=longest_s,
                blocked_s=max(0.0, lane.blocked_until - now),
                load=_moved(lane.load(now), epoch),
            )
        return found

    def unknown_rollouts(self) -> list[str]:
        """List rollouts whose calls wait, and whose batch is not known."""
        waiting = {turn.rollout for lane in self._lanes.values() for turn in lane.queue}
        return sorted(waiting - self.batches.keys())

    def know_batches(self, batches: Mapping[str, str | None]) -> None:
        """Note the batches of rollouts; the next calls of those have turns in them."""
        if len(self.batches) > _ROLLOUTS:
            self.batches = {}
        self.batches.update(batches)

    def resize(
        self, key: LaneKey, share: float, *, blocked_s: float, others: Iterable[Load] = ()
    ) -> None:
        """Change a lane's share of its limits, and note what other processes know of it.

        Arguments:
            blocked_s: the wait that its provider told one of them.
            others: their loads, with times in seconds since the epoch.
        """
        lane = self._lanes.get(key)
        if lane is not None:
            now, epoch = self._clock(), self._epoch()
            lane.resize(share)
            lane.merge([_moved(load, -epoch) for load in others], now)
            if blocked_s:
                lane.block(now + blocked_s, now)
            self._look(key)

    def _epoch(self) -> float:
        """Return what makes seconds since the epoch of this process's."""
        return self._wall() - self._clock()

    # turns that come

    def _new_lane(self, key: LaneKey, now: float) -> LanePace:
        if len(self._lanes) >= _LANES:
            for name, known in tuple(self._lanes.items()):
                if not known.in_flight and not len(known.queue):
                    del self._lanes[name]
        given = self._given[key[0]]
        lane = LanePace(given, now=now, share=self.share, weight=self._weight)
        self._lanes[key] = lane
        if self.on_change is not None:
            self.on_change()
        return lane

    def _weight(self, batch: str | None) -> float:
        if batch is None or not self._weights:
            return 1.0
        exact = self._weights.get(batch)
        if exact is not None:
            return exact
        fitting = [name for name in self._weights if _begins(batch, name)]
        return self._weights[max(fitting, key=len)] if fitting else 1.0

    def _look(self, key: LaneKey) -> None:
        """Send the calls whose turn has come, and look again when the next one's has."""
        lane = self._lanes.get(key)
        if lane is None or not len(lane.queue):
            return
        now = self._clock()
        for turn in lane.due(now):
            turn.go()
        self._look_later(key, lane, now)

    def _look_later(self, key: LaneKey, lane: LanePace, now: float) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        at = lane.next_at(now)
        if at is not None and not math.isinf(at):
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(max(at - now, 0.001), self._look, key)


def _moved(load: Load, by_s: float) -> Load:
    def moved(learnt: LearntLimit | None) -> LearntLimit | None:
        return None if learnt is None else replace(learnt, at=learnt.at + by_s)

    return replace(load, rate=moved(load.rate), at_once=moved(load.at_once))


def _begins(batch: str, name: str) -> bool:
    return name.endswith("*") and batch.startswith(name[:-1])


def _stated_timeout(headers: Headers) -> float | None:
    """Return the time-out that a client states, in seconds."""
    for name, value in headers:
        if name in _TIMEOUTS:
            try:
                stated = float(value)
            except ValueError:
                continue
            if 0 < stated < math.inf:
                return stated
    return None


def _told_wait(headers: Pairs, now: float) -> float | None:
    """Return the wait that a head states for it alone, not for one of its limits; in seconds."""
    named = http_headers.named(headers)
    for name, unit_s in ((b"retry-after-ms", 1e-3), (b"retry-after", 1.0)):
        wait_s = stated_wait(named.get(name, b"").decode("latin-1").strip(), now)
        if wait_s is not None:
            return wait_s * unit_s
    return None


def _used(exchange: Exchange) -> dict[Unit, float]:
    """Return the tokens that a call used, as far as they are known."""
    usage = exchange.usage
    read = usage.input_total if usage.input_tokens is None else usage.input_tokens
    written = usage.output_tokens if usage.output_total is None else usage.output_total
    if read is None or written is None:
        return {}
    return {Unit.INPUT: read, Unit.OUTPUT: written, Unit.TOKENS: read + written}
