"""A batch summarised from all of its entries at once: what the summary from sums is held to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

from classifier.batch_summary import Check, Excused, NamedSlots, ScoredBatch, check_of
from classifier.batches import (
    Entry,
    TaskRepeat,
    counted_check,
    counted_with,
    excused,
    picked,
    problems,
    repeat_of,
    scored_before,
    scores,
    task_repeats,
)
from classifier.diagnostics import Diagnostic, kinds
from classifier.statistics import Exclusion, exclusion
from classifier.totals import sum_known
from classifier.validity.serving import BatchFinding

_UNTESTED = Exclusion()


def summarize(entries: Sequence[Entry], across: Sequence[BatchFinding] = ()) -> ScoredBatch:
    """Summarise a batch from the entry of every attempt in it, and what differs between them."""
    batch = task_repeats(entries)
    found = exclusions(batch)

    def each(name: str) -> Iterable[Any]:
        return map(attrgetter(name), entries)

    levels, checks = _found(each("validity"))
    diagnosed = _diagnosed(chain.from_iterable(each("diagnostics")))
    return ScoredBatch(
        scores=scores(batch),
        check=check(batch, found, across),
        exclusion=found,
        summaries=tuple(kind.summary(count) for kind, count in diagnosed.items()),
        health=_tally(each("health")),
        subcategory=_tally(each("subcategory")),
        fingerprint=_tally(each("fingerprint")),
        input_tokens=sum_known(each("input_tokens")),
        output_tokens=sum_known(each("output_tokens")),
        total_tokens=sum_known(each("total_tokens")),
        cost_usd=sum_known(each("cost_usd")),
        pending=sum(each("provisional")),
        diagnostics={kind.field: count for kind, count in diagnosed.items()},
        validity=levels,
        validity_checks=checks,
        calls=sum_known(each("summed_calls")),
        tokens_known_calls=sum_known(each("tokens_known_calls")),
        cost_known_calls=sum_known(each("cost_known_calls")),
        across=tuple(across),
    )


def exclusions(batch: Sequence[TaskRepeat]) -> Exclusion:
    """Test whether what is left out of the score strikes hard tasks, by `exclusion`.

    Each slot is a repeat of its task; what a later attempt filled is not left out.
    """
    repeats = (repeat_of(slot) for slot in batch)
    return exclusion(repeat for repeat in repeats if repeat is not None)


def check(
    batch: Sequence[TaskRepeat], found: Exclusion = _UNTESTED, across: Sequence[BatchFinding] = ()
) -> Check:
    """Check a batch: one line for each slot that is no measurement, suspect or cherry-picked.

    A failed attempt with a successful retry does not count against the batch. ``found`` are
    its `exclusions`, with a line for each lane on which they bias the mean.
    """
    lines = list[str]()
    for slot in batch:
        lines += problems(slot.counted, slot.name)
        if scored_before(slot):
            lines.append(picked(slot.name))
    unknown = Excused(sum(map(excused, batch)), len(batch))
    attempts = [each for slot in batch for each in slot.attempts]
    return check_of(
        lines,
        _counted_all_the_same(batch),
        found,
        across,
        excused=unknown,
        unearned=sum(bool(each.unearned) for each in attempts),
    )


def _counted_all_the_same(batch: Sequence[TaskRepeat]) -> dict[str, NamedSlots]:
    """Return the slots that count in spite of a finding, by its level."""
    named: dict[str, list[str]] = {}
    for slot in batch:
        if (level := counted_with(slot)) is not None:
            named.setdefault(level, []).append(counted_check(slot.counted))
    return {level: NamedSlots(names, len(names)) for level, names in named.items()}


def _tally(names: Iterable[str | None]) -> dict[str, int]:
    return _tally_of(Counter(names))


def _tally_of(counts: Counter[str | None]) -> dict[str, int]:
    return {name: count for name, count in counts.most_common() if name is not None}


def _found(entries: Iterable[str | None]) -> tuple[dict[str, int], dict[str, int]]:
    """Count rollouts by the worst level of what was found, and by check, most frequent first."""
    levels: Counter[str | None] = Counter()
    checks: Counter[str | None] = Counter()
    for names, count in Counter(entries).items():
        if names is not None:
            level, *found = names.split()
            levels[level] += count
            checks.update(dict.fromkeys(found, count))
    return _tally_of(levels), _tally_of(checks)


def _diagnosed(diagnostics: Iterable[Diagnostic]) -> dict[type[Diagnostic], int]:
    counts = Counter(map(type, diagnostics))
    return {kind: counts[kind] for kind in kinds() if counts[kind]}
