"""Count a batch: slots of attempts, their scores, and what is wrong with them.

No gap is filled with a guess: an unmeasured slot is left out, or counted at both extremes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeVar

from classifier.diagnostics import Diagnostic, OwnFailureInfo
from classifier.fingerprints import Lane
from classifier.results import Result, takes_rewards
from classifier.score_keys import ReportedScore, reported_score
from classifier.statistics import Interval, PassAt, Repeat
from classifier.verdicts import Health, ValidityFinding, is_unearned


class Entry(NamedTuple):
    """The contribution of one rollout to its batch, each attempt separately.

    ``health``, ``subcategory`` and ``fingerprint`` are their names as stored (no health:
    not judged yet), ``reward`` is the score that the runner reported, also where the verdict
    removes it and that is known; ``unnamed`` are its rewards by key, if none of them is the score.
    ``validity`` is what was found, as `validity_names` writes it;
    ``summed_calls`` are the calls that the sums are about, of which ``tokens_known_calls`` and
    ``cost_known_calls`` are in them. A tuple, because a summary reads thousands from rows.
    """

    rollout_id: str
    task: str | None
    repeat: int | None
    attempt: int | None
    health: str | None
    subcategory: str | None
    fingerprint: str | None
    scoreable: str
    provisional: bool
    reward: float | None
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    cost_usd: float | None
    lane: str | None = None
    validity: str | None = None
    summed_calls: int | None = None
    tokens_known_calls: int | None = None
    cost_known_calls: int | None = None
    lost_s: float | None = None
    held_s: float | None = None
    unearned: bool | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    sentence: str | None = None
    unnamed: tuple[tuple[str, float], ...] = ()

    @property
    def score(self) -> float | None:
        """The reward, if it counts."""
        return self.reward if self.scoreable == "yes" else None

    @classmethod
    def of(cls, result: Result, score_key: str | None = None) -> Entry:
        """Make the entry of a result.

        Arguments:
            score_key: as its batch was registered.
        """
        reported = score_in(result, score_key)
        return cls(
            rollout_id=result.rollout_id,
            task=result.task,
            repeat=result.repeat,
            attempt=result.attempt,
            health=result.health.value,
            subcategory=result.subcategory and result.subcategory.value,
            fingerprint=result.fingerprint,
            scoreable=result.scoreable,
            provisional=result.provisional,
            reward=reported.score,
            input_tokens=result.input_tokens,
            output_tokens=result.output_tokens,
            total_tokens=result.total_tokens,
            cost_usd=result.cost_usd,
            validity=validity_names(result.validity),
            unearned=is_unearned(result.validity) or None,
            diagnostics=result.diagnostics,
            sentence=result.sentence,
            unnamed=reported.unnamed,
        )


class TaskRepeat(NamedTuple):
    """One unit of a batch's denominator: the attempts at one repeat of a task, the oldest first.

    ``counted`` is the attempt that counts: the first with a score, else the last. Never a
    later one, or retrying until a task passes would raise the score.
    """

    name: str
    attempts: tuple[Entry, ...]
    counted: Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """The scores of a batch, over ``total`` slots.

    The verdict of ``scoreable`` slots lets a score count, ``scored`` of them have one, and
    ``coverage`` is their share of all. ``score_all`` counts an unscored slot 0,
    ``score_effective`` leaves it out. ``score_reported`` is the mean of the last reward that was
    reported of each slot, over those that have one: what a harness would print without truezero.
    ``score_worst`` and ``score_best`` count it the least and the greatest reward, 0 and 1
    unless a range was registered; None if a reward lies outside. ``score_first`` looks at
    first attempts only, ``score_retried`` at slots that a later attempt fills.
    ``retried_after_score`` are slots that were retried although they had a score. A
    score over no slots is None. ``score_ci`` is the 95 % interval of ``score_effective`` over
    tasks, ``pass_at`` the chance that one of k repeats of a task passes.
    """

    total: int
    scoreable: int
    scored: int
    coverage: float | None
    score_all: float | None = None
    score_effective: float | None = None
    score_reported: float | None = None
    score_worst: float | None = None
    score_best: float | None = None
    score_first: float | None = None
    score_retried: float | None = None
    retried: int = 0
    retried_after_score: tuple[str, ...] = ()
    score_ci: Interval | None = None
    pass_at: tuple[PassAt, ...] | None = None


def validity_names(findings: Sequence[ValidityFinding]) -> str | None:
    """Name the worst level found and the checks that found something, each between blanks.

    ``findings`` come with the worst first, and so do their checks; None without any.
    """
    if not findings:
        return None
    checks = dict.fromkeys(found.check for found in findings)
    return f" {' '.join([findings[0].level.value, *checks])} "


def reward_of(result: Result, score_key: str | None = None) -> float | None:
    """Return the score of a result; None if it has none, or it does not count."""
    return score_in(result, score_key).score


def score_in(result: Result, score_key: str | None = None) -> ReportedScore:
    """Return the score that a runner reported of a result, or nothing if it does not count."""
    if takes_rewards(result):
        return ReportedScore()
    return reported_score(result.rewards, result.eval, score_key)


class PlacedTry(Protocol):
    """A rollout, as far as it decides of which repeat of its task it is an attempt."""

    @property
    def rollout_id(self) -> str:
        """The rollout's id."""

    @property
    def task(self) -> str | None:
        """Its task."""

    @property
    def repeat(self) -> int | None:
        """The number of the repeat, from 0."""

    @property
    def attempt(self) -> int | None:
        """The number of the try, from 0."""


