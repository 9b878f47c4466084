"""What the pages of batches show beyond REST: earlier runs, tasks with their attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from classifier.batches import Slot, slots
from classifier.groups import Member
from proxy.control.batch_state import up_to_date
from proxy.control.judge import Judge
from proxy.control.queries import Queries, unknown_batch
from proxy.control.series import series_of
from proxy.store import batches as batch_history
from proxy.store import statistics as page_queries
from proxy.store.batches import newest
from proxy.store.database import Database

TASKS = 100  # on one page
_NEWEST = 300  # batches among which the earlier ones of a series are looked for
_EARLIER = 12  # of them on a sparkline


class TaskRow(NamedTuple):
    """One task: its slots in the order of their repeats, and its members by id."""

    task: str
    slots: Sequence[Slot]
    members: Mapping[str, Member]


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksPage:
    """Tasks of a batch by their names; ``next`` is where the page after begins."""

    rows: Sequence[TaskRow]
    next: str | None


class BatchPages:
    """Collects the data of the pages of batches."""

    def __init__(self, *, queries: Queries, database: Database, judge: Judge) -> None:
        self._queries = queries
        self._database = database
        self._judge = judge

    async def earlier(self, batches: Sequence[str]) -> dict[str, list[tuple[str, float | None]]]:
        """Return by batch the earlier ones of its series (`series_of`), oldest first.

        Each with its score over what was measured, None where nothing was.
        """
        earlier = _earlier(await self.names(), batches)
        names = sorted({name for names in earlier.values() for name in names})
        means = await self._queries.read(batch_history.mean_scores, names) if names else {}
        return {
            batch: [(name, means.get(name)) for name in names] for batch, names in earlier.items()
        }

    async def names(self) -> list[str]:
        """List the newest batches' names."""
        return [row["batch"] for row in await self._queries.read(newest, limit=_NEWEST)]

    async def older_first(self, one: str, other: str) -> tuple[str, str]:
        """Return two batches, the one that began first before the other.

        Raises:
            Refusal: 404 for a batch without rollouts.
        """
        first = await self._began(one)
        return (one, other) if first <= await self._began(other) else (other, one)

    async def _began(self, batch: str) -> float:
        span = await self._queries.read(page_queries.span, batch)
        if span is None:
            raise unknown_batch(batch)
        return span[0]

    async def tasks(self, batch: str, *, after: str | None) -> TasksPage:
        """Return the next tasks of a batch, with every attempt at every repeat.

        Raises:
            Refusal: 404 for a batch without rollouts.
        """
        await up_to_date(self._queries, self._judge, batch)
        groups = self._database.groups
        found = await self._queries.run(groups.page, batch, after=after, limit=TASKS + 1)
        rows = [_row(task, members) for task, members in found.members.items()]
        following = rows[TASKS - 1].task if len(rows) > TASKS else None
        return TasksPage(rows=rows[:TASKS], next=following)


def _earlier(newest: Sequence[str], batches: Sequence[str]) -> dict[str, list[str]]:
    """Return by batch the names of those before it in its series, oldest first."""
    series: dict[str, list[str]] = {}
    for name in reversed(newest):
        series.setdefault(series_of(name), []).append(name)
    found: dict[str, list[str]] = {}
    for name in batches:
        same = series.get(series_of(name), [])
        place = same.index(name) if name in same else 0
        found[name] = same[max(0, place - _EARLIER) : place]
    return found


def _row(task: str, members: Sequence[Member]) -> TaskRow:
    by_id = {member.entry.rollout_id: member for member in members}
    found = slots(member.entry for member in by_id.values())
    return TaskRow(task, sorted(found, key=_by_number), by_id)


def _by_number(slot: Slot) -> tuple[bool, int]:
    repeat = slot.counted.repeat
    return (True, 0) if repeat is None else (False, repeat)
