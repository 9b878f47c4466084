"""The breaker of a lane: what opens it, who may pass, what closes it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier import Policy, RolloutRecord, judge
from classifier.breakers import (
    Admission,
    BreakerState,
    Phase,
    admit,
    at,
    feed,
    lane_to_prove,
    reset,
)
from classifier.fingerprints import Lane
from classifier.verdicts import Comparison, Verdict, VerdictReference
from tests.builders import rollout

LANE = "openai/gpt-5/key-3f9a"
NOW = 1_000.0


class Desk:
    """A batch's breakers as a database would hold them."""

    def __init__(self, threshold: int = 5) -> None:
        self.policy = Policy(breaker_threshold=threshold)
        self.states: dict[str, BreakerState] = {}
        self.fed = 0
        self.called: list[Lane] = []  # the lanes of calls that were seen

    def give(self, *texts: str, now: float = NOW, **said: Any) -> BreakerState:
        for text in texts:
            self.fed += 1
            told = judge(rollout(text, **{"id": f"r{self.fed}"} | said))
            lane = lane_to_prove(told)
            seen = lane is not None and any(lane.meets(call) for call in self.called)
            if told.total_requests:
                self.called.append(Lane.read(told.lane or ""))
            for state in feed(self.states.values(), told, now=now, policy=self.policy, seen=seen):
                self.states[state.lane] = state
        return self[LANE]

    def __getitem__(self, lane: str) -> BreakerState:
        return self.states.get(lane, BreakerState(batch="b1", lane=lane, threshold=5))

    def admit(self, *, now: float = NOW, **said: Any) -> Admission:
        names: dict[str, Any] = {"id": "new", "batch": "b1", "upstream": "openai", "model": "gpt-5"}
        admission = admit(RolloutRecord(**names | said), list(self.states.values()), now=now)
        for state in admission.changed:
            self.states[state.lane] = state
        return admission


def test_five_equal_permanent_failures_in_a_row_open_it() -> None:
    desk = Desk()
    assert desk.give(*["401*2"] * 4).phase is Phase.CLOSED
    assert desk.admit().error is None
    state = desk.give("401*2")
    assert (state.phase, state.streak, state.fingerprint) == (Phase.OPEN, 5, "auth:401")
    assert state.tripped_by == ("r1", "r2", "r3", "r4", "r5")
    assert state.opened_at == NOW
    assert desk.admit().error == (
        "skipped: breaker open on auth:401 after 5 rollouts in a row; "
        "fix the cause, then truezero breaker reset b1"
    )


AUTH = "auth:401"
FOUR, FIVE = ("401",) * 4, ("401",) * 5


@pytest.mark.parametrize(
    ("lives", "phase", "streak", "fingerprint"),
    [
        # Every kind of permanent failure counts, and what is suspected does by its rule.
        ("200 401", Phase.OPEN, 5, AUTH),
        ("402", Phase.OPEN, 5, "quota:402"),
        ("404", Phase.OPEN, 5, "model_not_found:404"),
        ("400", Phase.OPEN, 5, "rejected_request:400"),
        ("429+quota", Phase.OPEN, 5, "quota:429"),
        ("200+empty", Phase.OPEN, 5, "suspected:empty_answers"),
        ("200+garbled", Phase.OPEN, 5, "suspected:unread_answers"),
        # Transient failures do not.
        *(
            (text, Phase.CLOSED, 0, None)
            for text in ("429", "503", "net", "200 529", "402+transient")
        ),
        # Neither they nor what proves nothing break a streak.
        *(
            (("401", "401", text, *FIVE[2:]), Phase.OPEN, 5, AUTH)
            for text in ("503", "lost", "302+empty", "200+tool 400", "200+unseen")
        ),
        ((*FOUR, "200", *FOUR), Phase.CLOSED, 4, AUTH),
        ((*FOUR, "200", *FIVE), Phase.OPEN, 5, AUTH),
        ((*FOUR, "402", "401"), Phase.CLOSED, 1, AUTH),
        # What was in flight when it opened changes nothing.
        ((*FIVE, "401", "402", "", "503"), Phase.OPEN, 5, AUTH),
    ],
)
def test_failures_alike_in_a_row_open_it(
    lives: str | tuple[str, ...], phase: Phase, streak: int, fingerprint: str | None
) -> None:
    state = Desk().give(*((lives,) * 5 if isinstance(lives, str) else lives))
    assert (state.phase, state.streak, state.fingerprint) == (phase, streak, fingerprint)
    assert len(state.tripped_by) == streak


def _at_500(code: str | None, result: Comparison | None) -> Verdict:
    """Return a rollout's verdict: a permanent cause at a 500, and how a question compares."""
    told = judge(rollout("500+auth"))
    asked = VerdictReference(exchange_id=told.evidence[0], series="s", result=result, started_at=1)
    cause = f"v1:auth:openai:500:{code or '-'}"
    return replace(told, cause=cause, references=() if result is None else (asked,))


