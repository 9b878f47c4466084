"""Groups for reinforcement learning: what a masked rollout does to its group, which is nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier import judge, result
from classifier.batches import Entry
from classifier.groups import Group, Member, group
from tests.builders import rollout

TASK = "sum"


def member(
    repeat: int | None, reward: float | None, calls: str = "200", attempt: int = 0, **said: Any
) -> Member:
    """One rollout of the task: `calls` as `tests.builders.rollout` writes them."""
    name = f"{repeat}.{attempt}.{calls}.{reward}"
    seen = rollout(
        calls,
        id=name,
        task=TASK,
        repeat=repeat,
        attempt=attempt,
        rewards=None if reward is None else {"reward": reward},
    )
    return Member(Entry.of(result(seen, judge(seen))), **said)


def unjudged(repeat: int, attempt: int = 0, **said: Any) -> Member:
    """A rollout that runs, as the store lists it."""
    entry = member(repeat, None, attempt=attempt).entry
    return Member(entry._replace(health=None, provisional=True, reward=None), **said)


def of(rewards: Sequence[float | None], **said: Any) -> Group:
    """A group with these rewards; None is a rollout whose provider failed and that scored 0."""
    members = [
        member(place, 0.0, "503*3") if reward is None else member(place, reward)
        for place, reward in enumerate(rewards)
    ]
    return group(TASK, members, **said)


# Rewards, their mean and their standard deviation. By hand: 1, 0, 0, 1 have mean 1/2 and the sum of
# squares 1, so std = sqrt(1/3). Those after the empty line are r.mean() and r.std(ddof=1) of NumPy.
NUMBERS: list[tuple[list[float | None], float, float]] = [
    ([1.0, 0.0, 0.0, 1.0], 0.5, math.sqrt(1 / 3)),
    ([2.0, None, 4.0, None], 3.0, math.sqrt(2)),
    ([0.1, 0.1, None, 0.1], 0.1, 0.0),  # equal rewards that no binary fraction is

    ([1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0], 0.375, 0.5175491695067657),
    ([3.5, -1.25, 0.0, 7.75, 2.0], 2.4, 3.5026775472486755),
    ([0.1, 0.2, 0.3, 0.7], 0.325, 0.26299556396765833),
]  # fmt: skip


def test_the_numbers_are_those_worked_by_hand_and_those_of_numpy() -> None:
    for rewards, baseline, std in NUMBERS:
        seen = of(rewards)
        assert seen.baseline == pytest.approx(baseline, abs=1e-9)
        assert seen.std == pytest.approx(std, abs=1e-9)


@given(
    kept=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8),
    masked=st.sets(st.integers(0, 12), max_size=6),
)
def test_a_masked_rollout_shifts_nothing(kept: list[float], masked: set[int]) -> None:
    mixed: list[float | None] = list(kept)
    for place in sorted(masked):
        mixed.insert(place, None)
    alone, among = of(kept), of(mixed)
    assert (among.baseline, among.std) == (alone.baseline, alone.std)
    assert [reward is not None for reward in mixed] == list(among.valid)


def test_without_two_valid_rollouts_there_is_nothing_to_compare() -> None:
    nothing, lone = of([None, None]), of([None, 1.0])
    assert (nothing.baseline, nothing.std) == (None, None)
    assert (lone.baseline, lone.std) == (1.0, None)


def test_rewards_beyond_the_floats_give_no_number_rather_than_infinity() -> None:
    for rewards in ([1e308, -1e308, 1e308], [1.7e308, 1.7e308, -1.7e308]):
        seen = of(rewards)
        assert all(number is None or math.isfinite(number) for number in (seen.baseline, seen.std))
    assert of([1e-300, 2e-300, 3e-300]).std == pytest.approx(1e-300, rel=1e-9)


def test_a_group_settles_once_every_repeat_wanted_has_a_final_verdict() -> None:
    first, second = member(0, 1.0, wanted=3), member(1, 0.0, wanted=3)
    cases: dict[str, tuple[list[Member], bool, int]] = {
        "one has not begun": ([first, second], False, 3),
        "one runs": ([first, second, unjudged(2)], False, 3),
        "its verdict is provisional": (
            [first, second, Member(member(2, 1.0).entry._replace(provisional=True))], False, 3
        ),
        "all are final": ([first, second, member(2, 0.0, "503*3")], True, 3),
        "one was not admitted": ([first, second, unjudged(2, skipped=True)], True, 3),
        "more than were wanted": ([first, second, member(2, 1.0), member(3, 1.0)], True, 3),
        "nobody said how many": ([member(0, 1.0), member(1, 1.0)], True, 2),
        "nobody said, and one runs": ([member(0, 1.0), unjudged(1)], False, 2),
    }  # fmt: skip
    for name, (members, settled, wanted) in cases.items():
        seen = group(TASK, members)
        assert (seen.settled, seen.wanted) == (settled, wanted), name


def test_a_group_is_final_once_nothing_is_advised_to_be_run_again_or_its_batch_is_over() -> None:
    scored, failed = member(0, 1.0, wanted=2), member(1, 0.0, "503*3", retry=True)
    dead = member(1, 0.0, "401*3")
    of_unknown_size = [member(0, 1.0), member(1, 1.0)]
    cases: dict[str, tuple[list[Member], bool, tuple[bool, int, bool, bool]]] = {
        "all scored": ([scored, member(1, 0.0)], False, (True, 1, True, False)),
        "one may be run again": ([scored, failed], False, (True, 1, False, False)),
        "one may be, and nobody does": ([scored, failed], True, (True, 1, True, False)),
        "a dead key": ([scored, dead], False, (True, 1, True, True)),
        "one has not begun": ([scored], False, (False, 0, False, False)),
        "one never will": ([scored], True, (True, 1, True, True)),
        "one runs": ([scored, unjudged(1)], True, (False, 0, False, False)),
        "one was given up": ([scored, unjudged(1, given_up=True)], True, (True, 1, True, True)),
        "nobody said how many": (of_unknown_size, False, (True, 1, False, False)),
        "those there were": (of_unknown_size, True, (True, 1, True, False)),
        "it has settled before": (
            [scored, failed._replace(revision=1), unjudged(1, attempt=1)], False,
            (False, 1, False, False),
        ),
    }  # fmt: skip
    for name, (members, ended, expected) in cases.items():
        found = group(TASK, members, ended=ended)
        assert (found.settled, found.revision, found.final, found.drop) == expected, name


def test_of_attempts_the_first_that_scored_counts_and_a_later_one_holds_nothing_up() -> None:
    failed, passed = member(0, 0.0, "503*3"), member(0, 1.0, attempt=1)
    other = member(1, 0.0)
    again = group(TASK, [failed, other, passed, unjudged(0, attempt=2)])
    assert again.rollout_ids == (passed.entry.rollout_id, other.entry.rollout_id)
    assert (again.rewards, again.settled) == ((1.0, 0.0), True)
    retrying = group(TASK, [failed, other, unjudged(0, attempt=1)])
    assert (retrying.valid, retrying.settled) == ((False, True), False)
    overtaken = group(TASK, [unjudged(0), other, passed])  # the first attempt may yet score
    assert (overtaken.rewards, overtaken.settled) == ((1.0, 0.0), False)


def test_repeats_stand_by_number_whatever_the_order_they_began_in() -> None:
    seen = group(TASK, [member(2, 0.2), member(None, 0.9), member(0, 0.0), member(1, 0.1)])
    assert seen.repeats == (0, 1, 2, None)
    assert seen.rewards == (0.0, 0.1, 0.2, 0.9)


def test_a_reward_of_a_rollout_under_way_is_not_used_yet() -> None:
    early = Member(member(0, 1.0).entry._replace(provisional=True))
    seen = group(TASK, [early, member(1, 0.0), member(2, 1.0)])
    assert (seen.valid, seen.rewards, seen.baseline) == ((False, True, True), (None, 0.0, 1.0), 0.5)


def test_what_to_run_again_and_when_a_group_is_lost() -> None:
    good = member(0, 1.0, wanted=3)
    passing, dead = member(1, 0.0, "503*3", retry=True), member(1, 0.0, "401*3")
    cases: dict[str, tuple[list[Member], int, int, bool]] = {
        "all is well": ([good, member(1, 0.0), member(2, 0.0)], 2, 0, False),
        "a passing failure": ([good, passing, member(2, 0.0)], 2, 1, False),
        "enough with it": ([good, passing, member(2, 0.0, "401*3")], 2, 1, False),
        "not even with it": ([good, passing, member(2, 0.0, "401*3")], 3, 1, True),
        "a dead key": ([good, dead, member(2, 0.0, "401*3")], 2, 0, True),
        "a dead key, one to come": ([good, dead], 2, 0, False),
        "a dead key, one under way": ([good, dead, unjudged(2)], 2, 0, False),
        "not admitted": ([good, unjudged(1, skipped=True), unjudged(2, skipped=True)], 2, 0, True),
        "no reward": ([good, member(1, None), member(2, None)], 2, 0, True),
        "one is asked for": ([good, dead, member(2, 0.0, "401*3")], 1, 0, False),
    }
    for name, (members, least, resample, drop) in cases.items():
        seen = group(TASK, members, min_valid=least)
        assert (seen.resample, seen.drop) == (resample, drop), name


def test_a_retry_that_is_already_running_is_not_asked_for_again() -> None:
    failed = member(0, 0.0, "503*3", retry=True)
    other = member(1, 1.0)
    assert group(TASK, [failed, other]).resample == 1
    assert group(TASK, [failed, other, unjudged(0, attempt=1)]).resample == 0


def test_an_empty_group_is_none() -> None:
    seen = group(TASK, [])
    assert (seen.rollout_ids, seen.wanted, seen.baseline, seen.drop) == ((), 0, None, True)
