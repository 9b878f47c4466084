"""Two batches compared, task by task."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from classifier.batches import Entry, Scores, scores, slots
from classifier.groups import BatchComparison, TaskChange, compare_batches
from proxy.control import cursors
from proxy.control.batch_state import up_to_date
from proxy.control.judge import Judge
from proxy.control.kept import Kept
from proxy.control.queries import Queries
from proxy.store import groups
from proxy.store.batches import BatchVersion

_CACHED = 8  # comparisons kept until something happens in one of their batches
_OF_BATCH = ("total", "scoreable", "scored", "coverage", "score_effective", "score_ci")


class ComparedBatches(NamedTuple):
    """Two batches compared, and each by itself."""

    a: Scores
    b: Scores
    comparison: BatchComparison


class ComparisonService:
    """Compares batches, once for each state that they are in."""

    def __init__(self, *, queries: Queries, judge: Judge) -> None:
        self._queries = queries
        self._judge = judge
        self._kept = Kept[tuple[str, str], tuple[BatchVersion, BatchVersion], ComparedBatches](
            _CACHED
        )

    async def compare(self, a: str, b: str) -> ComparedBatches:
        """Compare batch ``b`` with batch ``a``.

        Raises:
            Refusal: 404 for a batch without rollouts.
        """
        versions = (
            await up_to_date(self._queries, self._judge, a),
            await up_to_date(self._queries, self._judge, b),
        )
        kept = self._kept.of((a, b), versions)
        if kept is not None:
            return kept
        first = await self._queries.read(groups.entries, a)
        second = await self._queries.read(groups.entries, b)
        compared = await self._queries.run(_compared, first, second)
        self._kept.keep((a, b), versions, compared)
        return compared

    async def page(
        self,
        a: str,
        b: str,
        *,
        changes: Collection[str] = (),
        after: str | None = None,
        limit: int = 1000,
    ) -> dict[str, Any]:
        """Return the response to `GET /compare`: the numbers, and a page of tasks.

        Arguments:
            changes: only tasks with one of these changes; empty takes all.
            after: the `next` of the page before.

        Raises:
            Refusal: 404 for a batch without rollouts, 422 if ``after`` is not a cursor.
        """
        compared = await self.compare(a, b)
        return await self._queries.run(
            _comparison_page, a, b, compared, frozenset(changes), after, limit
        )


def _compared(first: Sequence[Entry], second: Sequence[Entry]) -> ComparedBatches:
    a, b = slots(first), slots(second)
    return ComparedBatches(scores(a), scores(b), compare_batches(a, b))


def _comparison_page(
    a: str,
    b: str,
    compared: ComparedBatches,
    changes: Collection[str],
    after: str | None,
    limit: int,
) -> dict[str, Any]:
    comparison = compared.comparison
    tasks = [each for each in comparison.tasks if not changes or each.change in changes]
    begin = _task_place(tasks, after)
    shown = tasks[begin : begin + limit]
    return {
        "a": _of_batch(a, compared.a),
        "b": _of_batch(b, compared.b),
        "compared": comparison.compared,
        "score_a": comparison.score_a,
        "score_b": comparison.score_b,
        "difference": comparison.difference,
        "difference_ci": comparison.difference_ci,
        "counts": comparison.counts,
        "without_task": comparison.without_task,
        "tasks": [asdict(each) for each in shown],
        "next": shown[-1].task if begin + limit < len(tasks) else None,
    }


def _task_place(tasks: Sequence[TaskChange], after: str | None) -> int:
    if after is None:
        return 0
    for place, each in enumerate(tasks, 1):
        if each.task == after:
            return place
    raise cursors.invalid()


def _of_batch(name: str, found: Scores) -> dict[str, Any]:
    return {"batch": name, **{field: getattr(found, field) for field in _OF_BATCH}}