@pytest.mark.parametrize(
    "code, result, opens",
    [
        (None, None, False),  # a sentence alone: the server failed at something, as a 5xx says
        ("server_error", Comparison.NO_REFERENCE, False),
        (None, Comparison.ANSWERED, False),
        (None, Comparison.FAILED_ALIKE, True),
        ("invalid_api_key", None, True),  # a name that providers coined
    ],
)
def test_what_only_a_sentence_says_at_a_5xx_opens_nothing_unless_a_question_fails(
    code: str | None, result: Comparison | None, *, opens: bool
) -> None:
    states: list[BreakerState] = []
    for number in range(6):
        told = replace(_at_500(code, result), rollout_id=f"r{number}")
        states = feed(states, told, now=NOW) or states
    assert [state.phase for state in states] == [Phase.OPEN if opens else Phase.CLOSED]


def test_a_lane_is_none_of_anothers_business() -> None:
    desk = Desk()
    desk.give(*["401#aaaa"] * 3, *["401#bbbb"] * 3)
    assert [state.streak for state in desk.states.values()] == [3, 3]
    desk.give("200#bbbb")
    assert desk["openai/gpt-5/key-aaaa"].streak == 3


def test_rollouts_without_a_call_open_a_lane_on_which_their_batch_made_one() -> None:
    desk = Desk()
    desk.give("503", upstream="openai", model="gpt-5")
    desk.give(*[""] * 5, upstream="openai", model="gpt-5")
    state = desk["openai/gpt-5/-"]
    assert (state.phase, state.fingerprint) == (Phase.OPEN, "suspected:zero_signal")
    assert desk.admit(model="gpt-5").error is not None
    assert desk.admit(model="gpt-9").error is None


def test_rollouts_without_a_call_stop_no_batch_of_which_no_call_was_seen() -> None:
    desk = Desk()
    desk.give(*[""] * 20, upstream="openai", model="gpt-9")
    state = desk["openai/gpt-9/-"]
    assert (state.phase, state.streak) == (Phase.CLOSED, 20)
    assert desk.admit(model="gpt-9").error is None


@pytest.mark.parametrize(
    "named", [{}, {"upstream": "openai"}, {"model": "gpt-5"}], ids=["nothing", "upstream", "model"]
)
def test_a_lane_of_unknown_parts_never_opens(named: dict[str, Any]) -> None:
    desk = Desk()
    desk.give("503")
    desk.give(*[""] * 20, **named)
    assert {state.phase for state in desk.states.values()} == {Phase.CLOSED}
    assert desk.admit().error is None


def test_an_answer_on_the_lane_ends_the_streak_of_rollouts_that_never_called_it() -> None:
    desk = Desk()
    for _ in range(4):
        desk.give("", upstream="openai", model="gpt-5")
    desk.give("200")
    assert desk["openai/gpt-5/-"].streak == 0


def test_zero_disables_it() -> None:
    desk = Desk(threshold=0)
    assert desk.give(*["401"] * 20).phase is Phase.CLOSED
    assert desk.admit().error is None


def test_batches_have_their_own_breakers() -> None:
    desk = Desk()
    desk.give(*["401"] * 5)
    assert desk.admit(batch="b2").error is None
    assert desk.admit(batch=None).error is None
    desk.give("200", batch="b2")
    assert desk[LANE].phase is Phase.OPEN


@pytest.mark.parametrize(
    ("named", "held"),
    [
        ({"upstream": "openai", "model": "gpt-5"}, True),
        ({"upstream": "openai", "model": "openai/GPT-5"}, True),
        ({"upstream": "openai", "model": None}, True),
        ({"upstream": None, "model": "gpt-5"}, True),
        ({"upstream": None, "model": None}, True),
        ({"upstream": "anthropic", "model": "gpt-5"}, False),
        ({"upstream": "openai", "model": "gpt-5-mini"}, False),
        ({"upstream": "anthropic", "model": None}, False),
    ],
)
def test_a_registration_is_held_by_what_it_names(named: dict[str, Any], held: bool) -> None:
    desk = Desk()
    desk.give(*["401"] * 5)
    assert (desk.admit(**named).error is not None) is held


def test_a_lane_with_slashes_in_its_model_is_held() -> None:
    desk = Desk()
    desk.give(*["401@meta-llama/llama-4%openrouter"] * 5)
    assert desk.admit(upstream="openrouter", model="meta-llama/llama-4").error is not None


def test_only_final_verdicts_of_a_batch_are_counted_and_each_once() -> None:
    verdict = judge(rollout("401"))
    (once,) = feed([], verdict, now=NOW)
    assert feed([once], verdict, now=NOW) == []
    assert feed([], judge(rollout("401*9", running=True)), now=NOW) == []
    assert feed([], judge(rollout("401*9", batch=None)), now=NOW) == []
    assert reset(once).streak == 0, "a reset forgets it"


# ── half open ────────────────────────────────────────────────────────────────


def half_open() -> Desk:
    desk = Desk()
    desk.states[LANE] = reset(desk.give(*["401"] * 5))
    return desk


