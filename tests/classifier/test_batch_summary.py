"""A batch's summary from its sums; what rollouts come to: `test_batches`."""

from __future__ import annotations

import pytest

from classifier.batch_summary import (
    Excused,
    Named,
    ScoredBatch,
    check_of,
    declared_in,
    exclusion_in,
    summary_of,
    why_no_score,
)
from classifier.batches import Entry, excused, task_repeats
from classifier.repeat_counts import CountedRollout, part_of
from tests.classifier.test_repeat_counts import entry, shapes
from tests.tables import each


def summary(*entries: Entry) -> ScoredBatch:
    """Summarise these as the store does, which names nothing of them here."""
    part = part_of([CountedRollout(each, float(n)) for n, each in enumerate(entries)])
    return summary_of(part.counts, shapes(part), Named(), exclusion_in(part.counts, {}))


def test_a_summary_is_the_sum_of_what_is_known() -> None:
    told = summary(
        entry("a", reward=1.0, subcategory="auth", input_tokens=3, summed_calls=2, cost_usd=0.5),
        entry("b", validity=" suspect stalled ", input_tokens=None, provisional=True),
    )
    assert (told.health, told.subcategory, told.fingerprint) == ({"healthy": 2}, {"auth": 1}, {})
    assert (told.input_tokens, told.total_tokens, told.calls, told.cost_usd) == (3, None, 2, 0.5)
    assert (told.pending, told.validity, told.validity_checks) == (
        1, {"suspect": 1}, {"stalled": 1},
    )  # fmt: skip
    assert (told.check.valid, told.check.total) == (False, 1), "the line of b, not read here"


def test_rewards_of_which_none_is_the_score_are_a_reason_unless_a_key_is_registered() -> None:
    part = part_of([CountedRollout(entry("a", unnamed=(("a", 0.0), ("b", 1.0))), 0.0)])
    assert (why_no_score(part.counts, None) or "").startswith("no score: ")
    assert why_no_score(part.counts, "a") is None


def test_models_that_registrations_name_are_told_apart() -> None:
    part = part_of([CountedRollout(entry(n), 0.0, fallbacks="m\nn") for n in "ab"])
    assert declared_in(part.counts) == ["m", "n"]


def test_a_zero_that_a_policy_leaves_out_is_excluded_and_not_healthy() -> None:
    left_out = entry("a", reward=0.0, scoreable="no")  # as where `max_steps` is to be excluded
    zeros = summary(left_out).zeros
    assert (zeros.reported, zeros.by_cause) == (1, {"excluded": 1})


def test_time_that_was_lost_or_waited_is_summed_up_where_it_is_known() -> None:
    found = summary(entry("a", lost_s=0.1, held_s=2.5), entry("b", lost_s=0.2), entry("c"))
    assert found.lost_s == pytest.approx(0.3)
    assert found.held_s == 2.5
    found = summary(entry("c"))
    assert (found.lost_s, found.held_s) == (None, None)


def test_scores_that_no_model_earned_are_counted_and_make_no_batch_invalid() -> None:
    found = summary(entry("a", unearned=True, reward=1.0), entry("b", unearned=True), entry("c"))
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
