"""The repeat and attempt of a rollout whose registration names neither."""

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


@dataclass(slots=True, kw_only=True)
class TaskTries:
    """The rollouts of a task, as far as they decide the place of the next one.

    ``tries``, the oldest first, are those that may be tried again, with all tries at their repeats,
    and all that have an attempt and no repeat. Of the others, of which a task has thousands, there
    are numbers: ``next_repeat`` is above that of each repeat, ``numbered`` how many repeats have a
    number, ``planned`` those of them that were registered with how many the task is to have, and
    ``held`` how many rollouts without any number run or are measured.
    """

    tries: list[Try] = field(default_factory=list)
    next_repeat: int = 0
    numbered: int = 0
    planned: int = 0
    held: int = 0

    def begin(self, each: Try) -> None:
        """Add a rollout that is registered now."""
        if each.repeat is not None:
            known = each.attempt or any(one.repeat == each.repeat for one in self.tries)
            self.numbered += not known
            self.planned += not known and each.repeats is not None
            self.next_repeat = max(self.next_repeat, each.repeat + 1)
        self.tries.append(each)


def next_try(task: TaskTries, repeats: int | None = None) -> NextTry | None:
    """Return the place of a rollout whose registration names no repeat and no attempt.

    It is the next attempt at the oldest repeat that ended unmeasured, else a new repeat. The first
    rollout of a task has no numbers, as most tasks are run once.

    Arguments:
        repeats: how many the task is to have, as the registration states. Each of them is begun
            once before any is tried again. None is open once all are measured or running.
    """
    slots = by_repeat(task.tries)
    begun = task.numbered + _unnumbered(task, slots)
    if not begun and repeats in (None, 1):
        return NextTry(TaskPlace())
    if repeats is not None and task.planned < repeats and (task.planned or begun < repeats):
        return NextTry(TaskPlace(task.next_repeat, 0))
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
    return max(task.next_repeat, _unnumbered(task, slots))


def _unnumbered(task: TaskTries, slots: Iterable[Sequence[Try]]) -> int:
    return task.held + sum(slot[0].repeat is None for slot in slots)
