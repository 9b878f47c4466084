"""The law of a lane: who waits, who tries, when a try is due, what a failed one counts for."""

from __future__ import annotations

import math
from collections.abc import Sequence

from classifier.lane import (
    Counted,
    Silence,
    Spell,
    State,
    TurnTaken,
    cool_down_s,
    repetitions,
    sentence,
    silence,
    tries,
    turn,
    wait_s,
)
from classifier.lane_health import Failures, LaneTally, RolloutCalls
from classifier.verdicts import Subcategory
from tests.tables import each

DOWN = Silence(since=1000.0, last=1000.0, failed=4, cause="provider_error")


def test_waits_double_up_to_their_longest() -> None:
    assert [wait_s(n) for n in range(8)] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert wait_s(10_000) == 60.0
    assert [cool_down_s(n) for n in range(6)] == [60.0, 120.0, 240.0, 480.0, 600.0, 600.0]


# --- whether it is down ------------------------------------------------------------------------


def failing(
    minute: int,
    *at: float,
    cause: str = Subcategory.PROVIDER_ERROR,
    answered_at: float | None = None,
    more: int = 0,
) -> LaneTally:
    """A minute in which rollouts failed, each once, so many seconds after the begin of all."""
    return LaneTally(
        minute=minute,
        calls=len(at),
        answered=0,
        failed={},
        last_answered_at=answered_at,
        last_failed_at=max(at, default=None),
        failing={
            f"r{minute}-{n}": RolloutCalls(0, {cause: Failures(1, True, begin, begin)})
            for n, begin in enumerate(at)
        },
        more_failing={cause: more} if more else {},
    )


def test_failures_since_the_last_answer_are_a_silence() -> None:
    assert silence([]) is None
    assert silence([failing(10, 601.0, answered_at=602.0)]) is None
    minutes = [failing(10, 601.0, 603.0, answered_at=602.0), failing(11, 661.0, 662.0)]
    assert silence(minutes) == Silence(since=603.0, last=662.0, failed=3, cause="provider_error")
    other = failing(11, 663.0, answered_at=661.5)
    assert silence([*minutes, other]) == Silence(
        since=662.0, last=663.0, failed=2, cause="provider_error"
    ), "of any key"


@each("cause", [Subcategory.AUTH, Subcategory.QUOTA, Subcategory.MODEL_NOT_FOUND])
def test_what_waiting_does_not_mend_is_no_silence(cause: Subcategory) -> None:
    assert silence([failing(10, 601.0, 602.0, cause=cause, more=7)]) is None


def test_rollouts_that_have_no_name_in_a_minute_are_part_of_a_silence() -> None:
    minute = failing(10, 601.0, 602.0, more=100)
    assert silence([minute]) == Silence(since=601.0, last=602.0, failed=102, cause="provider_error")


def taken(
    silent: Silence | None, now: float, probed_at: float | None = None, pending: int = 0
) -> TurnTaken:
    return turn(silent, pending=pending, probed_at=probed_at, now=now, drawn=1.0)


def test_nobody_waits_for_a_lane_that_answers_or_may_answer() -> None:
    assert taken(None, 1000.0).state is State.ANSWERING
    few = Silence(since=1000.0, last=1000.0, failed=3, cause="provider_error")
    assert taken(few, 1000.0).state is State.ANSWERING
    assert taken(DOWN, 1000.0, pending=4).state is State.ANSWERING, "as many are on their way"
    assert taken(DOWN, 1000.0, pending=3).state is State.WAITING


def test_probes_are_due_after_1_2_4_and_up_to_60_seconds() -> None:
    last, due = 1000.0, []
    for _ in range(9):
        at = Silence(since=1000.0, last=last, failed=9, cause="c").next_at(None)
        due.append(at - 1000.0)
        last = at
    assert due == [1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 123.0, 183.0, 243.0]


def test_one_of_all_that_ask_is_the_probe() -> None:
    assert taken(DOWN, 1000.5).state is State.WAITING
    assert taken(DOWN, 1001.0).state is State.PROBING
    out = taken(DOWN, 1001.1, probed_at=1001.0)
    assert (out.state, out.next_at) == (State.WAITING, 1061.0), "until it has failed, or a minute"
    failed = Silence(since=1000.0, last=1001.5, failed=5, cause="provider_error")
    assert taken(failed, 1002.0, probed_at=1001.0).next_at == 1004.0
    assert taken(None, 1002.0, probed_at=1001.0).state is State.ANSWERING, "it was answered"


