"""What the repeats of each task of a batch add up to, as it is stored."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, bindparam, delete, insert, select, update

from classifier.rollup import Counts, Shape, TaskSums, add, lacking_in
from proxy.store.derived import batch_tasks
from proxy.store.types import Write


class Changed(NamedTuple):
    """What changed tasks change in their batch: the numbers of tasks alike, and what they lack.

    ``writes`` is what is to be written of the tasks themselves.
    """

    shapes: Counter[Shape]
    lacking: Counts
    writes: list[Write]


def change_tasks(connection: Connection, batch: str, tasks: Mapping[str, TaskSums]) -> Changed:
    """Return what adding to tasks changes; reads only."""
    changed = Changed(Counter(), Counter(), [])
    known = _tasks(connection, batch, tasks)
    added: list[dict[str, Any]] = []
    for task, sums in tasks.items():
        total = known.get(task, TaskSums())
        _count_task(changed, total, -1)
        total.add(sums)
        _count_task(changed, total, 1)
        values = task_row(batch, task, total)
        same = {"of": batch, "of_task": task}
        if task not in known:
            added.append(values)
        elif total == TaskSums():
            changed.writes.append((delete(batch_tasks).where(_TASK), same))
        else:
            changed.writes.append((update(batch_tasks).where(_TASK), {**same, **values}))
    if added:
        changed.writes.append((insert(batch_tasks), added))
    return changed


_TASK = and_(batch_tasks.c.batch == bindparam("of"), batch_tasks.c.task == bindparam("of_task"))


def _tasks(connection: Connection, batch: str, names: Collection[str]) -> dict[str, TaskSums]:
    if not names:
        return {}
    query = select(batch_tasks).where(batch_tasks.c.batch == batch, batch_tasks.c.task.in_(names))
    return {row.task: task_sums(row) for row in connection.execute(query)}


def task_sums(row: Any) -> TaskSums:
    """Return the sums in a row of `batch_tasks`."""
    return TaskSums(
        repeats=row.repeats,
        kept=row.kept,
        score=int(row.score),
        lanes=Counter(json.loads(row.lanes)),
        wanted=Counter(json.loads(row.wanted)),
    )


def _count_task(changed: Changed, task: TaskSums, times: int) -> None:
    if task.repeats:
        add(changed.shapes, {task.shape: times})
    add(changed.lacking, lacking_in([task]), times)


def task_row(batch: str, task: str, sums: TaskSums) -> dict[str, Any]:
    """Return a task's sums as a row of `batch_tasks`."""
    return {
        "batch": batch,
        "task": task,
        "repeats": sums.repeats,
        "kept": sums.kept,
        "score": str(sums.score),
        "lanes": as_text(sums.lanes),
        "wanted": as_text(sums.wanted),
    }


def as_text(counts: Mapping[str, int]) -> str:
    """Encode counts as JSON, the same text for the same counts."""
    return json.dumps(counts, separators=(",", ":"), sort_keys=True)
