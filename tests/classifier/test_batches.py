"""Scores, and what they stand on."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier import Policy, judge, result
from classifier.batch_summary import Check
from classifier.batches import Entry, RewardSpan, Scores, reward_of, task_repeats
from classifier.statistics import wilson
from tests.builders import rollout, summarized
from tests.tables import each

_NUMBERS = count()


def record(text: str, reward: float | None = 0.0, **said: Any) -> Entry:
    rewards = None if reward is None else {"reward": reward}
    seen = rollout(text, rewards=rewards, **{"task": None, "id": f"r-{next(_NUMBERS)}", **said})
    return Entry.of(result(seen, judge(seen)))


def scored(*records: Entry) -> Scores:
    return summarized(records).scores


def checked(*records: Entry) -> Check:
    return summarized(records).check


def test_a_dead_rollout_counts_zero_today_and_nothing_in_truth() -> None:
    told = scored(record("200", 1.0), record("200", 0.0), record("401*3", 0.0), record("", 0.0))
    assert (told.total, told.scoreable, told.coverage) == (4, 2, 0.5)
    assert told.score_all == 0.25
    assert told.score_effective == 0.5
    assert (told.score_worst, told.score_best) == (0.25, 0.75)


def test_a_batch_in_which_nothing_was_measured_has_no_score() -> None:
    told = scored(record("401", 0.0), record("", 0.0))
    assert (told.score_effective, told.coverage) == (None, 0.0)
    assert (told.score_worst, told.score_best) == (0.0, 1.0)
    assert scored() == Scores(
        total=0, scoreable=0, scored=0, coverage=None, score_all=None, score_effective=None,
        score_worst=None, score_best=None, score_first=None, score_retried=None, retried=0,
    )  # fmt: skip


def test_points_given_to_a_rollout_that_reached_no_model_do_not_count() -> None:
    told = scored(record("200", 0.0), record("401", 1.0))
    assert (told.score_all, told.score_effective) == (0.0, 0.0)


@each("text", ["lost", "left"])
def test_what_nobody_can_tell_is_left_out(text: str) -> None:
    told = scored(record("200", 1.0), record(text, 1.0))
    assert (told.scoreable, told.score_effective, told.score_worst) == (1, 1.0, 0.5)


def test_a_score_has_an_interval_over_tasks_and_a_chance_that_a_repeat_passes() -> None:
    told = scored(*[
        record("200" if measured else "503", 1.0, id=f"{task}.{repeat}", task=task, repeat=repeat)
        for task, repeats in (("s", (True, True)), ("t", (True, False)), ("u", (False, False)))
        for repeat, measured in enumerate(repeats)
    ])  # fmt: skip
    assert told.score_ci == wilson(1.0, 2), "the two tasks that were measured"
    first, second = told.pass_at or ()
    assert (first.k, first.estimate, first.tasks, first.of) == (1, 1.0, 2, 3)
    assert (second.k, second.estimate, second.tasks, second.of) == (2, 1.0, 1, 3)
    graded = scored(*(sample(n, 0, "200", 0.5) for n in range(2)))
    assert graded.pass_at is None, "nothing passes where rewards are no 0 or 1"
    alone = scored(record("200", 1.0), record("200", 0.0))
    assert alone.score_ci == wilson(0.5, 2), "each rollout without a task stands for itself"
    assert alone.pass_at is None


def test_a_healthy_rollout_without_a_reward_is_scoreable_but_not_measured() -> None:
    told = scored(record("200", 1.0), record("200", None))
    assert (told.scoreable, told.scored, told.coverage) == (2, 1, 0.5)
    assert (told.score_effective, told.score_worst, told.score_best) == (1.0, 0.5, 1.0)


def test_out_of_steps_is_scored_unless_policy_says_otherwise() -> None:
    seen = rollout("200*9", termination_reason="max_steps")
    assert scored(Entry.of(result(seen, judge(seen)))).scoreable == 1
    excluded = Entry.of(result(seen, judge(seen, policy=Policy(max_steps="exclude"))))
    assert scored(excluded).scoreable == 0


@each(
    "rewards, eval_, reward",
    [
        ({"reward": 0.5, "style": 1.0}, None, 0.5),
        ({"score": 0.25}, None, 0.25),
        ({"anything": 0.75}, None, 0.75),
        ({"a": 1.0, "b": 0.0}, None, None),
        ({"reward": 0.0}, {"passed": True}, 0.0),
        (None, {"passed": True}, 1.0),
        (None, {"resolved": False, "tests": 9}, 0.0),
        (None, {"tests": 9}, None),
        (None, None, None),
        ({}, {}, None),
    ],
)
def test_the_reward_that_counts(
    rewards: dict[str, float] | None, eval_: dict[str, object] | None, reward: float | None
) -> None:
    seen = rollout("200", rewards=rewards, eval=eval_)
    assert reward_of(result(seen, judge(seen))) == reward


def test_rewards_lie_in_0_to_1_unless_one_does_not_or_a_range_was_registered() -> None:
    for span, bounds in (
        (RewardSpan(), (0.0, 1.0)),
        (RewardSpan(0.0, 1.0), (0.0, 1.0)),
        (RewardSpan(0.0, 2.0), None),
        (RewardSpan(-1.0, 0.5), None),
        (RewardSpan(0.0, 2.0, (-5.0, 5.0)), (-5.0, 5.0)),
    ):
        assert span.bounds == bounds, span


# ── attempts ─────────────────────────────────────────────────────────────────


def attempt(number: int, text: str, reward: float | None = 0.0, task: str = "t1") -> Entry:
    return record(text, reward, task=task, attempt=number, id=f"{task}-{number}-{text}")


def test_a_retry_fills_the_slot_that_a_failure_left() -> None:
    told = scored(attempt(0, "503"), attempt(1, "200", 1.0))
    assert (told.total, told.scoreable, told.score_effective) == (1, 1, 1.0)
    assert (told.retried, told.retried_after_score) == (1, ())
    assert (told.score_first, told.score_retried) == (None, 1.0)


def test_running_again_until_it_passes_changes_no_score_and_shows() -> None:
    again = [attempt(0, "200", 0.0), attempt(1, "200", 0.0), attempt(2, "200", 1.0)]
    told = scored(*again, attempt(0, "200", 1.0, task="t2"))
    assert (told.total, told.score_effective, told.score_first) == (2, 0.5, 0.5)
    assert told.retried_after_score == ("t1",)
    assert checked(*again).lines == (
        "t1: run again although a score was there: only the first one counts",
    )


def test_an_attempt_without_a_reward_may_be_run_again() -> None:
    told = scored(attempt(0, "200", None), attempt(1, "200", 1.0))
    assert (told.score_effective, told.retried_after_score) == (1.0, ())


def test_attempts_may_come_in_any_order() -> None:
    one = [attempt(0, "200", 0.0), attempt(1, "200", 1.0)]
    assert scored(*one) == scored(*one[::-1])


def test_samples_of_one_task_are_slots_of_their_own() -> None:
    assert scored(attempt(0, "200", 1.0), attempt(0, "200", 0.0)).total == 2
    assert scored(record("200", 1.0, task="t1"), record("200", 0.0, task="t1")).total == 2


def sample(repeat: int, tried: int | None, text: str, reward: float | None = 0.0) -> Entry:
    named = f"t1.{repeat}.{tried}.{text}"
    return record(text, reward, task="t1", repeat=repeat, attempt=tried, id=named)


def test_repeats_all_count_and_of_their_attempts_the_first_that_is_scored() -> None:
    told = scored(
        sample(0, 0, "503"),
        sample(1, 0, "200", 0.0),
        sample(0, 2, "200", 0.0),
        sample(0, 1, "200", 1.0),
        sample(2, 0, "401"),
    )
    assert (told.total, told.scored, told.score_effective) == (3, 2, 0.5)
    assert (told.retried, told.retried_after_score) == (1, ("t1 (repeat 0)",))
    assert told.score_retried == 1.0


def test_of_attempts_none_of_which_is_scored_the_last_counts() -> None:
    attempts = [sample(0, 1, "401"), sample(0, 0, "200", None)]
    (slot,) = task_repeats(attempts)
    assert (slot.counted, slot.name) == (attempts[0], "t1 (repeat 0)")


def test_attempts_without_a_number_are_of_their_repeat_in_their_order() -> None:
    first, second = sample(0, None, "200", 1.0), sample(0, None, "200", 0.0)
    (slot,) = task_repeats([first, second])
    assert slot.counted is first


def test_what_has_no_repeat_means_what_it_meant_beside_those_that_have() -> None:
    told = scored(
        attempt(0, "503"), attempt(1, "200", 1.0), attempt(0, "200", 0.0), sample(0, 0, "200", 1.0)
    )
    assert (told.total, told.score_effective) == (3, 2 / 3)
    lone = record("200", 1.0, repeat=0)
    assert scored(lone, lone._replace(rollout_id="other")).total == 2  # they name no task


def test_repeats_of_a_task_are_compared_as_one_task() -> None:
    entries = [
        record("401" if repeat % 2 and hard else "200", 0.0 if hard else 1.0,
               task=f"{hard}-{n}", repeat=repeat, attempt=0, id=f"{hard}-{n}-{repeat}")
        for hard in (True, False)
        for n in range(7)
        for repeat in range(2)
    ]  # fmt: skip
    (lane,) = summarized(entries).exclusion.comparisons
    assert (lane.tasks, lane.other_tasks, lane.significant) == (7, 7, True)


# ── check and summary ────────────────────────────────────────────────────────


def test_a_batch_is_valid_when_every_slot_was_measured() -> None:
    good = checked(record("200", 0.0), attempt(0, "503"), attempt(1, "200", 1.0))
    assert (good.valid, good.lines, good.total) == (True, (), 0)


def test_every_slot_that_is_no_measurement_has_its_line() -> None:
    told = checked(record("200"), record("401*4", task="task-7"), record("", id="r9"))
    assert told.valid is False
    assert told.lines == (
        (
            "task-7: does not count: the key was refused (auth, 401 on 4 of 4 calls), "
            "the operator's; mend the key and run it again"
        ),
        (
            "r9: does not count: a prompt was executed, yet no call, token or tool call was seen; "
            "check the agent's base URL"
        ),
    )


def test_a_batch_that_is_not_over_is_not_valid() -> None:
    seen = rollout("200", running=True)
    told = checked(Entry.of(result(seen, judge(seen))))
    assert told.lines == (
        "task-7: not finished: its runner has not reported, or calls are in flight",
    )


def test_a_rollout_that_no_model_answered_is_not_decided() -> None:
    told = checked(record("302+empty", id="r3"))
    assert told.lines[1:] == (
        (
            "r3: not known if it counts: evidence is missing (no output of the model was read); "
            "look at the calls"
        ),
    )


def aborted(name: str, **policy: Any) -> Entry:
    """Return a rollout whose last answer's engine aborted."""
    whole = rollout("200 200", task=name, id=name, rewards={"reward": 1.0})
    first, last = whole.exchanges
    seen = replace(whole, exchanges=(first, replace(last, finish_reason="abort")), **policy)
    return Entry.of(result(seen, judge(seen)))


