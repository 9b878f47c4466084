"""What a batch has to run again."""

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
    Unscored,
    never_started,
    to_rerun,
)
from classifier.verdicts import Policy
from proxy.control import cursors
from proxy.control.batch_state import up_to_date
from proxy.control.judge import Judge
from proxy.control.kept import Kept
from proxy.control.queries import Queries
from proxy.store import groups
from proxy.store.batches import BatchVersion
from proxy.store.groups import SlotPlace

_CACHED = 8  # batches whose lists are kept until something happens in them
_COUNTED = 50  # batches whose counts are kept for the pages that follow
_ITEM = tuple(field.name for field in fields(RerunItem))

Items: TypeAlias = dict[RerunReason, list[dict[str, Any]]]


class RepeatPlace(NamedTuple):
    """Where a repeat that was never started is: behind all slots, by task and number."""

    task: str
    repeat: int


class Totals(NamedTuple):
    """How many repeats run, and how many are to be run again by reason."""

    running: int
    counts: Mapping[RerunReason, int]


class PagePlace(NamedTuple):
    """Where a page begins, and the version of the batch as the pages before it counted it."""

    version: int
    began_at: float
    place: SlotPlace | RepeatPlace


class RerunService:
    """Sorts what is not measured by what is to be done about it.

    Arguments:
        policy: from how many equal failures in a row on one is deterministic.
    """

    def __init__(self, *, queries: Queries, judge: Judge, policy: Policy) -> None:
        self._queries = queries
        self._judge = judge
        self._policy = policy
        self._kept = Kept[str, BatchVersion, dict[str, Any]](_CACHED)
        self._counted = Kept[str, BatchVersion, Totals](_COUNTED)

    async def of_batch(self, batch: str) -> dict[str, Any]:
        """Return the response to `GET /batches/{id}/rerun` with everything in it.

        Raises:
            Refusal: 404 for a batch without rollouts.
        """
        version = await up_to_date(self._queries, self._judge, batch)
        kept = self._kept.of(batch, version)
        if kept is not None:
            return kept
        made = await self._queries.read(_all, batch, self._policy)
        self._kept.keep(batch, version, made)
        return made

    async def page(self, batch: str, *, after: str | None, limit: int) -> dict[str, Any]:
        """Return the same with the items of one page; counts are over everything.

        Counts are made once for all pages that follow the first, however fast the batch changes.

        Arguments:
            after: the `next` of the page before.

        Raises:
            Refusal: 404 for a batch without rollouts, 422 if ``after`` is not a cursor.
        """
        begin = None if after is None else _rerun_place(after)
        version = await up_to_date(self._queries, self._judge, batch)
        version, totals = await self._totals(batch, version, begin)
        place = None if begin is None else begin.place
        found, following = await self._queries.read(_rerun_page, batch, self._policy, place, limit)
        counts = dict(totals.counts)
        for reason, items in found.items():  # some may be newer than the counts
            counts[reason] = max(counts.get(reason, 0), len(items))
        answer = _answer(batch, totals.running, counts, found)
        answer["next"] = None if following is None else _cursor(version, following)
        return answer

    async def _totals(
        self, batch: str, version: BatchVersion, begin: PagePlace | None
    ) -> tuple[BatchVersion, Totals]:
        """Return the counts of a version: of this one, or one since the first page was read."""
        kept = self._counted.get(batch)
        if kept is not None and _serves(kept[0], version, begin):
            return kept
        made = await self._queries.read(_count, batch, self._policy)
        self._counted.keep(batch, version, made)
        return version, made


def _serves(kept: BatchVersion, now: BatchVersion, begin: PagePlace | None) -> bool:
    if begin is None or begin.began_at != now.began_at:
        return kept == now
    return kept.began_at == now.began_at and kept.number >= begin.version


def _listed(
    connection: Connection, batch: str, policy: Policy, after: SlotPlace | RepeatPlace | None
) -> Iterator[tuple[SlotPlace | RepeatPlace, Unscored]]:
    """Yield what has no score: slots, the oldest first, then what was never started."""
    since, repeat = after if isinstance(after, RepeatPlace) else ("", -1)
    if not isinstance(after, RepeatPlace):
        for place, tried in groups.unscored(connection, batch, after=after):
            yield place, to_rerun(tried, policy)
    for task in groups.lacking(connection, batch, since=since):
        for found in never_started(task, after=repeat if task.task == since else -1):
            yield RepeatPlace(task.task, found.item.repeat or 0), found


def _count(connection: Connection, batch: str, policy: Policy) -> Totals:
    found = _listed(connection, batch, policy, None)
    counts = Counter(unscored.reason for _, unscored in found)
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
    return {**_answer(batch, running, counts, items), "next": None}


def _rerun_page(
    connection: Connection,
    batch: str,
    policy: Policy,
    after: SlotPlace | RepeatPlace | None,
    limit: int,
) -> tuple[Items, SlotPlace | RepeatPlace | None]:
    """Return the items of a page, and the place of the last one where more follow."""
    listed = _listed(connection, batch, policy, after)
    waiting = ((place, each) for place, each in listed if each.reason is not None)
    items, last = Items(), after
    for place, (reason, item) in islice(waiting, limit):
        assert reason is not None
        items.setdefault(reason, []).append(_encoded(item))
        last = place
    return items, last if next(waiting, None) is not None else None


def _encoded(item: RerunItem) -> dict[str, Any]:
    return {name: getattr(item, name) for name in _ITEM}


def _answer(
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


def _cursor(version: BatchVersion, place: SlotPlace | RepeatPlace) -> str:
    started = isinstance(place, SlotPlace)
    return cursors.encode([version.number, version.began_at, started, *place])


def _rerun_place(cursor: str) -> PagePlace:
    try:
        version, began_at, started, one, other = cursors.decode(cursor)
        place = (
            SlotPlace(cursors.number(one), cursors.name(other))
            if started
            else RepeatPlace(cursors.name(one), cursors.whole(other))
        )
        return PagePlace(cursors.whole(version), cursors.number(began_at), place)
    except (ValueError, TypeError, OverflowError):
        raise cursors.invalid() from None
