"""Two batches side by side: what changed, and what was measured in both."""

from __future__ import annotations

from classifier.batches import Entry, TaskRepeat, task_repeats
from classifier.groups import BatchComparison, compare_batches
from classifier.statistics import paired_interval

Runs = dict[str, list[float | None]]


def batch(name: str, tasks: Runs) -> list[TaskRepeat]:
    """The slots of a batch by task: the score of each repeat, None where it was not measured."""
    return task_repeats(
        entry(f"{name}.{task}.{repeat}", task, repeat, score)
        for task, scores in tasks.items()
        for repeat, score in enumerate(scores)
    )


def entry(name: str, task: str | None, repeat: int | None, score: float | None) -> Entry:
    return Entry(
        rollout_id=name, task=task, repeat=repeat, attempt=0,
        health="healthy" if score is not None else "api_error", subcategory=None,
        fingerprint=None, scoreable="no" if score is None else "yes", provisional=False,
        reward=0.0 if score is None else score, input_tokens=None, output_tokens=None,
        total_tokens=None, cost_usd=None,
    )  # fmt: skip


def compared(first: Runs, second: Runs) -> BatchComparison:
    return compare_batches(batch("a", first), batch("b", second))


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


def test_a_task_is_the_mean_of_its_measured_repeats() -> None:
    told = compared({"t": [1.0, 0.0, None]}, {"t": [None, 1.0, 1.0, 1.0]})
    (task,) = told.tasks
    assert (task.a.score, task.a.measured, task.a.repeats) == (0.5, 2, 3)
    assert (task.b.score, task.b.measured, task.b.repeats) == (1.0, 3, 4)
    assert (task.difference, task.change.value) == (0.5, "fixed")
    assert task.a.rollout_ids == ("a.t.0", "a.t.1", "a.t.2")


def test_each_task_weighs_the_same_however_often_it_was_repeated() -> None:
    told = compared({"s": [0.0], "t": [1.0] * 9}, {"s": [1.0] * 3, "t": [1.0]})
    assert (told.score_a, told.score_b, told.difference) == (0.5, 1.0, 0.5)


def test_means_that_differ_by_rounding_are_unchanged() -> None:
    told = compared({"t": [0.1, 0.2, 0.3]}, {"t": [0.3, 0.2, 0.1]})
    assert told.tasks[0].change.value == "unchanged"


def test_rollouts_without_a_task_compare_with_nothing() -> None:
    nameless = task_repeats([entry("r1", None, None, 1.0), entry("r2", None, None, 0.0)])
    told = compare_batches(nameless, batch("b", {"t": [1.0]}))
    assert (told.without_task, [each.task for each in told.tasks]) == (2, ["t"])


def test_of_attempts_the_one_that_counts_is_compared() -> None:
    tried = [entry("r1", "t", 0, None), entry("r2", "t", 0, 1.0)._replace(attempt=1)]
    told = compare_batches(task_repeats(tried), batch("b", {"t": [1.0]}))
    assert told.tasks[0].a.rollout_ids == ("r2",)
    assert told.counts["unchanged"] == 1