def test_a_spoilt_measurement_takes_its_slot_away() -> None:
    batch = summarized([record("200", 0.0), aborted("t1")])
    assert (batch.check.valid, batch.scores.scoreable, batch.scores.score_effective) == (
        False,
        1,
        0.0,
    )
    (line,) = batch.check.lines
    assert line.startswith("t1: does not count: the engine aborted 1 of 2 answers")
    assert batch.summaries == (
        "1 rollout reached a model, but its score does not count: see validity_info",
    )
    assert batch.diagnostics == {"validity_info": 1}
    assert (batch.validity, batch.validity_checks) == ({"invalid": 1}, {"engine_aborted": 1})


def test_what_is_found_and_counts_all_the_same_is_said_and_leaves_a_batch_valid() -> None:
    slow = record("200")._replace(rollout_id="t2", validity=" suspect starved serving_changed ")
    mild = record("200")._replace(rollout_id="t3", validity=" info serving_changed ")
    batch = summarized([aborted("t1", validity="none"), slow, mild])
    assert (batch.check.valid, batch.scores.scoreable) == (True, 3)
    assert batch.check.lines == (
        "invalid, and counted all the same: t1 (engine_aborted)",
        "suspect, and counted all the same: t2 (starved)",
    )
    assert batch.validity == {"invalid": 1, "suspect": 1, "info": 1}
    assert batch.validity_checks == {"serving_changed": 2, "engine_aborted": 1, "starved": 1}
    many = summarized([slow._replace(rollout_id=f"r{n}") for n in range(12)])
    (line,) = many.check.lines
    assert line.startswith("suspect, and counted all the same: 12 rollouts: r0 (starved), ")
    assert line.count("(starved)") == 10


