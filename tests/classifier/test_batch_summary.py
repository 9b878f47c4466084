"""A batch's summary from its sums is the one that its rollouts give."""

from __future__ import annotations

import pytest
from hypothesis import given

from classifier.batch_summary import (
    Excused,
    Named,
    ReportedCounts,
    check_of,
    declared_in,
    exclusion_in,
    scores_of,
    summary_of,
)
from classifier.batches import Entry, excused, task_repeats
from classifier.repeat_counts import CountedRollout, part_of
from tests.classifier.entries_summary import reported_zeros, scores, summarize
from tests.classifier.test_repeat_counts import ENTRIES, entry, shapes
from tests.tables import each


@given(entries=ENTRIES)
def test_scores_are_those_of_the_slots(entries: list[Entry]) -> None:
    part = part_of([CountedRollout(each, float(n)) for n, each in enumerate(entries)])
    # With a key registered, rewards under others are no reason to have no score.
    found = scores_of(part.counts, shapes(part), score_key="key")
    expected = scores(task_repeats(entries))
    for name in ("total", "scoreable", "scored", "coverage", "score_all", "score_effective",
                 "score_reported", "score_worst", "score_best", "score_first", "score_retried",
                 "retried", "score_ci"):  # fmt: skip
        assert getattr(found, name) == pytest.approx(getattr(expected, name), abs=1e-12), name
    assert found.pass_at == expected.pass_at


@given(entries=ENTRIES)
def test_zeros_are_those_of_the_slots(entries: list[Entry]) -> None:
    part = part_of([CountedRollout(each, float(n)) for n, each in enumerate(entries)])
    expected = reported_zeros(task_repeats(entries))
    found = ReportedCounts.of(part.counts, "zero")
    assert found is not None
    assert (found.reported, found.not_measured) == (expected.reported, len(expected.not_measured))
    assert found.by_cause == expected.by_cause


def test_a_summary_is_that_of_the_entries() -> None:
    entries = [
        entry("a", reward=1.0, subcategory="auth", input_tokens=3, summed_calls=2, cost_usd=0.5),
        entry("b", validity=" suspect stalled ", input_tokens=None, provisional=True),
    ]
    part = part_of(
        [CountedRollout(each, float(n), fallbacks="m\nn") for n, each in enumerate(entries)]
    )
    found = summary_of(part.counts, shapes(part), Named(), exclusion_in(part.counts, {}))
    expected = summarize(entries)
    for name in ("health", "subcategory", "fingerprint", "input_tokens", "total_tokens", "calls",
                 "cost_usd", "pending", "validity", "validity_checks", "exclusion"):  # fmt: skip
        assert getattr(found, name) == getattr(expected, name), name
    assert (found.check.valid, found.check.total) == (False, 1), "the line of b, not read here"
    assert declared_in(part.counts) == ["m", "n"]


def test_a_zero_that_a_policy_leaves_out_is_excluded_and_not_healthy() -> None:
    left_out = entry("a", reward=0.0, scoreable="no")  # as where `max_steps` is to be excluded
    part = part_of([CountedRollout(left_out, 0.0)])
    zeros = ReportedCounts.of(part.counts, "zero")
    assert zeros is not None
    assert (zeros.reported, zeros.by_cause) == (1, {"excluded": 1})


def test_time_that_was_lost_or_waited_is_summed_up_where_it_is_known() -> None:
    entries = [entry("a", lost_s=0.1, held_s=2.5), entry("b", lost_s=0.2), entry("c")]
    part = part_of([CountedRollout(each, float(n)) for n, each in enumerate(entries)])
    found = summary_of(part.counts, shapes(part), Named(), exclusion_in(part.counts, {}))
    assert found.lost_s == pytest.approx(0.3)
    assert found.held_s == 2.5
    unknown = part_of([CountedRollout(entry("c"), 0.0)])
    found = summary_of(unknown.counts, shapes(unknown), Named(), exclusion_in(unknown.counts, {}))
    assert (found.lost_s, found.held_s) == (None, None)


def test_scores_that_no_model_earned_are_counted_and_make_no_batch_invalid() -> None:
    entries = [entry("a", unearned=True, reward=1.0), entry("b", unearned=True), entry("c")]
    part = part_of([CountedRollout(each, float(n)) for n, each in enumerate(entries)])
    found = summary_of(part.counts, shapes(part), Named(), exclusion_in(part.counts, {}))
    assert found.unearned == 2
    assert found.check.lines[-1] == "no model earned the score of 2 rollouts (unearned)"
    assert found.check.total == len(found.check.lines)
    assert check_of((), {}, unearned=1).valid
    assert check_of((), {}, unearned=1).lines == (
        "no model earned the score of 1 rollout (unearned)",
    )


TOO_MANY = ": more than 5 %, so the batch is no valid measurement"


@each(
    "unknown, slots, valid, lines",
    [
        (0, 40, True, []),
        (2, 40, True, ["not known if they measure: 2 rollouts of 40 (5 %)"]),
        (3, 40, False, ["not known if they measure: 3 rollouts of 40 (8 %)" + TOO_MANY]),
    ],
)
def test_what_is_not_known_of_more_than_a_twentieth_of_a_batch_spoils_it(
    unknown: int, slots: int, valid: bool, lines: list[str]
) -> None:
    check = check_of((), {}, excused=Excused(unknown, slots))
    assert (check.valid, list(check.lines), check.total) == (valid, lines, len(lines))


def test_the_last_attempt_of_a_slot_says_if_it_is_known() -> None:
    failed = entry(task="t", attempt=0, scoreable="unknown")
    slots = [
        (failed,), (failed, entry(task="t", attempt=1, scoreable="unknown")),
        (failed, entry(task="t", attempt=1, reward=0.0)),
        (entry(task="t", scoreable="unknown", provisional=True),),
    ]  # fmt: skip
    assert [excused(slot) for each in slots for slot in task_repeats(each)] == [
        True, True, False, False,
    ]  # fmt: skip