def test_a_reset_admits_one_canary() -> None:
    desk = half_open()
    assert desk.admit(id="bird").error is None
    assert desk[LANE].canary == "bird"
    assert desk.admit(id="other").error == (
        "skipped: breaker half open on auth:401 after 5 rollouts in a row, waiting for bird; "
        "to admit another probe: truezero breaker reset b1"
    )
    assert desk.admit(id="bird").error is None


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("200", Phase.CLOSED),
        *((text, Phase.OPEN) for text in ("401", "402", "200+empty")),
        *((text, Phase.HALF_OPEN) for text in ("503", "lost", "")),  # these prove nothing
    ],
)
def test_a_canary_closes_it_opens_it_again_or_lets_the_next_one_try(
    text: str, phase: Phase
) -> None:
    desk = half_open()
    desk.admit(id="bird")
    state = desk.give(text, id="bird", now=NOW + 60)
    assert (state.phase, state.canary, state.streak == 0) == (phase, None, phase is Phase.CLOSED)
    assert (state.opened_at == NOW + 60) is (phase is Phase.OPEN)
    assert (desk.admit(id="second").error is None) is (phase is not Phase.OPEN)


def test_a_healthy_completion_in_flight_earns_an_open_breaker_a_canary() -> None:
    desk = Desk()
    desk.give(*["401"] * 5)
    assert desk.give("200").phase is Phase.HALF_OPEN
    assert desk.admit(id="bird").error is None
    assert desk.admit(id="second").error is not None


def test_an_open_breaker_admits_a_probe_after_a_minute_and_twice_as_long_after_each_failure() -> (
    None
):
    desk = Desk()
    now = NOW
    assert desk.give(*["401*2"] * 5, now=now).probe_at == NOW + 60
    for n, cool_down_s in enumerate((60, 120, 240, 480, 600, 600)):
        assert desk.admit(id="early", now=now + cool_down_s - 1).error is not None
        now += cool_down_s
        assert desk.admit(id=f"bird{n}", now=now).error is None
        assert desk.admit(id="other", now=now + 1).error is not None, "one at a time"
        state = desk.give("401*2", id=f"bird{n}", now=now)
        assert (state.phase, state.failed_probes) == (Phase.OPEN, n + 1)
    desk.admit(id="last", now=now + 600)
    assert desk.give("200", id="last", now=now + 601).phase is Phase.CLOSED
    assert desk.give(*["401*2"] * 5, now=now).probe_at == now + 60, "it begins anew"


def test_a_probe_of_which_nothing_is_heard_for_ten_minutes_has_failed() -> None:
    desk = Desk()
    desk.give(*["401*2"] * 5)
    assert desk.admit(id="bird", now=NOW + 60).error is None
    assert desk.admit(id="bird", now=NOW + 100).error is None, "registered again"
    gone = at(desk[LANE], NOW + 660)
    assert (gone.phase, gone.canary, gone.failed_probes) == (Phase.OPEN, None, 1)
    assert desk.admit(id="second", now=NOW + 660 + 119).error is not None
    assert desk.admit(id="second", now=NOW + 660 + 120).error is None
    assert desk.give("200", id="bird").phase is Phase.HALF_OPEN, "no probe any more"


def test_probes_can_be_left_to_people() -> None:
    desk = Desk()
    desk.policy = replace(desk.policy, breaker_probe=False)
    assert desk.give(*["401*2"] * 5).probe_at is None
    assert desk.admit(now=NOW + 1e6).error is not None
    desk.states[LANE] = reset(desk[LANE])
    assert desk.admit(now=NOW + 1e6).error is None


def test_a_quotas_known_reset_time_half_opens_it() -> None:
    desk = Desk()
    state = desk.give(*["429+quota~3600"] * 5)
    assert (state.phase, state.retry_at) == (Phase.OPEN, NOW + 3600)
    assert desk.admit(now=NOW + 3599).error is not None
    assert at(state, NOW + 3600).phase is Phase.HALF_OPEN
    assert desk.admit(id="bird", now=NOW + 3600).error is None
    assert (desk[LANE].phase, desk[LANE].canary) == (Phase.HALF_OPEN, "bird")


def test_a_rollout_held_by_two_half_open_lanes_is_the_canary_of_both() -> None:
    desk = Desk()
    desk.give(*["401#aaaa"] * 5, *["401#bbbb"] * 5)
    desk.states = {lane: reset(state) for lane, state in desk.states.items()}
    assert len(desk.admit(id="bird").changed) == 2
    desk.give("200#aaaa", id="bird")
    assert {state.phase for state in desk.states.values()} == {Phase.CLOSED}


@given(st.lists(st.sampled_from(["401", "402", "503", "200", "", "lost", "400"]), max_size=30))
def test_a_breaker_opens_only_on_a_streak_and_is_always_one_row(texts: list[str]) -> None:
    desk = Desk(threshold=3)
    for text in texts:
        desk.give(text)
    for state in desk.states.values():
        proven = state.lane != str(Lane())
        assert (state.phase is Phase.CLOSED) is (state.streak < 3 or not proven)
        assert len(state.tripped_by) == state.streak
        row = json.loads(json.dumps(asdict(state)))
        row |= {"phase": Phase(row["phase"]), "tripped_by": tuple(row["tripped_by"])}
        assert BreakerState(**row) == state