def test_sums_say_how_many_calls_they_stand_on() -> None:
    told = record("200")._replace(summed_calls=5, tokens_known_calls=4, cost_known_calls=0)
    batch = summarized([told, told._replace(cost_known_calls=5), record("200")])
    assert (batch.calls, batch.tokens_known_calls, batch.cost_known_calls) == (10, 8, 5)
    assert summarized([record("200")]).calls is None


def test_a_batch_is_summed_over_every_attempt() -> None:
    batch = summarized([attempt(0, "401"), attempt(1, "429 200", 1.0), record("", 0.0)])
    assert batch.health == {"api_error": 1, "healthy": 1, "suspected_api_error": 1}
    assert batch.subcategory == {"auth": 1}
    assert batch.fingerprint == {"auth:401": 1, "suspected:zero_signal": 1}
    assert (batch.input_tokens, batch.output_tokens, batch.total_tokens) == (10, 20, 30)
    assert (batch.cost_usd, batch.pending) == (None, 0)
    assert batch.scores.total == 2
    assert batch.summaries == (
        "1 rollout failed on provider errors: see api_error_info",
        "1 rollout suggests a provider failure: see suspected_api_error_info",
    )


CASES = st.tuples(st.sampled_from(["200", "401", "", "lost"]), st.sampled_from([0.0, 0.5, 1.0]))


