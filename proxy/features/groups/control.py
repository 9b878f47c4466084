"""Groups of a batch as REST has them, in pages."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from classifier.groups import group
from proxy.control import judge
from proxy.control.queries import PAGE, Service, unknown_batch
from proxy.store.tasks import TaskMembers


async def group_page(
    service: Service,
    batch: str,
    *,
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
    runs = service.database.runs
    # Asked first: once a batch has ended, its tasks are complete.
    ended = await service.run(runs.ended, batch)
    tasks = await _tasks(service, batch, task, after, limit + 1)
    if tasks.unjudged and await judge.refresh(service, among=tasks.unjudged[:PAGE]):
        tasks = await _tasks(service, batch, task, after, limit + 1)
    if not tasks.members and not await service.run(runs.any_of, batch):
        raise await unknown_batch(service, batch)
    page = await service.run(_group_page, tasks, limit, min_valid, settled)
    return {"items": page["items"], "ended": ended, "next": page["next"]}


async def _tasks(
    service: Service, batch: str, task: str | None, after: str | None, limit: int
) -> TaskMembers:
    stored = service.database.tasks
    if task is not None:
        return await service.run(stored.of_task, batch, task)
    return await service.run(stored.page, batch, after=after, limit=limit)


_GONE = {"method": None, "advantages": None}  # fields of the last release, for one release


def _group_page(
    tasks: TaskMembers, limit: int, min_valid: int, settled: bool | None
) -> dict[str, Any]:
    names, over = list(tasks.members), tasks.over_at is not None
    made = (
        group(name, tasks.members[name], min_valid=min_valid, ended=over) for name in names[:limit]
    )
    return {
        "items": [asdict(one) | _GONE for one in made if settled is None or one.settled == settled],
        "next": names[limit - 1] if len(names) > limit else None,
    }
