"""Two batches side by side: what changed, and what was measured in both."""

from __future__ import annotations

from classifier.groups import BatchComparison, TaskTotal, compare_batches
from classifier.statistics import paired_interval

Runs = dict[str, list[float | None]]


def batch(tasks: Runs) -> list[TaskTotal]:
    """The totals of tasks: the score of each repeat, None where it was not measured."""
    totals = []
    for task, scores in tasks.items():
        known = [score for score in scores if score is not None]
        mean = sum(known) / len(known) if known else None
        totals.append(TaskTotal(task, len(scores), len(known), mean))
    return totals


def compared(first: Runs, second: Runs) -> BatchComparison:
    return compare_batches(batch(first), batch(second))


TONIGHT: Runs = {"won": [1.0], "lost": [0.0], "same": [1.0], "dead": [None], "gone": [1.0],
                 "down": [1.0], "out": [None]}  # fmt: skip
LAST: Runs = {"won": [0.0], "lost": [1.0], "same": [1.0], "dead": [None], "new": [0.0],
              "down": [None], "out": [0.0]}  # fmt: skip


def test_each_task_is_fixed_broken_unchanged_or_unmeasured() -> None:
    told = compared(LAST, TONIGHT)
    assert {each.task: each.change.value for each in told.tasks} == {
        "lost": "broken", "won": "fixed", "same": "unchanged", "dead": "unmeasured_both",
        "down": "unmeasured_a", "out": "unmeasured_b", "new": "only_a", "gone": "only_b",
    }  # fmt: skip
    assert told.counts == dict.fromkeys(told.counts, 1)
    assert [each.task for each in told.tasks][:2] == ["lost", "won"], "what to look at comes first"


def test_the_difference_is_over_what_both_measured() -> None:
    told = compared(LAST, TONIGHT)
    assert (told.compared, told.score_a, told.score_b) == (3, 2 / 3, 2 / 3)
    assert told.difference == 0.0
    assert told.difference_ci == paired_interval([(1.0, 0.0), (0.0, 1.0), (1.0, 1.0)])


def test_a_false_zero_is_no_broken_task() -> None:
    told = compared({"t": [1.0]}, {"t": [None]})
    assert (told.counts["broken"], told.counts["unmeasured_b"]) == (0, 1)
    assert (told.compared, told.difference, told.difference_ci) == (0, None, None)


def test_each_task_weighs_the_same_however_often_it_was_repeated() -> None:
    told = compared({"s": [0.0], "t": [1.0] * 9}, {"s": [1.0] * 3, "t": [1.0]})
    assert (told.score_a, told.score_b, told.difference) == (0.5, 1.0, 0.5)


def test_means_that_differ_by_rounding_are_unchanged() -> None:
    told = compared({"t": [0.1, 0.2, 0.3]}, {"t": [0.3, 0.2, 0.1]})
    assert told.tasks[0].change.value == "unchanged"
