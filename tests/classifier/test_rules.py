"""What a verdict says beside its health: counts, names, doom, lost time, warnings."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from classifier import EVIDENCE, Health, RolloutRecord, judge
from classifier.codec import decode_exchange, encode_exchange
from classifier.logical_calls import calls_of, counted
from tests.builders import STARTED, calls, exchange, rollout

# ── counts ───────────────────────────────────────────────────────────────────


def test_the_same_request_sent_anew_is_a_call_of_its_own() -> None:
    once = calls("429")[0]
    anew = replace(exchange(200, at=1.0), request_digest=once.request_digest)
    assert len(calls_of(counted((once, anew)))) == 2


def test_a_retry_of_another_request_is_no_attempt_of_this_one() -> None:
    other = replace(exchange(200, at=1.0), request_digest="else", sdk_retry=1)
    assert len(calls_of(counted((*calls("429"), other)))) == 2


# ── properties ───────────────────────────────────────────────────────────────

WORDS = [
    "200", "200+tool", "200+empty", "200+nousage", "200+unread", "200+truncated",
    "200+text+truncated", "200+side", "401", "402", "404", "429", "429+quota", "503", "400",
    "400+context_length", "net", "timeout", "left", "left+text", "lost", "pending", "401+side",
    "200+judge", "429+judge", "404+probe", "200@o4", "503@o4", "400+malformed", "200+thought",
    "503+toolless", "200+toolless+small", "401+small", "200+queued", "200+polled", "200+fetched",
    "503+polled", "200+media", "401+embed", "200%azure", "503%azure", "200+read", "200+garbled",
    "200+tool+read", "200+blank", "200+unseen", "200+garbled+side", "200+media+garbled",
    "200+media+read", "404", "400+lost_state", "503+other", "200+shaped%azure",
]  # fmt: skip
SEQUENCES = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)


def crowded(text: str, seed: int) -> RolloutRecord:
    """Make the same calls overlap: starts and durations are drawn anew."""
    drawn = random.Random(seed)
    placed = tuple(
        replace(
            x,
            timing=replace(
                x.timing,
                started_at=STARTED + drawn.randrange(4),
                duration_s=None if x.ending is None else float(drawn.randrange(4)),
            ),
        )
        for x in calls(text)
    )
    return rollout(exchanges=placed)


@given(SEQUENCES, st.integers(0, 99), st.randoms(use_true_random=False))
def test_the_order_in_which_records_arrive_changes_nothing(
    text: str, seed: int, shuffled: random.Random
) -> None:
    seen = crowded(text, seed)
    arrived = list(seen.exchanges)
    shuffled.shuffle(arrived)
    assert judge(replace(seen, exchanges=tuple(arrived))) == judge(seen)


SEVERITY = {
    Health.HEALTHY: 0,
    Health.NOT_JUDGED: 0,
    Health.UNDECIDED: 1,
    Health.SUSPECTED_API_ERROR: 2,
    Health.API_ERROR: 3,
}


@given(SEQUENCES)
def test_a_success_behind_everything_never_makes_it_worse(text: str) -> None:
    before = judge(rollout(text))
    after = judge(rollout(text, "200+tool"))
    assert SEVERITY[after.health] <= SEVERITY[before.health]


@given(SEQUENCES)
def test_a_last_answer_of_the_main_model_is_never_an_api_error(text: str) -> None:
    verdict = judge(rollout(text, "200+tool", model="gpt-5"))
    assert verdict.health is not Health.API_ERROR
    assert verdict.doomed is False


@given(SEQUENCES, st.integers(0, 99))
def test_an_export_is_judged_as_the_live_rollout_was(text: str, seed: int) -> None:
    seen = crowded(text, seed)
    read = tuple(decode_exchange(encode_exchange(x)) for x in seen.exchanges)
    assert judge(replace(seen, exchanges=read)) == judge(seen)


@given(SEQUENCES)
def test_counts_never_contradict_each_other(text: str) -> None:
    verdict = judge(rollout(text))
    counted_calls = (verdict.recovered_requests, verdict.failed_requests, verdict.total_requests)
    assert tuple(sorted(counted_calls)) == counted_calls
    assert sum(verdict.status_counts.values()) >= verdict.failed_requests
    if verdict.rule == "all_failed":
        assert (verdict.recovered_requests, verdict.scoreable) == (0, "no")


@given(SEQUENCES, st.sampled_from([None, {"reward": 0.0}, {"reward": 1.0}]))
def test_rewards_never_decide(text: str, rewards: dict[str, float] | None) -> None:
    with_rewards, without = (judge(rollout(text, rewards=each)) for each in (rewards, None))
    beside: dict[str, Any] = {"validity": (), "validity_coverage": {}}  # `unearned` reads rewards
    assert replace(with_rewards, **beside) == replace(without, **beside)


@given(SEQUENCES)
def test_judging_again_says_the_same(text: str) -> None:
    seen = rollout(text)
    assert judge(seen, policy=EVIDENCE) == judge(seen)
