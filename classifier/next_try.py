"""The place of a rollout in its task if its registration leaves it open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from itertools import count
from typing import NamedTuple

from classifier.batches import by_repeat


class TryState(Enum):
    """The state of a rollout, as far as it decides whether its repeat is to be tried again."""

    RUNNING = auto()
    MEASURED = auto()
    UNMEASURED = auto()  # it ended, or was not admitted


class Try(NamedTuple):
    """A rollout of a task; ``repeats`` is how many the task is to have, as it was registered."""

    rollout_id: str
    task: str
    repeat: int | None
    attempt: int | None
    repeats: int | None
    state: TryState


class TaskPlace(NamedTuple):
    """The numbers of a rollout in its task, both from 0; None is none."""

    repeat: int | None = None
    attempt: int | None = None


class NextTry(NamedTuple):
    """The place of a rollout; an ``earlier`` one without numbers takes ``earlier_place``."""

    place: TaskPlace
    earlier: str | None = None
    earlier_place: TaskPlace = TaskPlace()


def next_try(tries: Sequence[Try], repeats: int | None = None) -> NextTry:
    """Return the place of a rollout whose registration names no repeat and no attempt.

    It is the next attempt at the oldest repeat that ended unmeasured, else a new repeat. The first
    rollout of a task has no numbers, as most tasks are run once.

    Arguments:
        tries: the task's rollouts, the oldest first.
        repeats: how many the task is to have, as the registration states. Each of them is begun
            once before any is tried again.
    """
    slots = by_repeat(tries)
    planned = {each.repeat for each in tries if None not in (each.repeat, each.repeats)}
    if repeats is not None and len(planned) < repeats:
        return NextTry(TaskPlace(_free(tries, 0), 0))
    if not slots:
        return NextTry(TaskPlace())
    for tried in slots:
        if all(each.state is TryState.UNMEASURED for each in tried):
            again = _again(tried, [slot for slot in slots if slot is not tried])
            if again is not None:
                return again
    return NextTry(TaskPlace(_new_repeat(slots), 0))


def _again(tried: Sequence[Try], others: Sequence[Sequence[Try]]) -> NextTry | None:
    """Return the next try at a repeat; None if no numbers would make it one."""
    first = tried[0]
    if first.repeat is None and first.attempt is None:
        repeat = _new_repeat(others) if any(map(_is_sample, others)) else None
        return NextTry(TaskPlace(repeat, 1), first.rollout_id, TaskPlace(repeat, 0))
    attempt = 1 + max(each.attempt or 0 for each in tried)
    if first.repeat is None and any(map(_is_sample, others)):
        return None  # which of several a number belongs to follows from all of them
    return NextTry(TaskPlace(first.repeat, attempt))


def _is_sample(slot: Sequence[Try]) -> bool:
    """Return True if a repeat is told from others by its attempts' numbers alone."""
    return slot[0].repeat is None and slot[0].attempt is not None


def _new_repeat(slots: Sequence[Sequence[Try]]) -> int:
    """Return the number of a new repeat: those without one come before it."""
    tries = [each for slot in slots for each in slot]
    return _free(tries, sum(slot[0].repeat is None for slot in slots))


def _free(tries: Iterable[Try], least: int) -> int:
    taken = {each.repeat for each in tries}
    return next(number for number in count(least) if number not in taken)
