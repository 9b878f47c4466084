"""The counts of a batch's rollouts, from which all its figures follow.

A unit is the smallest set of rollouts that decide together what counts: the attempts at one
repeat of a task. Nearly all units are one rollout, and most of those are alike: what one of them
counts is multiplied by their number, and only their sums are added up. All sums are whole numbers,
the same in whatever order they are made.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple, TypeAlias, TypeVar

from classifier.batch_parts import part_count
from classifier.batches import (
    Entry,
    TaskRepeat,
    counted_with,
    excused,
    judged_of,
    last_reported,
    one_of,
    problems,
    repeat_of,
    scored_before,
    task_repeats,
    unanswered,
    unmeasured_by,
    zero_of,
)
from classifier.reruns import count_of, standing
from classifier.score_keys import keys_of
from classifier.verdicts import OWN_FAILURES, Health

UNIT = 2**68  # the whole number that stands for 1 in sums of scores, seconds and US dollars

Key = TypeVar("Key")
Counts: TypeAlias = Counter[str]  # by kind and name, `health:healthy`
_TALLIES = ("health", "subcategory", "fingerprint")
SUMS = ("input_tokens", "output_tokens", "total_tokens", "summed_calls", "tokens_known_calls",
        "cost_known_calls")  # fmt: skip
"""The whole numbers of an entry that are added up."""
FRACTIONS = ("cost_usd", "lost_s", "held_s")
"""Its other numbers that are added up, in units of 1 / `UNIT`."""
TAKEN = "taken"
"""The sum of the scores that were reported and do not count, likewise."""
_ZEROS = {(True, True): "excluded_zero", (True, False): "excluded_other",
          (False, True): "kept_zero", (False, False): "kept_other"}  # fmt: skip


class NoteKind(StrEnum):
    """The reason for which a batch's summary names a rollout."""

    PROBLEM = "problem"  # what counts of its slot is no measurement, or not finished
    PICKED = "picked"  # its slot was run again although it had a score
    INVALID = "invalid"  # it counts in spite of such a finding
    SUSPECT = "suspect"
    RETRY = "retry"  # it is to be run again, and was not yet


_COUNTED = (NoteKind.INVALID.value, NoteKind.SUSPECT.value)


class Note(NamedTuple):
    """A rollout that is named; ``at`` is when the first attempt of its slot began."""

    kind: NoteKind
    at: float
    rollout_id: str


class CountedRollout(NamedTuple):
    """A rollout as it is summed up.

    ``at`` is when it began, ``skipped`` whether it was not admitted, ``retry`` whether its verdict
    advises to run it again, ``servings`` how it was served, ``fallbacks`` the models its
    registration names beside the first. ``transient`` and ``cause`` are its failure's. An entry
    without health is not judged.
    """

    entry: Entry
    at: float
    skipped: bool = False
    retry: bool = False
    servings: str | None = None
    fallbacks: str | None = None
    transient: bool | None = None
    cause: str | None = None


@dataclass(slots=True, kw_only=True)
class TaskSums:
    """The judged repeats of one task, those kept and their sum, and the lanes of excluded ones."""

    repeats: int = 0
    kept: int = 0
    score: int = 0
    lanes: set[str] = field(default_factory=set)

    def add(self, other: TaskSums) -> None:
        """Add another's repeats."""
        self.repeats += other.repeats
        self.kept += other.kept
        self.score += other.score
        self.lanes |= other.lanes

    @property
    def shape(self) -> TaskProfile:
        """The task's numbers, in which it may be like others."""
        return TaskProfile(self.repeats, self.kept, self.score, tuple(sorted(self.lanes)))


class TaskProfile(NamedTuple):
    """Tasks alike: their repeats, how many are kept, the sum of those, the lanes of the others."""

    repeats: int
    kept: int
    score: int
    lanes: tuple[str, ...] = ()


Shapes: TypeAlias = Mapping[TaskProfile, int]


@dataclass(slots=True, kw_only=True)
class PartialTotals:
    """The contribution of some units to their batch: counts, notes, tasks, and ids by serving.

    ``single`` are the slots without a task, each like a task with one repeat.
    """

    counts: Counts = field(default_factory=Counter)
    notes: set[Note] = field(default_factory=set)
    tasks: dict[str, TaskSums] = field(default_factory=dict)
    single: Counter[TaskProfile] = field(default_factory=Counter)
    served: dict[str, set[str]] = field(default_factory=dict)


