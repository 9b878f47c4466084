"""The place of a rollout in its task if its registration leaves it open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from classifier.batches import by_repeat


class TryState(Enum):
    """The state of a rollout, as far as it decides whether its repeat is to be tried again."""

    RUNNING = auto()
    MEASURED = auto()
    UNMEASURED = auto()  # it ended, was given up or was not admitted


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


class Numbers(NamedTuple):
    """Numbers of a task's repeats that follow one another, and if they were ``planned``.

    They are, if they were registered with how many repeats the task is to have.
    """

    of: range
    planned: bool


@dataclass(slots=True, kw_only=True)
class TaskTries:
    """The rollouts of a task, as far as they decide the place of the next one.

    ``tries``, the oldest first, are those that may be tried again, with all tries at their repeats,
    and all that have an attempt and no repeat. ``numbers`` are those of all repeats, and ``held``
    is how many rollouts without any number run or are measured. A task has thousands.
    """

    tries: list[Try] = field(default_factory=list)
    numbers: list[Numbers] = field(default_factory=list)
    held: int = 0

    def free(self, least: int) -> int:
        """Return the least number from ``least`` on that no repeat has."""
        here = {each.repeat for each in self.tries}
        while True:
            taken = next((each.of for each in self.numbers if least in each.of), None)
            if taken is None and least not in here:
                return least
            least = least + 1 if taken is None else taken.stop

    @property
    def begun(self) -> int:
        """The number of repeats that were begun, planned or not."""
        slots = by_repeat(self.tries)
        here = {each.repeat for each in self.tries if each.repeat is not None}
        apart = sum(not any(one in each.of for each in self.numbers) for one in here)
        unnumbered = self.held + sum(slot[0].repeat is None for slot in slots)
        return unnumbered + sum(len(each.of) for each in self.numbers) + apart

    @property
    def planned(self) -> int:
        """The number of repeats that were planned, and begun."""
        known = [each.of for each in self.numbers if each.planned]
        here = {each.repeat for each in self.tries if None not in (each.repeat, each.repeats)}
        return sum(map(len, known)) + sum(not any(one in of for of in known) for one in here)


def next_try(task: TaskTries, repeats: int | None = None) -> NextTry | None:
    """Return the place of a rollout whose registration names no repeat and no attempt.

    It is the next attempt at the oldest repeat that ended unmeasured, else a new repeat. The first
    rollout of a task has no numbers, as most tasks are run once.

    Arguments:
        repeats: how many the task is to have, as the registration states. Each of them is begun
            once before any is tried again. None is open once all are measured or running.
    """
    slots, begun = by_repeat(task.tries), task.begun
    if not begun and repeats in (None, 1):
        return NextTry(TaskPlace())
    if repeats is not None and task.planned < repeats and (task.planned or begun < repeats):
        return NextTry(TaskPlace(task.free(0), 0))
    unmeasured = [slot for slot in slots if all(each.state is TryState.UNMEASURED for each in slot)]
    for tried in unmeasured:
        again = _again(task, tried, [slot for slot in slots if slot is not tried])
        if again is not None:
            return again
    if repeats is not None and not unmeasured:
        return None
    return NextTry(TaskPlace(_new_repeat(task, slots), 0))


def _again(
    task: TaskTries, tried: Sequence[Try], others: Sequence[Sequence[Try]]
) -> NextTry | None:
    """Return the next try at a repeat; None if no numbers would make it one."""
    first = tried[0]
    if first.repeat is None and first.attempt is None:
        repeat = _new_repeat(task, others) if any(map(_is_sample, others)) else None
        return NextTry(TaskPlace(repeat, 1), first.rollout_id, TaskPlace(repeat, 0))
    attempt = 1 + max(each.attempt or 0 for each in tried)
    if first.repeat is None and any(map(_is_sample, others)):
        return None  # which of several a number belongs to follows from all of them
    return NextTry(TaskPlace(first.repeat, attempt))


def _is_sample(slot: Sequence[Try]) -> bool:
    """Return True if a repeat is told from others by its attempts' numbers alone."""
    return slot[0].repeat is None and slot[0].attempt is not None


def _new_repeat(task: TaskTries, slots: Iterable[Sequence[Try]]) -> int:
    """Return the number of a new repeat: those without one come before it."""
    return task.free(task.held + sum(slot[0].repeat is None for slot in slots))
