"""The parts of a batch: each planned repeat is in exactly one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from classifier.batches import TaskRepeat, own_failures, unmeasured_by
from classifier.reruns import NEVER_STARTED

_COUNTED = "part"  # of a batch's counts: `part:not_measured:auth`


class Part(StrEnum):
    """The part of its batch in which a repeat is that was registered."""

    MEASURED = "measured"  # a model answered, and its score counts
    OWN_FAILURES = "own_failures"  # no model answered by the agent's own doing, and it counts
    NOT_MEASURED = "not_measured"  # its verdict does not let a score count, by cause
    NOT_SCORED = "not_scored"  # a score would count, and there is none, by reason
    SKIPPED = "skipped"  # an open breaker did not admit it
    RUNNING = "running"


NO_REWARD = "no_reward"  # none was reported
OTHER_KEYS = "score_key"  # rewards were, and none of them is known to be the score


def part_count(slot: TaskRepeat, *, skipped: bool) -> str:
    """Return the name of the count, among those of a batch, that a repeat is in.

    Arguments:
        skipped: whether its last attempt was not admitted.
    """
    entry = slot.counted
    if entry.score is not None:
        return _name(Part.OWN_FAILURES if own_failures(entry) else Part.MEASURED)
    if skipped:
        return _name(Part.SKIPPED)
    if entry.health is None or entry.provisional:
        return _name(Part.RUNNING)
    if entry.scoreable == "yes":
        return _name(Part.NOT_SCORED, OTHER_KEYS if entry.unnamed else NO_REWARD)
    return _name(Part.NOT_MEASURED, unmeasured_by(entry))


def _name(part: Part, why: str = "") -> str:
    return f"{_COUNTED}:{part}:{why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchParts:
    """The planned repeats of a batch: how many are in each part, the most frequent cause first.

    Planned are as many repeats of a task as it was registered for, else those that it has; a
    rollout without a task is one.
    """

    measured: int = 0
    own_failures: int = 0
    not_measured: dict[str, int] = field(default_factory=dict)
    not_scored: dict[str, int] = field(default_factory=dict)
    skipped: int = 0
    running: int = 0
    never_started: int = 0

    @property
    def planned(self) -> int:
        """The sum of all parts."""
        apart = sum(self.not_measured.values()) + sum(self.not_scored.values())
        return self.counted + apart + self.skipped + self.running + self.never_started

    @property
    def tried(self) -> int:
        """The repeats that were begun and admitted."""
        return self.planned - self.skipped - self.never_started

    @property
    def counted(self) -> int:
        """The repeats whose score counts."""
        return self.measured + self.own_failures


def parts_of(counts: Mapping[str, int]) -> BatchParts:
    """Return the parts of a batch, from its counts."""
    by_part: dict[str, dict[str, int]] = {part: {} for part in Part}
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    for name, count in ordered:
        if name.startswith(f"{_COUNTED}:"):
            _, part, why = name.split(":", 2)
            by_part[part][why] = count
    return BatchParts(
        measured=by_part[Part.MEASURED].get("", 0),
        own_failures=by_part[Part.OWN_FAILURES].get("", 0),
        not_measured=by_part[Part.NOT_MEASURED],
        not_scored=by_part[Part.NOT_SCORED],
        skipped=by_part[Part.SKIPPED].get("", 0),
        running=by_part[Part.RUNNING].get("", 0),
        never_started=counts.get(NEVER_STARTED, 0),
    )