def add(to: Counter[Key], other: Mapping[Key, int], times: int = 1) -> None:
    """Add counts, or subtract them; none of 0 is kept."""
    for name, count in other.items():
        to[name] += times * count
        if not to[name]:
            del to[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlikeRollouts:
    """Rollouts that are units by themselves and count alike: how many, what one counts, sums.

    ``sums`` are over all of them, by the names of `SUMS`, `FRACTIONS` and `TAKEN`.
    """

    rollouts: int
    each: PartialTotals
    sums: Mapping[str, int]

    @property
    def counts(self) -> Counts:
        """The counts of all of them and their sums, but for their scores."""
        own = self.each.counts
        counts = Counter({name: n * self.rollouts for name, n in own.items() if not _is_sum(name)})
        for name in (*SUMS, *FRACTIONS):
            if f"known:{name}" in own:
                counts[f"sum:{name}"] = self.sums[name]
        counts["score:reported"] = self.sums.get(TAKEN, 0)
        return Counter({name: count for name, count in counts.items() if count})


def _is_sum(name: str) -> bool:
    return name.startswith(("sum:", "score:"))


def totals_of(alike: Iterable[AlikeRollouts], others: PartialTotals, *, score: int = 0) -> Counts:
    """Return the counts of a batch: of rollouts alike, and of those that were summed up singly.

    Arguments:
        score: the sum of the scores of those alike that count: each is its slot's first and last.
    """
    counts = Counter(others.counts)
    for each in alike:
        add(counts, each.counts)
    add(counts, {"score:scored": score, "score:first": score, "score:reported": score})
    return counts


def kind_of(alone: PartialTotals) -> int:
    """Return a number that rollouts have in common which count alike, each a unit by itself.

    Arguments:
        alone: `part_of` the one rollout.
    """
    counts = sorted(item for item in alone.counts.items() if not _is_sum(item[0]))
    notes = sorted(note.kind for note in alone.notes)
    lanes = sorted(lane for sums in alone.tasks.values() for lane in sums.lanes)
    facts = repr((counts, notes, lanes, sorted(alone.served)))
    return int.from_bytes(blake2b(facts.encode(), digest_size=8).digest()) >> 1


def whole(value: float | None) -> int | None:
    """Return a number in units of 1 / `UNIT`; None if it is unknown or no number."""
    if value is None or not math.isfinite(value):
        return None
    numerator, denominator = value.as_integer_ratio()
    size = abs(numerator) * UNIT // denominator  # cut, as both databases do
    return size if numerator > 0 else -size


def taken(entry: Entry) -> float | None:
    """Return the score that was reported of a rollout and does not count; None without one."""
    return None if entry.scoreable == "yes" or entry.provisional else entry.reward


def part_of(attempts: Sequence[CountedRollout]) -> PartialTotals:
    """Sum up whole units, given the oldest rollouts first."""
    part = PartialTotals()
    judged = [each for each in attempts if each.entry.health is not None]
    part.counts["rollouts"] = len(attempts)
    part.counts["skipped"] = sum(each.skipped for each in attempts)
    part.counts["running"] = sum(map(_runs, attempts))
    part.counts.update(f"verdict:{verdict_class(each)}" for each in attempts)
    part.counts.update(f"declared:{each.fallbacks}" for each in attempts if each.fallbacks)
    for each in judged:
        _add_judged(part, each)
    by_id = {each.entry.rollout_id: each for each in attempts}
    began = {name: each.at for name, each in by_id.items()}
    for slot in task_repeats(each.entry for each in attempts):
        _add_standing(part, slot, by_id)
        if (known := judged_of(slot)) is not None:
            _add_slot(part, known, began)
    retries = list(_to_retry(attempts))
    part.counts["retry"] = len(retries)
    part.notes.update(retries)
    part.counts = Counter({name: count for name, count in part.counts.items() if count})
    return part


SKIPPED, UNJUDGED = "skipped", "unjudged"


def verdict_class(attempt: CountedRollout) -> str:
    """Name the one class of verdicts that a rollout is in.

    ``skipped`` if it was not admitted and did not run, ``unjudged`` without a verdict yet,
    ``own_failures`` if no model answered by the agent's own doing, the cause of an API error, else
    its health.
    """
    entry = attempt.entry
    if attempt.skipped and entry.health in (None, Health.NOT_JUDGED.value):
        return SKIPPED
    if entry.health is None:
        return UNJUDGED
    if unanswered(entry):
        return OWN_FAILURES
    if entry.health == Health.API_ERROR.value:
        return entry.subcategory or Health.UNDECIDED.value
    return entry.health


def _runs(attempt: CountedRollout) -> bool:
    """Return True if a rollout has not ended: its verdict can change, or it has none yet."""
    judged = attempt.entry.health is not None
    return bool(attempt.entry.provisional) if judged else not attempt.skipped


def _add_standing(
    part: PartialTotals, slot: TaskRepeat, by_id: Mapping[str, CountedRollout]
) -> None:
    """Count a slot by its part of the batch, and one without a score by what is to be done."""
    part.counts[part_count(slot, skipped=by_id[slot.counted.rollout_id].skipped)] += 1
    if slot.counted.score is None:
        status = standing([by_id[entry.rollout_id] for entry in slot.attempts])
        part.counts[count_of(status)] += 1


def _add_judged(part: PartialTotals, attempt: CountedRollout) -> None:
    entry, counts = attempt.entry, part.counts
    counts["judged"] += 1
    counts["pending"] += bool(entry.provisional)
    for kind in _TALLIES:
        if (value := getattr(entry, kind)) is not None:
            counts[f"{kind}:{value}"] += 1
    if entry.validity is not None:
        level, *checks = entry.validity.split()
        counts[f"level:{level}"] += 1
        counts.update(f"check:{check}" for check in checks)
    counts["unearned"] += bool(entry.unearned)
    if entry.unnamed:
        counts[f"unnamed:{keys_of(entry.unnamed)}"] += 1
    counts.update(f"diagnostic:{each.field}" for each in entry.diagnostics)
    for name in SUMS:
        if (value := getattr(entry, name)) is not None:
            counts[f"known:{name}"] += 1
            counts[f"sum:{name}"] += value
    for name in FRACTIONS:
        if (value := whole(getattr(entry, name))) is not None:
            counts[f"known:{name}"] += 1
            counts[f"sum:{name}"] += value
    if attempt.servings is not None:
        part.served.setdefault(attempt.servings, set()).add(entry.rollout_id)


def _add_slot(part: PartialTotals, slot: TaskRepeat, began: Mapping[str, float]) -> None:
    counts, counted, first = part.counts, slot.counted, slot.attempts[0]
    counts["slots"] += 1
    counts["scoreable"] += counted.scoreable == "yes"
    counts["excused"] += excused(slot)
    retried = len(slot.attempts) > 1
    for name, entry in (("scored", counted), ("first", first)):
        _add_score(counts, name, entry)
    if retried:
        counts["retried"] += 1
        if counted is not first:
            _add_score(counts, "filled", counted)
    at = min(began[each.rollout_id] for each in slot.attempts)
    if lines := len(problems(counted, slot.name)):
        counts["lines"] += lines
        part.notes.add(Note(NoteKind.PROBLEM, at, counted.rollout_id))
    if scored_before(slot):
        counts["lines"] += 1
        counts["picked"] += 1
        part.notes.add(Note(NoteKind.PICKED, at, counted.rollout_id))
    for kind, shown in (("zero", zero_of(slot)), ("one", one_of(slot))):
        if shown is not None:
            counts[f"reported_{kind}s"] += 1
            if shown.scoreable != "yes":
                counts[f"unmeasured_{kind}:{unmeasured_by(shown)}"] += 1
    if (reported := whole(last_reported(slot))) is not None:
        counts["reported"] += 1
        counts["score:reported"] += reported
    if (level := counted_with(slot)) in _COUNTED:
        counts[f"counted:{level}"] += 1
        part.notes.add(Note(NoteKind(level), at, counted.rollout_id))
    _add_repeat(part, slot)


def _add_score(counts: Counts, name: str, entry: Entry) -> None:
    score = whole(entry.score)
    if score is not None:
        counts[name] += 1
        counts[f"score:{name}"] += score


def _add_repeat(part: PartialTotals, slot: TaskRepeat) -> None:
    score, repeat = whole(slot.counted.score), repeat_of(slot)
    if score is not None:
        part.counts["other_scores"] += score not in (0, UNIT)
        part.counts["beyond"] += not 0 <= score <= UNIT
    if repeat is None:
        part.single[TaskProfile(1, int(score is not None), score or 0)] += 1
        return
    lanes = {repeat.lane or ""} if repeat.excluded else set()
    one = TaskSums(repeats=1, kept=score is not None, score=score or 0, lanes=lanes)
    part.tasks.setdefault(repeat.task, TaskSums()).add(one)
    part.counts["excluded"] += repeat.excluded
    if repeat.known is not None:
        part.counts[f"zeros:{_ZEROS[repeat.excluded, repeat.known == 0]}"] += 1


def _to_retry(attempts: Sequence[CountedRollout]) -> Iterator[Note]:
    """Yield transient failures without a later attempt."""
    latest: dict[tuple[str, int | None], int] = {}
    for each in attempts:
        if (sample := sample_of(each.entry)) is not None:
            latest[sample] = max(latest.get(sample, 0), each.entry.attempt or 0)
    for each in attempts:
        sample = sample_of(each.entry)
        if each.retry and (sample is None or (each.entry.attempt or 0) == latest[sample]):
            yield Note(NoteKind.RETRY, each.at, each.entry.rollout_id)


def sample_of(entry: Entry) -> tuple[str, int | None] | None:
    """Return the unit of a rollout: its task and repeat; None if it is one by itself."""
    if entry.task is None or (entry.repeat is None and entry.attempt is None):
        return None
    return entry.task, entry.repeat
