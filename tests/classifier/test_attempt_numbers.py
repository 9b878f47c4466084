"""Which try a rollout is whose registration names neither repeat nor attempt."""

from __future__ import annotations

from classifier.attempt_numbers import NextTry, TaskTries, Try, TryState, next_try
from classifier.attempt_numbers import TaskPlace as Place
from tests.tables import each

RUNS, COUNTS, FAILED = TryState.RUNNING, TryState.MEASURED, TryState.UNMEASURED


def tried(
    *placed: tuple[int | None, int | None, TryState], repeats: int | None = None
) -> TaskTries:
    """All rollouts of a task one by one, as one transaction adds them."""
    task = TaskTries()
    for number, (repeat, attempt, state) in enumerate(placed):
        task.begin(Try(f"r{number}", "t", repeat, attempt, repeats, state))
    return task


def test_the_first_rollout_of_a_task_has_no_numbers() -> None:
    assert next_try(TaskTries()) == NextTry(Place())


def test_after_one_that_ended_unmeasured_comes_its_next_attempt() -> None:
    assert next_try(tried((None, None, FAILED))) == NextTry(Place(None, 1), "r0", Place(None, 0))
    again = tried((None, 0, FAILED), (None, 1, FAILED))
    assert next_try(again) == NextTry(Place(None, 2))
    assert next_try(tried((3, None, FAILED))) == NextTry(Place(3, 1))


@each("state", [RUNS, COUNTS])
def test_a_repeat_that_is_measured_or_running_is_followed_by_a_new_one(state: TryState) -> None:
    assert next_try(tried((None, None, state))) == NextTry(Place(1, 0))
    assert next_try(tried((None, 0, FAILED), (None, 1, state))) == NextTry(Place(1, 0))
    assert next_try(tried((None, None, COUNTS), (1, 0, state))) == NextTry(Place(2, 0))
    assert next_try(tried((0, 0, COUNTS), (1, 0, state))) == NextTry(Place(2, 0))


def test_the_oldest_repeat_without_a_measurement_goes_first() -> None:
    several = tried((None, None, COUNTS), (1, 0, FAILED), (2, 0, FAILED), (3, 0, RUNS))
    assert next_try(several) == NextTry(Place(1, 1))


def test_several_rollouts_without_numbers_are_told_apart() -> None:
    """A service before this rule gave none to any of them."""
    before = tried((None, None, COUNTS), (None, None, FAILED))
    assert next_try(before) == NextTry(Place(None, 1), "r1", Place(None, 0))
    again = tried((None, None, FAILED), (None, 0, FAILED), (None, 1, COUNTS))
    assert next_try(again) == NextTry(Place(1, 1), "r0", Place(1, 0))


def test_repeats_told_by_their_attempts_alone_are_not_mixed_up() -> None:
    two = tried((None, 0, COUNTS), (None, 0, FAILED))
    assert next_try(two) == NextTry(Place(2, 0)), "attempt 1 would be one at the first"


def test_each_planned_repeat_is_begun_before_any_is_tried_again() -> None:
    assert next_try(TaskTries(), 2) == NextTry(Place(0, 0))
    first = tried((0, 0, FAILED), repeats=2)
    assert next_try(first, 2) == NextTry(Place(1, 0))
    both = tried((0, 0, FAILED), (1, 0, FAILED), repeats=2)
    assert next_try(both, 2) == NextTry(Place(0, 1))
    one = tried((None, None, COUNTS))
    assert next_try(one, 2) == NextTry(Place(0, 0)), "the one was not planned"


@each("state", [RUNS, COUNTS])
def test_no_place_is_left_once_all_repeats_are_measured_or_running(state: TryState) -> None:
    filled = tried((0, 0, state), (1, 0, COUNTS), repeats=2)
    assert next_try(filled, 2) is None
    assert next_try(filled, 1) is None
    assert next_try(filled) == NextTry(Place(2, 0)), "a loop that does not say how many samples"
    unplanned = tried((None, None, state), (1, 0, COUNTS))
    assert next_try(unplanned, 2) is None
    assert next_try(TaskTries(next_repeat=5000, numbered=4999, held=1), 2) is None


def test_a_task_that_is_run_once_has_no_numbers_and_is_tried_until_it_is_measured() -> None:
    assert next_try(TaskTries(), 1) == NextTry(Place())
    failed = tried((None, None, FAILED), repeats=1)
    assert next_try(failed, 1) == NextTry(Place(None, 1), "r0", Place(None, 0))
    assert next_try(tried((None, 0, FAILED), (None, 1, COUNTS), repeats=1), 1) is None
    assert next_try(TaskTries(held=1), 1) is None


def test_repeats_that_are_not_tried_again_are_known_by_their_numbers_alone() -> None:
    many = TaskTries(next_repeat=5000, numbered=4999, held=1)
    assert next_try(many) == NextTry(Place(5000, 0))
    many.tries = tried((4999, 0, FAILED), (7, 0, RUNS)).tries
    assert next_try(many) == NextTry(Place(4999, 1))
    planned = TaskTries(next_repeat=9, numbered=8, planned=8)
    assert next_try(planned, 9) == NextTry(Place(9, 0))
    planned.begin(Try("again", "t", 8, 1, 9, RUNS))
    assert planned.planned == 8, "a further attempt begins no repeat"
    planned.begin(Try("new", "t", 11, None, 9, RUNS))
    assert (planned.planned, next_try(planned)) == (9, NextTry(Place(12, 0)))
