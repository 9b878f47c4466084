"""What a batch's score stands on: how much of it was measured, and what the rest could be.

It fills no gap with a guess: an unmeasured slot is left out, or counted at both extremes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from classifier.diagnostics import Diagnostic, kinds
from classifier.outcomes import Result
from classifier.verdicts import Health

# Where a runner puts the one number that counts, in order of preference.
_REWARD_NAMES = ("reward", "score", "resolved", "passed", "success", "accuracy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One place in a batch's denominator: a task's attempts, the oldest first."""

    name: str
    attempts: tuple[Result, ...]

    @property
    def counted(self) -> Result:
        """The attempt that counts: the first with a score, else the last.

        Never a later one, or running again until it passes would raise a score.
        """
        scored = (a for a in self.attempts if _score_of(a) is not None)
        return next(scored, self.attempts[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """The scores of a batch, over ``total`` slots.

    ``scoreable`` slots reached a model, ``coverage`` is their share, ``scored`` of them
    have a reward. ``score_all`` counts an unscored slot 0, ``score_effective`` leaves it
    out; ``score_worst`` and ``score_best`` count it 0 and 1. ``score_first`` looks at
    first attempts only, ``score_retried`` at slots that a later attempt fills.
    ``retried_after_score`` are slots that were run again although a score was there. A
    score over nothing is None.
    """

    total: int
    scoreable: int
    scored: int
    coverage: float | None
    score_all: float | None
    score_effective: float | None
    score_worst: float | None
    score_best: float | None
    score_first: float | None
    score_retried: float | None
    retried: int
    retried_after_score: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Whether a batch is a valid measurement, and one line for each thing against it."""

    valid: bool
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch summed up; the counts are of rollouts, every attempt included."""

    scores: Scores
    check: Check
    summaries: tuple[str, ...]
    health: dict[str, int]
    subcategory: dict[str, int]
    fingerprint: dict[str, int]
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    cost_usd: float | None
    pending: int = field(default=0)


def reward_of(result: Result) -> float | None:
    """The one number of a result; None when there is none, or several and no main one.

    Read by its name from ``rewards``, else from ``eval`` (true is 1, false is 0); a sole
    reward counts under any name.
    """
    rewards = result.rewards or {}
    for told in (rewards, result.eval or {}):
        named = (told.get(name) for name in _REWARD_NAMES)
        number = next((value for value in named if isinstance(value, int | float)), None)
        if number is not None:
            return float(number)
    return next(iter(rewards.values())) if len(rewards) == 1 else None


def slots(results: Iterable[Result]) -> list[Slot]:
    """The results as slots, in the order in which each slot was met first.

    Results of one task with different ``attempt`` numbers are attempts of one slot. A
    task that has the same number several times was sampled several times: the n-th of
    each number make the n-th slot. Without a task or a number a rollout is its own slot.
    """
    grouped: dict[tuple[str, int], list[Result]] = {}
    seen: Counter[tuple[str, int]] = Counter()
    for result in results:
        key = (f"\0{result.rollout_id}", 0)
        if result.task is not None and result.attempt is not None:
            number = (result.task, result.attempt)
            key = (result.task, seen[number])
            seen[number] += 1
        grouped.setdefault(key, []).append(result)
    return [_slot(attempts) for attempts in grouped.values()]


def _slot(attempts: list[Result]) -> Slot:
    first = attempts[0]
    ordered = sorted(attempts, key=lambda a: a.attempt or 0)
    return Slot(name=first.task or first.rollout_id, attempts=tuple(ordered))


def _score_of(result: Result) -> float | None:
    return reward_of(result) if result.scoreable == "yes" else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def scores(batch: Sequence[Slot]) -> Scores:
    """The scores of these slots; rewards are taken to lie between 0 and 1."""
    counted = [_score_of(slot.counted) for slot in batch]
    known = _known(counted)
    total, unscored = len(batch), len(batch) - len(known)
    scoreable = sum(slot.counted.scoreable == "yes" for slot in batch)
    retried = [slot for slot in batch if len(slot.attempts) > 1]
    filled = [slot.counted for slot in retried if slot.counted is not slot.attempts[0]]
    return Scores(
        total=total,
        scoreable=scoreable,
        scored=len(known),
        coverage=scoreable / total if total else None,
        score_all=_mean([*known, *[0.0] * unscored]),
        score_effective=_mean(known),
        score_worst=_mean([*known, *[0.0] * unscored]),
        score_best=_mean([*known, *[1.0] * unscored]),
        score_first=_mean(_known(_score_of(slot.attempts[0]) for slot in batch)),
        score_retried=_mean(_known(_score_of(result) for result in filled)),
        retried=len(retried),
        retried_after_score=tuple(slot.name for slot in retried if _scored_before(slot)),
    )


def _scored_before(slot: Slot) -> bool:
    return any(_score_of(attempt) is not None for attempt in slot.attempts[:-1])


def check(batch: Sequence[Slot]) -> Check:
    """One line for each slot that is no measurement, or a suspect or a picked one.

    A failed attempt that a later one made good is not held against the batch.
    """
    lines = [line for slot in batch for line in (*_found(slot.counted, slot.name), *_picked(slot))]
    return Check(valid=not lines, lines=tuple(lines))


def _found(result: Result, name: str) -> list[str]:
    return [diagnostic.check_line(name) for diagnostic in result.diagnostics] or _open(result, name)


def _open(result: Result, name: str) -> list[str]:
    if result.provisional:
        return [f"{name}: not finished: its runner has not reported, or calls are in flight"]
    if result.health is Health.HEALTHY and result.scoreable == "unknown":
        return [f"{name}: suspect measurement: no model is known to have answered"]
    return []


def _picked(slot: Slot) -> list[str]:
    if not _scored_before(slot):
        return []
    return [f"{slot.name}: run again although a score was there: only the first one counts"]


def _sum(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return sum(known) if known else None


def _tokens(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _tally(names: Iterable[str | None]) -> dict[str, int]:
    return dict(Counter(name for name in names if name is not None).most_common())


def _summaries(diagnostics: Iterable[Diagnostic]) -> tuple[str, ...]:
    had = Counter(type(diagnostic) for diagnostic in diagnostics)
    return tuple(kind.summary(had[kind]) for kind in kinds() if had[kind])


def summarize(results: Sequence[Result]) -> Batch:
    """A batch's counts, scores and check, from every result of every attempt in it."""
    batch = slots(results)
    return Batch(
        scores=scores(batch),
        check=check(batch),
        summaries=_summaries(d for result in results for d in result.diagnostics),
        health=_tally(result.health.value for result in results),
        subcategory=_tally(r.subcategory and r.subcategory.value for r in results),
        fingerprint=_tally(result.fingerprint for result in results),
        input_tokens=_tokens(result.input_tokens for result in results),
        output_tokens=_tokens(result.output_tokens for result in results),
        total_tokens=_tokens(result.total_tokens for result in results),
        cost_usd=_sum(result.cost_usd for result in results),
        pending=sum(result.provisional for result in results),
    )
