"""The summary and the check of a batch, from what its rollouts add up to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from classifier.batch_parts import BatchParts, parts_of
from classifier.batches import Scores, reward_bounds
from classifier.diagnostics import kinds
from classifier.repeat_counts import UNIT, Counts, Shapes, TaskProfile
from classifier.score_keys import no_score
from classifier.statistics import (
    Cluster,
    Exclusion,
    ExclusionEffect,
    PassAt,
    Passed,
    TaskMean,
    Zeros,
    exclusion_of,
    interval_of,
    pass_at_of,
)
from classifier.totals import EXACT
from classifier.validity.serving import BatchFinding
from classifier.verdicts import UNEARNED, Level, plural

SHOWN = 10  # names in one line
_DECIMALS = 15  # of a sum whose addends were cut to 1 / UNIT
MOST_EXCUSED = 0.05
"""The share of slots, of a valid batch, of which it may be unknown whether they count."""
_UNTESTED = Exclusion()


class NamedSlots(NamedTuple):
    """Some slots: names of the first ones, each with the worst check, and how many there are."""

    first: Sequence[str]
    total: int


class Excused(NamedTuple):
    """The slots of which nobody can say if they measure, and all slots."""

    slots: int = 0
    of: int = 0

    @property
    def too_many(self) -> bool:
        """True if over 5 % are: what is unknown excuses, so an agent may seek it."""
        return self.slots > MOST_EXCUSED * self.of

    @property
    def sentence(self) -> str:
        """The share, as a line of a check."""
        share = f"{plural(self.slots, 'rollout')} of {self.of} ({100 * self.slots / self.of:.0f} %)"
        too_many = ": more than 5 %, so the batch is no valid measurement" if self.too_many else ""
        return f"not known if they measure: {share}{too_many}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The check of a batch: if it is a valid measurement, and one line for each problem.

    The last lines are of what is suspect and counts all the same: they make nothing invalid.
    ``total`` lines there are, of which ``lines`` may be the first ones.
    """

    valid: bool
    lines: tuple[str, ...]
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedCounts:
    """The repeats that read as 0, or as more: how many, and those that are no measurements.

    As `batches.zero_of` and `one_of` find them in slots. ``by_cause`` has the most frequent first.
    """

    reported: int = 0
    not_measured: int = 0
    by_cause: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, counts: Counts, kind: str) -> ReportedCounts:
        """Read them from a batch's counts.

        Arguments:
            kind: ``zero`` or ``one``.
        """
        causes = tally(counts, f"unmeasured_{kind}")
        return cls(
            reported=counts[f"reported_{kind}s"],
            not_measured=sum(causes.values()),
            by_cause=causes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredBatch:
    """The summary of a batch; counts are of rollouts, every attempt included.

    ``diagnostics`` counts them by the result field of what is wrong with them, ``validity`` by
    the worst level of what was found, ``validity_checks`` by check, ``unearned`` those whose score
    no model earned.
    Of ``calls`` that used tokens, ``tokens_known_calls`` are in the sums of tokens and
    ``cost_known_calls`` in the cost. ``lost_s`` and ``held_s`` sum up the seconds of those verdicts
    that state them. ``across`` is what differs between its rollouts. ``own_failures`` are the slots
    that count although no model answered: the agent's own failures.
    """

    scores: Scores
    check: Check
    summaries: tuple[str, ...]
    exclusion: Exclusion
    health: dict[str, int]
    subcategory: dict[str, int]
    fingerprint: dict[str, int]
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    cost_usd: float | None
    pending: int = field(default=0)
    diagnostics: dict[str, int] = field(default_factory=dict)
    validity: dict[str, int] = field(default_factory=dict)
    validity_checks: dict[str, int] = field(default_factory=dict)
    unearned: int = 0
    calls: int | None = None
    tokens_known_calls: int | None = None
    cost_known_calls: int | None = None
    across: tuple[BatchFinding, ...] = ()
    zeros: ReportedCounts = field(default_factory=ReportedCounts)
    ones: ReportedCounts = field(default_factory=ReportedCounts)
    parts: BatchParts = field(default_factory=BatchParts)
    no_score: str | None = None
    lost_s: float | None = None
    held_s: float | None = None
    own_failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The first of what a summary names: lines of its check, picked slots, slots that count."""

    lines: Sequence[str] = ()
    picked: Sequence[str] = ()
    counted: Mapping[str, NamedSlots] = field(default_factory=dict)


def summary_of(
    counts: Counts,
    shapes: Shapes,
    named: Named,
    excluded: Exclusion,
    across: Sequence[BatchFinding] = (),
    *,
    reward_range: tuple[float, float] | None = None,
    score_key: str | None = None,
) -> ScoredBatch:
    """Summarise a batch from its sums.

    Arguments:
        reward_range: the least and the greatest reward, as registered.
        score_key: the key of the score, as registered.
    """
    parts, without = parts_of(counts), why_no_score(counts, score_key)
    ones = ReportedCounts.of(counts, "one")
    diagnosed = {
        kind: counts[name] for kind in kinds() if counts[name := f"diagnostic:{kind.field}"]
    }
    check: Check = check_of(
        named.lines,
        named.counted,
        excluded,
        across,
        excused=Excused(counts["excused"], counts["slots"]),
        total=counts["lines"],
        unearned=counts["unearned"],
        parts=parts,
        no_score=without,
        ones=ones,
    )
    return ScoredBatch(
        scores=scores_of(
            counts, shapes, named.picked, reward_range=reward_range, score_key=score_key
        ),
        check=check,
        exclusion=excluded,
        summaries=tuple(kind.summary(count) for kind, count in diagnosed.items()),
        health=tally(counts, "health"),
        subcategory=tally(counts, "subcategory"),
        fingerprint=tally(counts, "fingerprint"),
        input_tokens=_sum(counts, "input_tokens"),
        output_tokens=_sum(counts, "output_tokens"),
        total_tokens=_sum(counts, "total_tokens"),
        cost_usd=_fraction(counts, "cost_usd"),
        lost_s=_fraction(counts, "lost_s"),
        held_s=_fraction(counts, "held_s"),
        pending=counts["pending"],
        diagnostics={kind.field: count for kind, count in diagnosed.items()},
        validity=tally(counts, "level"),
        validity_checks=tally(counts, "check"),
        unearned=counts["unearned"],
        calls=_sum(counts, "summed_calls"),
        tokens_known_calls=_sum(counts, "tokens_known_calls"),
        cost_known_calls=_sum(counts, "cost_known_calls"),
        across=tuple(across),
        zeros=ReportedCounts.of(counts, "zero"),
        ones=ones,
        parts=parts,
        no_score=without,
        own_failures=parts.own_failures,
    )


def why_no_score(counts: Counts, score_key: str | None) -> str | None:
    """Say why a batch has no score although rewards were reported, and the fix; None if it has.

    Rollouts that lack a registered key have no score, the batch has one.
    """
    if score_key is not None:
        return None
    keys = next(iter(tally(counts, "unnamed")), None)
    return None if keys is None else f"no score: {no_score(keys, None)}"


def scores_of(
    counts: Counts,
    shapes: Shapes,
    picked: Iterable[str] = (),
    *,
    reward_range: tuple[float, float] | None = None,
    score_key: str | None = None,
) -> Scores:
    """Return the scores of a batch, over its planned repeats.

    With rewards of which nobody knows which one is the score, there is none.

    Arguments:
        picked: names of slots that were run again although they had a score.
        reward_range: the least and the greatest reward, as registered.
        score_key: the name of the reward that is the score, as registered.
    """
    parts, scored, score = parts_of(counts), counts["scored"], counts["score:scored"]
    total = parts.planned
    known = Scores(
        total=total,
        scoreable=counts["scoreable"],
        scored=scored,
        coverage=parts.counted / total if total else None,
        retried=counts["retried"],
        retried_after_score=tuple(picked),
    )
    if why_no_score(counts, score_key) is not None:
        return known
    binary = not counts["other_scores"]
    bounds = reward_bounds(reward_range, beyond=bool(counts["beyond"]))
    rest = (total - scored) * UNIT
    clusters = [
        Cluster(shape.kept, shape.score / UNIT, tasks)
        for shape, tasks in sorted(shapes.items())  # sums of floats depend on their order
        if shape.kept
    ]
    return replace(
        known,
        score_all=_mean(score, total),
        score_effective=_mean(score, scored),
        score_reported=_mean(counts["score:reported"], counts["reported"]),
        score_worst=_mean(score + rest * bounds[0], total) if bounds else None,
        score_best=_mean(score + rest * bounds[1], total) if bounds else None,
        score_first=_mean(counts["score:first"], counts["first"]),
        score_retried=_mean(counts["score:filled"], counts["filled"]),
        score_ci=interval_of(clusters, binary=binary, bounded=not counts["beyond"]),
        pass_at=_pass_at(shapes) if binary else None,
    )


def _pass_at(shapes: Shapes) -> tuple[PassAt, ...] | None:
    return pass_at_of(
        Passed(shape.repeats, shape.kept, shape.score // UNIT, tasks)
        for shape, tasks in sorted(shapes.items())
    )


def comparable(shapes: Shapes) -> Shapes:
    """Return the shapes whose tasks are compared with each other: repeated, and with a score."""
    return {shape: tasks for shape, tasks in shapes.items() if shape.repeats > 1 and shape.kept}


def exclusion_in(counts: Counts, shapes: Shapes) -> Exclusion:
    """Test whether what is left out of the score strikes hard tasks, by `exclusion_of`.

    Each slot is a repeat of its task; what a later attempt filled is not left out.
    """
    tasks = [
        task
        for shape, count in comparable(shapes).items()
        for task in [TaskMean(_mean_of(shape), frozenset(lane or None for lane in shape.lanes))]
        * count
    ]
    zeros = Zeros(*(counts[f"zeros:{name}"] for name in Zeros._fields))
    return exclusion_of(tasks if counts["excluded"] else [], zeros)


def _mean_of(shape: TaskProfile) -> float:
    return shape.score / (shape.kept * UNIT)


def declared_in(counts: Counts) -> list[str]:
    """Return the models that registrations name beside the one under test."""
    texts = (name for key in counts if (name := _named(key, "declared")) is not None)
    return [model for text in texts for model in text.splitlines()]


def _mean(score: float, count: int) -> float | None:
    return score / (count * UNIT) if count else None


def _sum(counts: Counts, name: str) -> int | None:
    total = counts[f"sum:{name}"]
    return total if counts[f"known:{name}"] and total <= EXACT else None


def _fraction(counts: Counts, name: str) -> float | None:
    total = counts[f"sum:{name}"]
    known = counts[f"known:{name}"] and total <= EXACT * UNIT
    return round(total / UNIT, _DECIMALS) if known else None


def tally(counts: Counts, kind: str) -> dict[str, int]:
    """Return counts of one kind, the most frequent first, then by name."""
    named_counts = [
        (name, n) for key, n in counts.items() if (name := _named(key, kind)) is not None
    ]
    return dict(sorted(named_counts, key=lambda item: (-item[1], item[0])))


def _named(key: str, kind: str) -> str | None:
    before, _, name = key.partition(":")
    return name if before == kind and name else None


# --- check ---

_NONE_EXCUSED = Excused()
_NO_PARTS = BatchParts()
_NONE_REPORTED = ReportedCounts()


def check_of(
    lines: Sequence[str],
    counted: Mapping[str, NamedSlots],
    excluded: Exclusion = _UNTESTED,
    across: Sequence[BatchFinding] = (),
    *,
    excused: Excused = _NONE_EXCUSED,
    total: int | None = None,
    unearned: int = 0,
    parts: BatchParts = _NO_PARTS,
    no_score: str | None = None,
    ones: ReportedCounts = _NONE_REPORTED,
) -> Check:
    """Return a check of the lines about slots, and what is known of the batch beside them.

    Arguments:
        counted: slots that count in spite of a finding, by its level.
        excused: slots of which it is unknown whether they count.
        total: how many lines there are about slots, where only the first of them are given.
        unearned: rollouts whose score no model earned.
        parts: of the planned repeats.
        no_score: why the batch has no score although rewards were reported.
        ones: scores above 0 that were reported.
    """
    spoilt = [_bias(each) for each in excluded.comparisons if each.significant]
    spoilt += [excused.sentence] if excused.too_many else []
    spoilt += [no_score] if no_score is not None else []
    if parts.never_started:
        repeats = plural(parts.planned, "planned repeat")
        spoilt.append(f"{parts.never_started:,} of {repeats} never started")
    after = [
        f"{level}, and counted all the same: {_some(*counted[level])}"
        for level in (Level.INVALID, Level.SUSPECT)
        if level in counted
    ]
    after += [
        f"{each.level} across rollouts: {each.sentence} ({each.check})"
        for each in across
        if each.level is not Level.INFO
    ]
    after += [excused.sentence] if excused.slots and not excused.too_many else []
    if unearned:
        after.append(f"no model earned the score of {plural(unearned, 'rollout')} ({UNEARNED})")
    if ones.not_measured:
        after.append(_taken_away(ones))
    about = len(lines) if total is None else total
    return Check(
        valid=not (spoilt or about),
        lines=(*spoilt, *lines, *after),
        total=len(spoilt) + about + len(after),
    )


def _bias(lane: ExclusionEffect) -> str:
    return (
        f"exclusions bias the mean: what is kept of the {plural(lane.tasks, 'task')} with "
        f"exclusions on {lane.lane or 'an unknown lane'} averages {lane.mean:.3g}, "
        f"of the {lane.other_tasks} without any {lane.other_mean:.3g} (p = {lane.p:.2g})"
    )


def _taken_away(ones: ReportedCounts) -> str:
    """Say which scores above 0 are no measurements."""
    above = f"{ones.not_measured:,} of {plural(ones.reported, 'score')} above 0"
    words = "is no measurement" if ones.not_measured == 1 else "are no measurements"
    causes = ", ".join(f"{count:,} {cause}" for cause, count in ones.by_cause.items())
    return f"{above} {words}: {causes}"


def _some(names: Sequence[str], total: int, most: int = SHOWN) -> str:
    """Join names; of many the first ones, and how many there are."""
    shown = ", ".join(names[:most])
    return f"{plural(total, 'rollout')}: {shown}, …" if total > most else shown