Placed = TypeVar("Placed", bound=PlacedTry)


def task_repeats(entries: Iterable[Entry]) -> list[TaskRepeat]:
    """Group entries into slots, in the order of their first entries.

    Entries of one task with the same ``repeat`` are attempts of one slot. Where there is no
    ``repeat``, those with different ``attempt`` numbers are; a task that has the same number
    several times was sampled several times: the n-th of each number make the n-th slot.
    Without a task, or without either number, a rollout is its own slot.
    """
    return [_slot(attempts) for attempts in by_repeat(entries)]


def by_repeat(tries: Iterable[Placed]) -> list[list[Placed]]:
    """Group rollouts into slots, as `task_repeats` says."""
    grouped: dict[tuple[Any, ...], list[Placed]] = {}
    counts: dict[tuple[str, int], int] = {}
    for each in tries:
        grouped.setdefault(_slot_of(each, counts), []).append(each)
    return list(grouped.values())


def _slot_of(entry: PlacedTry, counts: dict[tuple[str, int], int]) -> tuple[Any, ...]:
    """Return what the entries of a slot have in common; counts those without a repeat."""
    if entry.task is not None and entry.repeat is not None:
        return "repeat", entry.task, entry.repeat
    if entry.task is None or entry.attempt is None:
        return "rollout", entry.rollout_id
    number = (entry.task, entry.attempt)
    counts[number] = counts.get(number, -1) + 1
    return "sample", entry.task, counts[number]


def _slot(attempts: list[Entry]) -> TaskRepeat:
    first = attempts[0]
    if len(attempts) == 1:
        return TaskRepeat(slot_name(first), (first,), first)
    ordered = sorted(attempts, key=lambda a: a.attempt or 0)
    scored = (a for a in ordered if a.score is not None)
    return TaskRepeat(slot_name(first), tuple(ordered), next(scored, ordered[-1]))


def judged_of(slot: TaskRepeat) -> TaskRepeat | None:
    """Return a slot with those of its attempts that are judged; None if none is."""
    judged = [each for each in slot.attempts if each.health is not None]
    return slot if len(judged) == len(slot.attempts) else _slot(judged) if judged else None


def by_number(slot: TaskRepeat) -> tuple[bool, int]:
    """Return the place of a slot among those of its task: by its repeat, the last without one."""
    repeat = slot.counted.repeat
    return (True, 0) if repeat is None else (False, repeat)


def slot_name(entry: Entry) -> str:
    """Return what a slot is called: by its task, and its repeat where it has one."""
    if entry.task is None:
        return entry.rollout_id
    return entry.task if entry.repeat is None else f"{entry.task} (repeat {entry.repeat})"


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def reward_bounds(
    registered: tuple[float, float] | None, *, beyond: bool
) -> tuple[float, float] | None:
    """Return the least and the greatest possible reward; None if nobody can know them.

    Without a registered range they are 0 and 1, unless a reward lies ``beyond``.
    """
    return registered or (None if beyond else (0.0, 1.0))


class RewardSpan(NamedTuple):
    """The least and the greatest reward that counts in a batch, and the range that was registered.

    None is unknown: no reward counts, or no range was registered.
    """

    least: float | None = None
    greatest: float | None = None
    registered: tuple[float, float] | None = None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Return the least and the greatest possible reward; None if nobody can know them.

        As `reward_bounds` says.
        """
        beyond = not all(0 <= each <= 1 for each in _known(self[:2]))
        return reward_bounds(self.registered, beyond=beyond)


def scored_before(slot: TaskRepeat) -> bool:
    """Return True if a slot was run again although it had a score."""
    return any(attempt.score is not None for attempt in slot.attempts[:-1])


def repeat_of(slot: TaskRepeat) -> Repeat | None:
    """Return a slot as a repeat of its task; None without one."""
    entry = slot.counted
    if entry.task is None:
        return None
    return Repeat(
        task=entry.task,
        lane=entry.lane and _route(entry.lane),
        score=entry.score,
        excluded=entry.scoreable != "yes" and not entry.provisional,
        reward=entry.reward,
    )


@lru_cache(maxsize=256)
def _route(lane: str) -> str:
    """Return a lane's upstream and model; a batch of thousands has few lanes."""
    return Lane.read(lane).route


