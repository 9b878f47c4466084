"""Repeats of tasks as they are stored: what a change adds, and what tasks lack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from sqlalchemy import Connection, select

from classifier.reruns import NEVER_STARTED
from classifier.rollup import TaskProfile, TaskSums
from proxy.store.batch_totals import Changed, change_tasks, task_sums, write
from proxy.store.database import Database
from proxy.store.tables import batch_tasks


def kept(connection: Connection) -> dict[str, TaskSums]:
    return {row.task: task_sums(row) for row in connection.execute(select(batch_tasks))}


def add(connection: Connection, batch: str, tasks: Mapping[str, TaskSums]) -> Changed:
    changed = change_tasks(connection, batch, tasks)
    write(connection, changed.writes)
    return changed


def wanted(*repeats: int) -> TaskSums:
    return TaskSums(wanted=Counter(map(str, repeats)))


def test_a_task_lacks_what_it_was_registered_for_and_does_not_have(database: Database) -> None:
    for asked, change in (((8,), 7), ((8, 8), -2), ((16,), 7), ((16,) * 12, -12)):
        changed = database.change(add, "b", {"t": wanted(*asked)})
        assert (dict(changed.shapes), changed.lacking[NEVER_STARTED]) == ({}, change), asked
    assert database.read(kept)["t"].lacking == 0


def test_tasks_with_nothing_left_are_deleted_and_their_shapes_are_counted(
    database: Database,
) -> None:
    one = TaskSums(repeats=1, kept=1, score=7, lanes=Counter({"openai/m": 1}))
    shape, several = TaskProfile(1, 1, 7, ("openai/m",)), {"t": one, "u": one}
    assert database.change(add, "b", several).shapes == {shape: 2}
    assert database.read(kept) == several
    both = database.change(add, "b", {"u": one}).shapes
    assert both == {shape: -1, TaskProfile(2, 2, 14, ("openai/m",)): 1}
    taken = TaskSums(repeats=-1, kept=-1, score=-7, lanes=Counter({"openai/m": -1}))
    assert database.change(add, "b", {"t": taken}).shapes == {shape: -1}
    assert database.read(kept).keys() == {"u"}
