"""Groups for reinforcement learning: a batch's rollouts by task, over what was measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from classifier.groups import Method, group
from proxy.control.judge import Judge
from proxy.control.queries import PAGE, Queries, unknown_batch
from proxy.store.database import Database
from proxy.store.groups import Tasks


class GroupService:
    """Groups the rollouts of a batch, and is told whether more of them come.

    Arguments:
        wall: seconds since the epoch.
    """

    def __init__(
        self, *, queries: Queries, database: Database, judge: Judge, wall: Callable[[], float]
    ) -> None:
        self._queries = queries
        self._database = database
        self._judge = judge
        self._wall = wall

    async def page(
        self,
        batch: str,
        *,
        method: Method,
        min_valid: int,
        settled: bool | None = None,
        task: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> dict[str, Any]:
        """Return the groups of a batch's next tasks, in the order of their names.

        Arguments:
            settled: leave out groups that have not settled, or those that have; a page then
                holds fewer than ``limit`` groups, and the next one follows all the same.
            task: only this task's group.
            after: the `next` of the page before.

        Raises:
            Refusal: 404 for a batch without rollouts.
        """
        # First: of a batch that has ended, what is read afterwards is all there will be.
        ended = await self._queries.run(self._database.groups.ended, batch)
        found = await self._read(batch, task, after, limit + 1)
        if found.unjudged and await self._judge.refresh(among=found.unjudged[:PAGE]):
            found = await self._read(batch, task, after, limit + 1)
        if not found.members and not await self._queries.run(self._database.groups.any_of, batch):
            raise unknown_batch(batch)
        page = await self._queries.run(_group_page, found, limit, method, min_valid, settled)
        return {"items": page["items"], "ended": ended, "next": page["next"]}

    async def begin(self, batch: str, run: str) -> dict[str, Any]:
        """Note that somebody starts rollouts of a batch."""
        groups = self._database.groups
        runs, ended = await self._queries.run(groups.begin, batch, run, now=self._wall())
        return {"batch": batch, "open_runs": runs.open, "ended": ended}

    async def end(self, batch: str, run: str | None) -> dict[str, Any]:
        """Note that a run of a batch is over, or all of them.

        Raises:
            Refusal: 404 for a batch of which there is neither a rollout nor a run.
        """
        groups = self._database.groups
        if not await self._queries.run(groups.any_of, batch):
            raise unknown_batch(batch)
        runs, ended = await self._queries.run(groups.end, batch, run, now=self._wall())
        return {"batch": batch, "open_runs": runs.open, "ended": ended}

    async def _read(self, batch: str, task: str | None, after: str | None, limit: int) -> Tasks:
        groups = self._database.groups
        if task is not None:
            return await self._queries.run(groups.of_task, batch, task)
        return await self._queries.run(groups.page, batch, after=after, limit=limit)


def _group_page(
    found: Tasks,
    limit: int,
    method: Method,
    min_valid: int,
    settled: bool | None,
) -> dict[str, Any]:
    tasks, over = list(found.members), found.over_at is not None
    groups = (
        group(task, found.members[task], method=method, min_valid=min_valid, ended=over)
        for task in tasks[:limit]
    )
    return {
        "items": [asdict(one) for one in groups if settled is None or one.settled == settled],
        "next": tasks[limit - 1] if len(tasks) > limit else None,
    }
