"""What the repeats of each task of a batch add up to, as it is stored."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, delete, insert, select, update

from classifier.rollup import Counts, Shape, TaskSums, add, lacking_in
from proxy.store.derived import batch_tasks


class Changed(NamedTuple):
    """What changed tasks change in their batch: the numbers of tasks alike, and what they lack."""

    shapes: Counter[Shape]
    lacking: Counts


def change_tasks(connection: Connection, batch: str, tasks: Mapping[str, TaskSums]) -> Changed:
    """Add to tasks, and write them."""
    changed = Changed(Counter(), Counter())
    known = _tasks(connection, batch, tasks)
    added: list[dict[str, Any]] = []
    for task, sums in tasks.items():
        total = known.get(task, TaskSums())
        _count_task(changed, total, -1)
        total.add(sums)
        _count_task(changed, total, 1)
        values = task_row(batch, task, total)
        same = and_(batch_tasks.c.batch == batch, batch_tasks.c.task == task)
        if task not in known:
            added.append(values)
        elif total == TaskSums():
            connection.execute(delete(batch_tasks).where(same))
        else:
            connection.execute(update(batch_tasks).where(same).values(**values))
    if added:
        connection.execute(insert(batch_tasks), added)
    return changed


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
