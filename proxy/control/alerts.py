"""Alerts on breakers, batches, upstreams and lanes; causes of failures by upstream and model."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from classifier.fingerprints import Lane
from classifier.operator_causes import suggested_row
from classifier.verdicts import Subcategory
from proxy.budgets import LIMITS
from proxy.control import batches, health
from proxy.control.queries import Service, path_of, run_in_thread
from proxy.control.upstreams import all_down, ratio, round_step
from proxy.routing.errors import Refusal
from proxy.store import statistics
from proxy.store.batches import newest
from proxy.store.deployment import Condition

BREAKER, BATCH, UPSTREAM = "breaker.opened", "batch.unpublishable", "upstream.failing"
BUDGET = "budget.reached"

LANE = "lane"
"""Kinds of alerts on a lane's health, with a word behind it: `lane.down`."""
_LANE_KINDS = tuple(f"{LANE}.{word}" for word in ("degraded", "down", "recovered"))
_RECOVERED_S = 600.0  # ago, at most, for which a recovery is told

_RECENT_S = 3600.0  # older breakers and batches without a rollout since are yesterday's
_BATCHES = 50  # the newest ones, looked at
_FAILING_S = 120.0  # for which all lanes of an upstream are down
_NAMED = 10  # rollouts in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSnapshot:
    """The conditions that hold now, and the kinds and subjects that were checked."""

    conditions: tuple[Condition, ...]
    watched: frozenset[str]


async def current_alerts(service: Service) -> AlertSnapshot:
    """Check everything once that an operator is alerted of.

    Raises:
        Refusal: 503 while the database is unavailable.
    """
    now = service.now()
    conditions = [
        *await _breakers(service, now),
        *await _failing(service, now),
        *await _lanes(service, now),
        *await _budgets(service),
    ]
    watched = {BREAKER, UPSTREAM, BUDGET, *_LANE_KINDS}
    for row in await service.read(newest, limit=_BATCHES):
        if row["last_at"] >= now - _RECENT_S:
            watched.add(f"{BATCH}:{row['batch']}")
            conditions += await _unpublishable(service, row["batch"], now)
    return AlertSnapshot(conditions=tuple(conditions), watched=frozenset(watched))


async def _breakers(service: Service, now: float) -> list[Condition]:
    alerts = service.database.alerts
    states = await service.run(alerts.open_breakers, since=now - _RECENT_S, now=now)
    return [
        Condition(
            kind=BREAKER,
            subject=f"{state.batch}/{state.lane}",
            at=state.opened_at or now,
            data={
                "batch": state.batch,
                "lane": state.lane,
                "fingerprint": state.fingerprint,
                "streak": state.streak,
                "tripped_by": list(state.tripped_by[:_NAMED]),
                **_link(service, path_of("batches", state.batch)),
            },
        )
        for state in states
    ]


async def _failing(service: Service, now: float) -> list[Condition]:
    """Return a condition for each upstream whose lanes are all down."""
    lanes: defaultdict[str, list[health.NamedLane]] = defaultdict(list)
    for lane in (await health.status_report(service)).items:
        if lane.place.server is None:
            lanes[lane.place.upstream].append(lane)
    conditions = []
    for name, theirs in lanes.items():
        down = all_down(theirs)
        if down is None or (down.since or 0.0) > now - _FAILING_S:
            continue
        failed: Counter[str] = Counter()
        for lane in theirs:
            failed.update(lane.failed)
        calls = sum(lane.calls for lane in theirs)
        data = {
            "upstream": name,
            "failing_since": down.since,
            "answered_at": down.answered_at,
            "calls": calls,
            "failed": dict(failed.most_common()),
            "error_rate": ratio(failed.total(), calls),
            **_link(service, "/ui/upstreams"),
        }
        at = now if down.since is None else down.since
        conditions.append(Condition(kind=UPSTREAM, subject=name, at=at, data=data))
    return conditions


async def _lanes(service: Service, now: float) -> list[Condition]:
    """Return a condition for each lane that fails, and for each that recovered of late."""
    conditions = []
    for lane in (await health.status_report(service)).items:
        if lane.fails:
            data = lane.to_dict()
            conditions.append(_lane_condition(service, lane, lane.health.word.value, data))
        elif (last := lane.last_episode) is not None and (last.until or 0) > now - _RECOVERED_S:
            data = {
                "since": last.since, "answered_at": last.answered_at, "until": last.until,
                "cause": last.cause,
            }  # fmt: skip
            conditions.append(_lane_condition(service, lane, "recovered", data))
    return conditions


def _lane_condition(
    service: Service, lane: health.NamedLane, word: str, data: Mapping[str, Any]
) -> Condition:
    episode = lane.last_episode
    return Condition(
        kind=f"{LANE}.{word}",
        subject=lane.name,
        at=(episode and (episode.until or episode.since)) or service.now(),
        data={**lane.place._asdict(), **data, **_link(service, "/status")},
    )


async def _budgets(service: Service) -> list[Condition]:
    """Return a condition for each limit that is spent while rollouts of it run."""
    conditions = []
    for row in await service.run(service.database.budgets.spent_ones):
        names = [name for name in LIMITS if row[name] is not None]
        pages = "batches" if row["kind"] == "batch" else "rollouts"
        data = {
            row["kind"]: row["name"],
            "limits": {name: row[name] for name in names},
            "spent": {name: row[f"spent_{name}"] for name in names},
            **_link(service, path_of(pages, row["name"])),
        }
        subject = f"{row['kind']}/{row['name']}"
        conditions.append(Condition(kind=BUDGET, subject=subject, at=row["reached_at"], data=data))
    return conditions


async def _unpublishable(service: Service, batch: str, now: float) -> list[Condition]:
    try:
        objections = await batches.objections(service, batch)
    except Refusal as refusal:
        if refusal.status != 404:
            raise
        return []  # deleted meanwhile
    if objections <= 0:
        return []
    link = _link(service, path_of("batches", batch))
    data = {"batch": batch, "objections": objections, **link}
    return [Condition(kind=BATCH, subject=batch, at=now, data=data)]


def _link(service: Service, path: str) -> dict[str, Any]:
    return {} if service.pages_url is None else {"url": service.pages_url.rstrip("/") + path}


# --- causes: how often, since when, in which batches -------------------------------------------


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
    rows = await service.read(statistics.causes)
    over_time = await service.read(
        statistics.causes_over_time, since=steps.start * step_s, step_s=step_s
    )
    items = await run_in_thread(_summed, rows, over_time, steps)
    return CausePage(items=items, step_s=step_s, start=steps.start * step_s)


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
    rows, total = await service.read(statistics.unexplained, since=began, until=ended, limit=limit)
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