def test_those_that_wait_do_not_come_back_together_nor_late() -> None:
    long = Silence(since=0.0, last=1000.0, failed=9, cause="c")
    asks = [turn(long, pending=0, probed_at=None, now=1000.0, drawn=n / 9) for n in range(10)]
    assert len({each.ask_s for each in asks}) == 10
    assert {math.floor(each.ask_s) for each in asks} <= set(range(5, 11))


@each("down_s, most_s", [(2.0, 1.0), (20.0, 5.0), (300.0, 10.0)])
def test_who_waits_for_a_probe_that_is_out_comes_back_soon(down_s: float, most_s: float) -> None:
    before = Silence(since=1000.0 - down_s, last=1000.0, failed=9, cause="c")
    at = 1000.0 + down_s
    asks = [
        turn(before, pending=0, probed_at=at, now=at, drawn=drawn).ask_s for drawn in (0.0, 1.0)
    ]
    assert asks == [most_s / 2, most_s], "all come back, staggered, in a part of what it lasted"


def test_a_lane_that_is_down_says_when_the_next_try_is() -> None:
    said = [sentence("m", DOWN, taken(DOWN, now), now=now) for now in (999.0, 1001.0)]
    down = "m has answered nobody since 1970-01-01T00:16:40Z (provider_error)"
    assert said == [f"{down}: the next try is due in 2 s", f"{down}: this is the next try"]


# --- what counts -------------------------------------------------------------------------------


def counted(
    begins: Sequence[float], spells: Sequence[tuple[float, int]], lasts: int = 0, now: float = 0.0
) -> Counted:
    """Count by the times without an answer: when each ended, and how many new tasks failed."""

    def spell_at(at: float) -> Spell:
        return next((Spell(end, n) for end, n in spells if at < end), Spell(None, lasts))

    return tries(begins, spell_at, now=now or begins[-1] + 1)


def test_tries_beside_answers_count() -> None:
    assert counted([10.0, 20.0, 30.0], [(15.0, 1), (25.0, 1), (35.0, 1)]) == Counted(3, True)
    assert counted([10.0, 20.0, 30.0], [(15.0, 1), (35.0, 1)]) == Counted(2, True)
    assert counted([10.0, 11.0, 13.0], [(15.0, 1)]) == Counted(1, True), "once in one silence"


def test_tries_in_an_outage_do_not_count_while_it_lasts_nor_when_it_is_over() -> None:
    assert counted([10.0, 11.0, 13.0, 99.0], [], lasts=4) == Counted(0, False)
    assert counted([10.0, 11.0, 13.0], [(15.0, 4)]) == Counted(0, False)
    assert counted([10.0, 20.0, 30.0], [(15.0, 4), (25.0, 1)], lasts=4) == Counted(1, False)


def test_the_word_of_few_is_believed_for_a_minute() -> None:
    begins = [10.0, 11.0, 13.0, 17.0, 25.0, 41.0]
    assert counted(begins, [], lasts=3) == Counted(0, False)
    assert counted([*begins, 73.0], [], lasts=3) == Counted(1, True)
    assert counted([*begins, 73.0, 133.0], [], lasts=3) == Counted(2, True)
    assert counted([*begins, 73.0, 133.0], [], lasts=4) == Counted(0, False), "that of many is"


def test_a_task_that_failed_beside_answers_is_not_believed() -> None:
    assert counted([10.0, 20.0, 21.0], [(15.0, 1)], lasts=3) == Counted(3, True)
    assert counted([10.0, 20.0, 21.0], [(15.0, 1)], lasts=4) == Counted(1, False)


def test_patience_with_a_silent_lane_ends_after_an_hour() -> None:
    assert counted([0.0, 10.0, 20.0], [], lasts=9, now=3_599.0) == Counted(0, False)
    assert counted([0.0, 10.0, 20.0], [], lasts=9, now=3_601.0) == Counted(3, True)


def test_repetition_ends_at_another_cause() -> None:
    assert repetitions("a", ["a", "b", "a"]) == 2
    assert repetitions("a", []) == 1
    assert repetitions(None, ["a"]) == 0
