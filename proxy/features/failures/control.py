"""Causes of failures: how often, since when, in which batches; and errors that nothing explains."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from classifier.fingerprints import Lane
from classifier.operator_causes import suggested_row
from classifier.verdicts import Subcategory
from proxy.control.queries import Service, run_in_thread
from proxy.control.upstreams import round_step
from proxy.features.failures import store

_STEPS = 30  # of a trend, roughly
_UNEXPLAINED_S = 7 * 86_400.0  # looked at, if no time is chosen

Facts = Mapping[str, Any]


class CauseKey(NamedTuple):
    """The key of one line of the page; None means unknown."""

    fingerprint: str
    subcategory: str | None
    cause: str | None
    upstream: str | None
    model: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseStats:
    """The rollouts that one cause affected; times are in epoch seconds.

    ``recent`` counts those of the window, ``trend`` the same by step, oldest first. ``batches``
    are the names of those affected, the latest first, and ``alone`` counts rollouts of no batch.
    """

    key: CauseKey
    rollouts: int
    recent: int
    trend: Sequence[int]
    batches: Sequence[str]
    alone: int
    first_seen: float
    last_seen: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CausePage:
    """All causes, those that struck most rollouts of the window first.

    A step of a trend has ``step_s`` seconds, the first begins at ``start`` (epoch seconds).
    """

    items: Sequence[CauseStats]
    step_s: int
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnexplainedCalls:
    """Failed calls with one unexplained error; times in epoch seconds, as they began.

    ``subcategory`` and ``rule`` are None of answers that could not be read, and so is ``row``, the
    row of `[[causes]]` to be completed. ``exchange_id`` is the last one with a rollout.
    """

    upstream: str
    status: int | None
    error_code: str | None
    subcategory: str | None
    rule: str | None
    calls: int
    first_seen: float
    last_seen: float
    exchange_id: str | None
    rollout_id: str | None
    row: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnexplainedPage:
    """The most frequent of them, and how many there are; a range in epoch seconds."""

    since: float
    until: float
    total: int
    items: Sequence[UnexplainedCalls]

    def to_dict(self) -> dict[str, Any]:
        """Return it as REST has it."""
        return asdict(self)


async def cause_page(service: Service, since: float, until: float | None = None) -> CausePage:
    """Return all causes, with their trend from ``since`` on.

    Arguments:
        since: in epoch seconds, as is ``until``, by default now.
    """
    now = service.now()
    ended = now if until is None else min(until, now)
    step_s = round_step((ended - since) / _STEPS)
    last = int(now // step_s) + 1 if ended == now else math.ceil(ended / step_s)
    # The last seconds hold no whole step at their begin; a range that was asked for is whole.
    first = math.ceil(since / step_s) if until is None else int(since // step_s)
    steps = range(first, max(last, first + 1))
    rows = await service.read(store.causes)
    over_time = await service.read(
        store.causes_over_time, since=steps.start * step_s, step_s=step_s
    )
    items = await run_in_thread(_summed, rows, over_time, steps)
    return CausePage(items=items, step_s=step_s, start=steps.start * step_s)


async def fingerprints(service: Service) -> dict[str, Any]:
    """Count the rollouts affected by each cause, across batches."""
    rows = await service.read(store.fingerprints)
    return {"items": [dict(row) for row in rows]}


async def unexplained_calls(
    service: Service, since: float | None = None, until: float | None = None, *, limit: int
) -> UnexplainedPage:
    """Return calls that failed without an explanation, by upstream, status and code.

    Arguments:
        since: in epoch seconds, by default seven days ago, as is ``until``, by default now.
    """
    now = service.now()
    ended = now if until is None else until
    began = now - _UNEXPLAINED_S if since is None else since
    rows, total = await service.read(store.unexplained, since=began, until=ended, limit=limit)
    items = [UnexplainedCalls(**row, row=_suggested(row)) for row in rows]
    return UnexplainedPage(since=began, until=ended, total=total, items=items)


def _suggested(row: Facts) -> str | None:
    if row["subcategory"] is None:
        return None
    cause = Subcategory(row["subcategory"])
    return suggested_row(row["upstream"], row["status"], row["error_code"], cause)


def _summed(
    rows: Iterable[Facts],
    over_time: Iterable[Facts],
    steps: range,
) -> list[CauseStats]:
    groups: defaultdict[CauseKey, list[Facts]] = defaultdict(list)
    for row in rows:
        groups[key_of(row)].append(row)
    trends: defaultdict[CauseKey, Counter[int]] = defaultdict(Counter)
    for row in over_time:
        trends[key_of(row)][row["step"]] += row["rollouts"]
    causes = [
        _stats(key, group, [trends[key][step] for step in steps]) for key, group in groups.items()
    ]
    return sorted(causes, key=lambda each: (-each.recent, -each.rollouts, each.key.fingerprint))


def _stats(key: CauseKey, rows: Sequence[Facts], trend: Sequence[int]) -> CauseStats:
    last_seen: dict[str, float] = {}
    for row in rows:
        if row["batch"] is not None:
            batch = row["batch"]
            last_seen[batch] = max(row["last_seen"], last_seen.get(batch, 0.0))
    return CauseStats(
        key=key,
        rollouts=sum(row["rollouts"] for row in rows),
        recent=sum(trend),
        trend=trend,
        batches=sorted(last_seen, key=lambda name: (-last_seen[name], name)),
        alone=sum(row["rollouts"] for row in rows if row["batch"] is None),
        first_seen=min(row["first_seen"] for row in rows),
        last_seen=max(row["last_seen"] for row in rows),
    )


def key_of(row: Facts) -> CauseKey:
    """Return the key of a row's cause; ``lane`` is as in a verdict, None if there is none."""
    lane = Lane() if row["lane"] is None else Lane.read(row["lane"])
    return CauseKey(row["fingerprint"], row["subcategory"], row["cause"], lane.upstream, lane.model)
