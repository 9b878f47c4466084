"""A batch counted from its rollouts one by one, as the store counts their rows in groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import merge
from typing import NamedTuple, TypeAlias

from classifier.batch_summary import (
    Named,
    NamedSlots,
    ScoredBatch,
    declared_in,
    exclusion_in,
    summary_of,
)
from classifier.batches import Entry, counted_check, picked, problems, slot_name
from classifier.repeat_counts import (
    CountedRollout,
    Counts,
    Note,
    NoteKind,
    PartialTotals,
    Shapes,
    part_of,
)
from classifier.reruns import NEVER_STARTED
from classifier.validity.serving import (
    BatchFinding,
    ServingGroup,
    Way,
    compare_ways,
    read_servings,
)

_LINES = 100  # of a check
_RETRIES = 100  # rollouts to run again
EXAMPLES = 10  # ids that are named of rollouts served alike
_COUNTED = 10  # slots named in one line
_SERVINGS = 1000  # ways of being served that are compared, the most frequent ones
MOST: dict[NoteKind, int] = {
    NoteKind.PROBLEM: _LINES,
    NoteKind.PICKED: _LINES,
    NoteKind.INVALID: _COUNTED,
    NoteKind.SUSPECT: _COUNTED,
    NoteKind.RETRY: _RETRIES,
}
"""The number of rollouts that a summary names at most, by the reason for it."""


class ServedAlike(NamedTuple):
    """Rollouts served alike: how (JSON text), how many, and ids of the first of them."""

    servings: str
    rollouts: int
    examples: Sequence[str]


class RegisteredModels(NamedTuple):
    """The facts that a registration names of its models and its agent; None if it does not."""

    model: str | None
    fallbacks: tuple[str, ...] = ()
    agents: str | None = None


class AnsweringModel(NamedTuple):
    """A model that was asked for, the model that answered, and where; None is unknown."""

    upstream: str | None
    asked: str | None
    answered: str | None
    served_by: str | None


Answering: TypeAlias = Mapping[AnsweringModel, int]  # rollouts with such an answer


class PlannedRepeat(NamedTuple):
    """A repeat of a task, by its number, and how many its registration says there are to be."""

    task: str
    repeat: int
    repeats: int


class WholeBatch(NamedTuple):
    """The counts of a batch, and the first of what its summary names."""

    counts: Counts
    shapes: Shapes
    named: Named
    across: Sequence[BatchFinding]
    answering: Answering

    def summary(
        self,
        *,
        reward_range: tuple[float, float] | None = None,
        score_key: str | None = None,
    ) -> ScoredBatch:
        """Summarise the batch.

        Arguments:
            reward_range: the least and the greatest reward, as registered.
            score_key: the key of the score, as registered.
        """
        excluded = exclusion_in(self.counts, self.shapes)
        counted = self.counts, self.shapes, self.named, excluded, self.across
        return summary_of(*counted, reward_range=reward_range, score_key=score_key)


def whole_batch(
    rollouts: Iterable[CountedRollout], planned: Iterable[PlannedRepeat] = ()
) -> WholeBatch:
    """Count a batch from all its rollouts, given in any order."""
    oldest_first = sorted(rollouts, key=lambda each: (each.at, each.entry.rollout_id))
    part = part_of(oldest_first)
    if lacking := _never_started(planned):
        part.counts[NEVER_STARTED] = lacking
    entries = {each.entry.rollout_id: each.entry for each in oldest_first}
    notes = sorted(part.notes, key=_age)
    first = {kind: [note for note in notes if note.kind is kind][:n] for kind, n in MOST.items()}
    return WholeBatch(
        counts=part.counts,
        shapes=_shapes(part),
        named=named_of(first, entries, part.counts),
        across=compare_served(_served(part), declared_in(part.counts)),
        answering=answering_models((text, len(ids)) for text, ids in part.served.items()),
    )


def _never_started(planned: Iterable[PlannedRepeat]) -> int:
    """Count the repeats that tasks were registered for and do not have."""
    begun: dict[str, set[int]] = {}
    wanted: dict[str, int] = {}
    for task, repeat, repeats in planned:
        begun.setdefault(task, set()).add(repeat)
        wanted[task] = max(repeats, wanted.get(task, 0))
    return sum(max(0, most - len(begun[task])) for task, most in wanted.items())


def _age(note: Note) -> tuple[float, str]:
    return note.at, note.rollout_id


def _shapes(part: PartialTotals) -> Shapes:
    return part.single + Counter(sums.shape for sums in part.tasks.values())


def _served(part: PartialTotals) -> list[ServedAlike]:
    alike = ((text, len(ids), sorted(ids)[:EXAMPLES]) for text, ids in part.served.items())
    return [ServedAlike(*each) for each in sorted(alike, key=lambda each: (-each[1], each[0]))]


def compare_served(served: Sequence[ServedAlike], declared: Sequence[str]) -> list[BatchFinding]:
    """Compare how the rollouts of a batch were served.

    Arguments:
        served: the most frequent way first.
        declared: models that registrations name beside the one under test.
    """
    if len(served) < 2:  # nothing differs between them
        return []
    ways: dict[Way, list[ServingGroup]] = {}
    for text, rollouts, examples in served[:_SERVINGS]:
        for way in read_servings(text):
            ways.setdefault(way, []).append(ServingGroup(rollouts, tuple(examples)))
    return compare_ways(ways, declared=declared)


def answering_models(served: Iterable[tuple[str, int]]) -> Answering:
    """Count rollouts by the models that answered them; one may have had several.

    Arguments:
        served: how rollouts were served (JSON text), and how many.
    """
    answering: Counter[AnsweringModel] = Counter()
    for text, rollouts in served:
        for model in {AnsweringModel(*way[:4]) for way in read_servings(text)}:
            answering[model] += rollouts
    return answering


def named_of(
    first: Mapping[NoteKind, Sequence[Note]], entries: Mapping[str, Entry], counts: Counts
) -> Named:
    """Return what a summary names.

    Arguments:
        first: the first notes of each kind, the oldest first.
        entries: those of the rollouts that are named, by their ids.
    """
    lines: list[str] = []
    for note in merge(first[NoteKind.PROBLEM], first[NoteKind.PICKED], key=_age):
        entry = entries[note.rollout_id]
        if note.kind is NoteKind.PICKED:
            lines.append(picked(slot_name(entry)))
        else:
            lines += problems(entry, slot_name(entry))
    return Named(
        lines=lines[: MOST[NoteKind.PROBLEM]],
        picked=[slot_name(entries[note.rollout_id]) for note in first[NoteKind.PICKED]],
        counted={
            kind.value: NamedSlots(
                [counted_check(entries[note.rollout_id]) for note in first[kind]],
                counts[f"counted:{kind}"],
            )
            for kind in (NoteKind.INVALID, NoteKind.SUSPECT)
            if first[kind]
        },
    )
