"""A batch's summary, from what its rollouts add up to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from classifier.batches import Check, NamedSlots, ScoredBatch, Scores, check_of
from classifier.diagnostics import kinds
from classifier.exclusion import Exclusion, TaskMean, Zeros, exclusion_of
from classifier.intervals import Cluster, interval_of
from classifier.pass_at import PassAt, Passed, pass_at_of
from classifier.rollup import UNIT, Counts, Shape, Shapes
from classifier.totals import EXACT
from classifier.validity.across import BatchFinding


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
    found: Exclusion,
    across: Sequence[BatchFinding] = (),
) -> ScoredBatch:
    """Summarise a batch from its sums, as `batches.summarize` does from its entries."""
    diagnosed = {
        kind: counts[name] for kind in kinds() if counts[name := f"diagnostic:{kind.field}"]
    }
    check: Check = check_of(named.lines, named.counted, found, across, total=counts["lines"])
    return ScoredBatch(
        scores=scores_of(counts, shapes, named.picked),
        check=check,
        exclusion=found,
        summaries=tuple(kind.summary(count) for kind, count in diagnosed.items()),
        health=_tally(counts, "health"),
        subcategory=_tally(counts, "subcategory"),
        fingerprint=_tally(counts, "fingerprint"),
        input_tokens=_sum(counts, "input_tokens"),
        output_tokens=_sum(counts, "output_tokens"),
        total_tokens=_sum(counts, "total_tokens"),
        cost_usd=_cost(counts),
        pending=counts["pending"],
        diagnostics={kind.field: count for kind, count in diagnosed.items()},
        validity=_tally(counts, "level"),
        validity_checks=_tally(counts, "check"),
        calls=_sum(counts, "summed_calls"),
        tokens_known_calls=_sum(counts, "tokens_known_calls"),
        cost_known_calls=_sum(counts, "cost_known_calls"),
        across=tuple(across),
    )


def scores_of(counts: Counts, shapes: Shapes, picked: Iterable[str] = ()) -> Scores:
    """Return the scores of a batch, as `batches.scores` computes them from its slots."""
    total, scored, score = counts["slots"], counts["scored"], counts["score:scored"]
    binary = not counts["other_scores"]
    clusters = [
        Cluster(shape.kept, shape.score / UNIT, tasks)
        for shape, tasks in shapes.items()
        if shape.kept
    ]
    return Scores(
        total=total,
        scoreable=counts["scoreable"],
        scored=scored,
        coverage=counts["scoreable"] / total if total else None,
        score_all=_mean(score, total),
        score_effective=_mean(score, scored),
        score_worst=_mean(score, total),
        score_best=_mean(score + (total - scored) * UNIT, total),
        score_first=_mean(counts["score:first"], counts["first"]),
        score_retried=_mean(counts["score:filled"], counts["filled"]),
        retried=counts["retried"],
        retried_after_score=tuple(picked),
        score_ci=interval_of(clusters, binary=binary, bounded=not counts["beyond"]),
        pass_at=_pass_at(shapes) if binary else None,
    )


def _pass_at(shapes: Shapes) -> tuple[PassAt, ...] | None:
    return pass_at_of(
        Passed(shape.repeats, shape.kept, shape.score // UNIT, tasks)
        for shape, tasks in shapes.items()
    )


def exclusion_in(counts: Counts, shapes: Shapes) -> Exclusion:
    """Test the exclusions of a batch, as `batches.exclusions` does from its slots."""
    tasks = [
        task
        for shape, count in shapes.items()
        if shape.repeats > 1 and shape.kept
        for task in [TaskMean(_mean_of(shape), frozenset(lane or None for lane in shape.lanes))]
        * count
    ]
    zeros = Zeros(*(counts[f"zeros:{name}"] for name in Zeros._fields))
    return exclusion_of(tasks if counts["excluded"] else [], zeros)


def _mean_of(shape: Shape) -> float:
    return shape.score / (shape.kept * UNIT)


def score_in(counts: Counts) -> float | None:
    """Return the mean over what was measured; None where nothing was."""
    return _mean(counts["score:scored"], counts["scored"])


def declared_in(counts: Counts) -> list[str]:
    """Return the models that registrations name beside the one under test."""
    texts = (name for key in counts if (name := _named(key, "declared")) is not None)
    return [model for text in texts for model in text.splitlines()]


def _mean(score: int, count: int) -> float | None:
    return score / (count * UNIT) if count else None


def _sum(counts: Counts, name: str) -> int | None:
    total = counts[f"sum:{name}"]
    return total if counts[f"known:{name}"] and total <= EXACT else None


def _cost(counts: Counts) -> float | None:
    total = counts["sum:cost_usd"]
    return total / UNIT if counts["known:cost_usd"] and total <= EXACT * UNIT else None


def _tally(counts: Counts, kind: str) -> dict[str, int]:
    """Return counts of one kind, the most frequent first, then by name."""
    found = [(name, n) for key, n in counts.items() if (name := _named(key, kind)) is not None]
    return dict(sorted(found, key=lambda item: (-item[1], item[0])))


def _named(key: str, kind: str) -> str | None:
    before, _, name = key.partition(":")
    return name if before == kind and name else None
