"""Leases of rate limits: keeps a process's shares of its lanes renewed while it serves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Mapping

from proxy.features.pace.lane_pace import Load
from proxy.features.pace.learnt_limits import LearntLimit
from proxy.features.pace.pacer import LaneKey, Pacer, PaceReport
from proxy.features.pace.shares import PaceDemand, PaceLane, PaceShare, PaceShares
from proxy.store.errors import StoreError

log = logging.getLogger("truezero")

_EVERY_S = 1.0
_APART_S = 0.1  # two renewals at least
_OF_BEFORE = 0.5  # of the rollouts that were counted until now


class PaceLeases:
    """Renews the leases of one process, each second, and at once with a new lane or after a 429.

    Where the database is away, the shares stay as they are until it is back.

    Arguments:
        worker: the process's name in the table of workers.
    """

    def __init__(
        self,
        shares: PaceShares,
        pacer: Pacer,
        *,
        worker: str,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._shares = shares
        self._pacer = pacer
        self._worker = worker
        self._wall = wall
        self._rollouts: dict[LaneKey, float] = {}

    async def run(self) -> None:
        """Renew them until cancelled."""
        wanted = asyncio.Event()
        self._pacer.on_change = wanted.set
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(wanted.wait(), _EVERY_S)
            wanted.clear()
            try:
                await self.renew()
            except StoreError as error:
                log.warning("shares of rate limits cannot be renewed: %s", error.kind)
            await asyncio.sleep(_APART_S)

    async def renew(self) -> None:
        """Renew them once.

        Raises:
            StoreError: the database is unavailable.
        """
        pacer, now = self._pacer, self._wall()
        reports, unknown = pacer.reports(), pacer.unknown_rollouts()
        counts = self._rollouts
        self._rollouts = {
            key: report.rollouts + _OF_BEFORE * (counts.get(key, report.rollouts) - report.rollouts)
            for key, report in reports.items()
        }
        demands = {
            _lane(key): _demand(report, self._rollouts[key], now) for key, report in reports.items()
        }
        if not demands:
            return
        shares, batches = await asyncio.to_thread(self._exchange, demands, unknown, now)
        pacer.know_batches(dict.fromkeys(unknown) | batches)
        for key in reports:
            share = shares[_lane(key)]
            others = [_load(demand) for demand in share.others]
            blocked_s = max(0.0, share.blocked_until - now)
            pacer.resize(key, share.share, blocked_s=blocked_s, others=others)

    async def stop(self) -> None:
        """End them, as the process stops."""
        with contextlib.suppress(StoreError):
            await asyncio.to_thread(self._shares.give_back, self._worker)

    def _exchange(
        self, demands: Mapping[PaceLane, PaceDemand], unknown: Collection[str], now: float
    ) -> tuple[dict[PaceLane, PaceShare], dict[str, str | None]]:
        batches = self._shares.batches_of(unknown) if unknown else {}
        return self._shares.renew(self._worker, demands, now=now), batches


def _demand(report: PaceReport, rollouts: float, now: float) -> PaceDemand:
    load = report.load
    return PaceDemand(
        rollouts=rollouts,
        waiting=report.waiting,
        longest_s=report.longest_s,
        blocked_until=now + report.blocked_s if report.blocked_s else 0.0,
        in_flight=load.in_flight,
        answered=load.answered,
        rate=None if load.rate is None else load.rate.value,
        rate_at=None if load.rate is None else load.rate.at,
        at_once=None if load.at_once is None else load.at_once.value,
        at_once_at=None if load.at_once is None else load.at_once.at,
    )


def _load(demand: PaceDemand) -> Load:
    return Load(
        demand.in_flight,
        demand.answered,
        _learnt(demand.rate, demand.rate_at),
        _learnt(demand.at_once, demand.at_once_at),
    )


def _learnt(value: float | None, at: float | None) -> LearntLimit | None:
    return None if value is None or at is None else LearntLimit(value, at)


def _lane(key: LaneKey) -> PaceLane:
    upstream, model, digest = key
    return upstream, model or "", digest or ""