def zero_of(slot: TaskRepeat) -> Entry | None:
    """Return the attempt for which a repeat reads as 0; None if it does not."""
    entry = _read_by(slot)
    return entry if entry is not None and _is_zero(entry) else None


def one_of(slot: TaskRepeat) -> Entry | None:
    """Return the attempt for which a repeat reads as a score above 0; None if it does not."""
    entry = _read_by(slot)
    if entry is None or _is_zero(entry):
        return None
    return entry if any(value > 0 for value in _values(entry)) else None


def _read_by(slot: TaskRepeat) -> Entry | None:
    """Return the attempt whose rewards a repeat shows: the one that counts, else the last one."""
    if slot.counted.score is not None:
        return slot.counted
    reported = [each for each in slot.attempts if _values(each)]  # a skipped one has none
    return reported[-1] if reported and not reported[-1].provisional else None


def _values(entry: Entry) -> list[float]:
    """Return the score that was reported; without one, the rewards under any key."""
    return [value for _, value in entry.unnamed] if entry.reward is None else [entry.reward]


def _is_zero(entry: Entry) -> bool:
    return 0 in _values(entry)


def last_reported(slot: TaskRepeat) -> float | None:
    """Return the last score that was reported of a repeat, as a harness overwrites earlier ones.

    A rollout that has not ended has none yet. None if there is none.
    """
    given = (each for each in slot.attempts if each.score is not None or not each.provisional)
    return next(iter(_known(each.reward for each in reversed([*given]))), None)


def unmeasured_by(entry: Entry) -> str:
    """Name the reason for which a rollout's reward does not count.

    A failure's subcategory, ``suspected``, the check that found the measurement unsound,
    ``excluded`` by the batch's policy, or the health that leaves it undecided; ``undecided`` too
    if nobody can say whether a model answered.
    """
    return unmeasured_reason(entry.health, entry.subcategory, entry.scoreable, entry.validity)


def unmeasured_reason(
    health: str | None, subcategory: str | None, scoreable: str | None, validity: str | None
) -> str:
    """Name the same reason, by the fields of a verdict that say it."""
    if subcategory is not None and health == Health.API_ERROR:
        return subcategory
    if health == Health.SUSPECTED_API_ERROR:
        return "suspected"
    if health == Health.HEALTHY and scoreable == "no":
        return "excluded" if validity is None else validity.split()[1]
    undecided = health is None or health == Health.HEALTHY
    return Health.UNDECIDED.value if undecided else str(health)


def problems(entry: Entry, name: str) -> list[str]:
    """Return the verdict's sentence on what counts of a slot, if anything is wrong with it."""
    if entry.diagnostics:
        return [f"{name}: {entry.sentence}"]
    if entry.provisional:
        return [f"{name}: not finished: its runner has not reported, or calls are in flight"]
    return []


def excused(slot: TaskRepeat) -> bool:
    """Return True if nobody can say whether a slot's last word measures: neither yes nor no."""
    return slot.counted.scoreable == "unknown" and not slot.counted.provisional


def own_failures(entry: Entry) -> bool:
    """Return True if a score counts although no model answered: the agent's own failures."""
    return entry.score is not None and unanswered(entry)


def unanswered(entry: Entry) -> bool:
    """Return True if no model answered, by the agent's own doing."""
    return any(isinstance(each, OwnFailureInfo) and each.unanswered for each in entry.diagnostics)


def counted_with(slot: TaskRepeat) -> str | None:
    """Return the level of the worst finding of a slot that counts all the same."""
    validity = slot.counted.validity
    return None if validity is None or slot.counted.scoreable != "yes" else validity.split()[0]


def counted_check(entry: Entry) -> str:
    """Name a slot that counts in spite of a finding, and the check that found it."""
    return f"{slot_name(entry)} ({(entry.validity or '').split()[1]})"


def picked(name: str) -> str:
    """Return the line of a slot that was run again although it had a score."""
    return f"{name}: run again although a score was there: only the first one counts"
