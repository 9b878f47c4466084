"""The repeats of a batch to run again, by what is to be done first: whole, and page by page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import Connection

from classifier.reruns import (
    Rerun,
    RerunItem,
    RerunReason,
    UnscoredRepeat,
    never_started,
    to_rerun,
)
from classifier.verdicts import Policy
from proxy.control.judge import current_version
from proxy.control.queries import (
    Service,
    VersionedCache,
    cursor_name,
    cursor_number,
    cursor_whole,
    decode_cursor,
    encode_cursor,
    invalid_cursor,
)
from proxy.features.reruns import store
from proxy.features.reruns.store import SlotCursor
from proxy.store.batch_versions import BatchVersion

_ITEM = tuple(field.name for field in fields(RerunItem))

Items: TypeAlias = dict[RerunReason, list[dict[str, Any]]]


class RepeatCursor(NamedTuple):
    """The place of a repeat that was never started: after all others, by task and number."""

    task: str
    repeat: int


class Totals(NamedTuple):
    """The number of repeats that run, and of those to run again by reason."""

    running: int
    counts: Mapping[RerunReason, int]


class PageCursor(NamedTuple):
    """The item before a page, and the version of the batch that the pages before it counted."""

    version: int
    began_at: float
    item: SlotCursor | RepeatCursor


class RerunLists(VersionedCache[str, BatchVersion, dict[str, Any]]):
    """The whole lists that were made last."""

    def __init__(self) -> None:
        super().__init__(limit=8)


class RerunTotals(VersionedCache[str, BatchVersion, Totals]):
    """The counts of batches, for the pages of a list that follow the first."""

    def __init__(self) -> None:
        super().__init__(limit=50)


async def rerun(service: Service, batch: str) -> dict[str, Any]:
    """Sort the repeats without a score by the action that each needs.

    Returns:
        The response to `GET /batches/{id}/rerun` with everything in it.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    version = await current_version(service, batch)
    made = service.state(RerunLists)
    if (cached := made.current(batch, version)) is not None:
        return cached
    reruns = await service.read(_all, batch, service.policy)
    made.store(batch, version, reruns)
    return reruns


async def rerun_page(
    service: Service, batch: str, *, after: str | None, limit: int
) -> dict[str, Any]:
    """Return the same with the items of one page; counts are over everything.

    Counts are made once for all pages that follow the first, however fast the batch changes.

    Arguments:
        after: the `next` of the page before.

    Raises:
        Refusal: 404 for a batch without rollouts, 422 if ``after`` is not a cursor.
    """
    begin = None if after is None else _read_cursor(after)
    version = await current_version(service, batch)
    version, totals = await _totals(service, batch, version, begin)
    before = None if begin is None else begin.item
    items, following = await service.read(_rerun_page, batch, service.policy, before, limit)
    counts = dict(totals.counts)
    for reason, listed in items.items():  # some may be newer than the counts
        counts[reason] = max(counts.get(reason, 0), len(listed))
    next_cursor = None if following is None else _cursor(version, following)
    return {**_reruns(batch, totals.running, counts, items), "next": next_cursor}


async def _totals(
    service: Service, batch: str, version: BatchVersion, begin: PageCursor | None
) -> tuple[BatchVersion, Totals]:
    """Return the counts of a version: of this one, or one since the first page was read."""
    counted = service.state(RerunTotals)
    cached = counted.get(batch)
    if cached is not None and _serves(cached[0], version, begin):
        return cached
    totals = await service.read(_count, batch, service.policy)
    counted.store(batch, version, totals)
    return version, totals


def _serves(cached: BatchVersion, now: BatchVersion, begin: PageCursor | None) -> bool:
    if begin is None or begin.began_at != now.began_at:
        return cached == now
    return cached.began_at == now.began_at and cached.number >= begin.version


def _listed(
    connection: Connection, batch: str, policy: Policy, after: SlotCursor | RepeatCursor | None
) -> Iterator[tuple[SlotCursor | RepeatCursor, UnscoredRepeat]]:
    """Yield the repeats without a score: started ones, oldest first, then those never started."""
    since, repeat = after if isinstance(after, RepeatCursor) else ("", -1)
    if not isinstance(after, RepeatCursor):
        for cursor, attempts in store.unscored(connection, batch, after=after):
            yield cursor, to_rerun(attempts, policy)
    for task in store.lacking(connection, batch, since=since):
        for unscored in never_started(task, after=repeat if task.task == since else -1):
            yield RepeatCursor(task.task, unscored.item.repeat or 0), unscored


def _count(connection: Connection, batch: str, policy: Policy) -> Totals:
    listed = _listed(connection, batch, policy, None)
    counts = Counter(unscored.reason for _, unscored in listed)
    running = counts.pop(None, 0)
    return Totals(running, {reason: n for reason, n in counts.items() if reason is not None})


def _all(connection: Connection, batch: str, policy: Policy) -> dict[str, Any]:
    running, items = 0, Items()
    for _, (reason, item) in _listed(connection, batch, policy, None):
        if reason is None:
            running += 1
        else:
            items.setdefault(reason, []).append(_encoded(item))
    counts = {reason: len(several) for reason, several in items.items()}
    return {**_reruns(batch, running, counts, items), "next": None}


def _rerun_page(
    connection: Connection,
    batch: str,
    policy: Policy,
    after: SlotCursor | RepeatCursor | None,
    limit: int,
) -> tuple[Items, SlotCursor | RepeatCursor | None]:
    """Return the items of a page, and the cursor of the last one if more follow."""
    listed = _listed(connection, batch, policy, after)
    waiting = ((cursor, each) for cursor, each in listed if each.reason is not None)
    items, last = Items(), after
    for cursor, (reason, item) in islice(waiting, limit):
        assert reason is not None
        items.setdefault(reason, []).append(_encoded(item))
        last = cursor
    return items, last if next(waiting, None) is not None else None


def _encoded(item: RerunItem) -> dict[str, Any]:
    return {name: getattr(item, name) for name in _ITEM}


def _reruns(
    batch: str,
    running: int,
    counts: Mapping[RerunReason, int],
    items: Mapping[RerunReason, Sequence[dict[str, Any]]],
) -> dict[str, Any]:
    kinds: dict[str, dict[str, Any]] = {kind.value: {"count": 0, "groups": []} for kind in Rerun}
    for reason, count in sorted(counts.items(), key=lambda each: (-each[1], each[0].cause)):
        of_kind = kinds[reason.kind]
        of_kind["count"] += count
        of_kind["groups"].append(
            {
                "cause": reason.cause,
                "fix": reason.fix,
                "items": items.get(reason, []),
                "count": count,
            }
        )
    return {"batch": batch, "running": running, **kinds}


def _cursor(version: BatchVersion, item: SlotCursor | RepeatCursor) -> str:
    started = isinstance(item, SlotCursor)
    return encode_cursor([version.number, version.began_at, started, *item])


def _read_cursor(cursor: str) -> PageCursor:
    try:
        version, began_at, started, one, other = decode_cursor(cursor)
        item = (
            SlotCursor(cursor_number(one), cursor_name(other))
            if started
            else RepeatCursor(cursor_name(one), cursor_whole(other))
        )
        return PageCursor(cursor_whole(version), cursor_number(began_at), item)
    except (ValueError, TypeError, OverflowError):
        raise invalid_cursor() from None