@given(st.lists(CASES, min_size=1, max_size=8))
def test_every_score_lies_between_the_bounds(cases: list[tuple[str, float]]) -> None:
    told = scored(*(record(text, reward) for text, reward in cases))
    assert told.score_worst is not None
    assert told.score_best is not None
    between = [told.score_worst, told.score_effective or told.score_worst, told.score_best]
    if told.score_effective is not None:
        assert between == sorted(between)
    assert told.score_all == told.score_worst
    gap = 1 - (told.coverage or 0)
    assert told.score_best - told.score_worst == pytest.approx(gap)


def test_a_slot_that_was_never_scored_counts_its_last_attempt() -> None:
    attempts = [
        record("429*3", 0.0, task="t", attempt=0), record("401*3", 0.0, task="t", attempt=1),
    ]  # fmt: skip
    (slot,) = task_repeats(attempts)
    assert slot.counted is attempts[1]


def test_exclusions_that_strike_hard_tasks_make_a_batch_invalid() -> None:
    def repeats(task: str, *texts: tuple[str, float]) -> list[Entry]:
        return [
            record(text, reward, task=task, attempt=0, id=f"{task}-{nth}")
            for nth, (text, reward) in enumerate(texts)
        ]

    hard = [repeats(f"hard-{n}", ("401", 0.0), ("200", 0.0)) for n in range(7)]
    easy = [repeats(f"easy-{n}", ("200", 1.0), ("200", 1.0)) for n in range(7)]
    batch = summarized([entry for group in (*hard, *easy) for entry in group])
    assert batch.exclusion.bias is True
    assert batch.exclusion.p == 2 / 3432
    assert batch.check.lines[0] == (
        "exclusions bias the mean: what is kept of the 7 tasks with exclusions on an unknown lane "
        "averages 0, of the 7 without any 1 (p = 0.00058)"
    )
    struck_at_random = [
        repeats(f"task-{n}", ("401" if n % 2 else "200", 0.0), ("200", float(n % 4 > 1)))
        for n in range(16)
    ]
    fair = summarized([entry for group in struck_at_random for entry in group])
    assert fair.exclusion.bias is False
    assert not any("bias" in line for line in fair.check.lines)


def test_what_a_later_attempt_filled_is_no_exclusion() -> None:
    entries = [
        record(text, reward, task=f"task-{n}", attempt=attempt, id=f"{n}-{attempt}-{text}")
        for n in range(12)
        for attempt, text, reward in ((0, "401", 0.0), (1, "200", 1.0))
    ]
    assert summarized(entries).exclusion.comparisons == ()
