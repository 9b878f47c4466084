"""A score counts because output of the model was read, and the verdict says where."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from classifier import Health, RolloutRecord, Verdict, judge
from classifier.breakers import BreakerState, Phase, feed
from classifier.codec import decode_verdict, encode_result, encode_verdict
from classifier.diagnostics import UndecidedInfo, diagnose
from classifier.records import Usage
from classifier.results import result
from classifier.rules import references_wanted
from classifier.verdicts import SEED, AttributedTo, Proof, ProofSource
from tests.builders import asked, calls, outcome, rollout
from tests.classifier.truth import SEQUENCES, TABLE
from tests.tables import each


def wire(first: str, last: str) -> Proof:
    return Proof(ProofSource.WIRE, first, last)


def test_a_result_has_its_verdicts_proof_and_the_seed_has_none() -> None:
    for row in TABLE:
        verdict = row.verdict()
        assert result(row.rollout, verdict).proof == verdict.proof, str(row)
        assert row.verdict(SEED).proof is None, str(row)


def test_a_token_counted_before_the_first_word_is_no_output() -> None:
    read, left = calls("200+tool+read left")
    counted = replace(
        left, status=200, output_seen=False, content_seen=False, usage=Usage(output_tokens=1)
    )
    assert judge(rollout(exchanges=(read, counted))).proof == wire("x0", "x0")


def test_the_proof_does_not_depend_on_the_order_in_which_calls_arrived() -> None:
    seen = calls("200+tool+read[0-9] 200+tool+read[1-3] 200+read[2-6]")
    assert judge(rollout(exchanges=seen[::-1])).proof == wire("x1", "x0")


def excepted(seen: RolloutRecord, verdict: Verdict) -> bool:
    """Whether the design lets a score count without proof."""
    return seen.usage_channel == "none" or verdict.attributed_to == "agent"


def test_no_score_counts_without_proof() -> None:
    for row in (*TABLE, *SEQUENCES):
        verdict = row.verdict()
        if verdict.scoreable == "yes" and not excepted(row.rollout, verdict):
            assert verdict.proof is not None, str(row)
        if verdict.health is Health.HEALTHY:
            assert verdict.proof or excepted(row.rollout, verdict), str(row)


WORDS = ["200+read", "200+tool+read", "200+garbled", "200+blank", "200+unseen", "200+queued",
         "401", "404", "429+quota", "503", "400", "400+malformed", "400+lost_state", "left",
         "left+text", "302+empty", "pending", "200+text+truncated", "200+media+garbled",
         "200+media+read", "200+media+quota", "503+other", "200", "200+empty"]  # fmt: skip
LIFE = st.lists(st.sampled_from(WORDS), max_size=8)
SAID = st.sampled_from([{}, {"model": "gpt-5"}, {"status": "agent_error"}, {"total_tokens": 9}])


@given(LIFE, SAID)
def test_no_life_counts_without_proof(words: list[str], said: dict[str, Any]) -> None:
    seen = rollout(" ".join(words), **said)
    verdict = judge(seen)
    if verdict.scoreable == "yes":
        assert verdict.proof is not None or excepted(seen, verdict)


@given(LIFE, SAID, st.integers(0, 8), st.integers(1, 3))
def test_an_unread_answer_never_makes_a_score_count(
    words: list[str], said: dict[str, Any], at: int, times: int
) -> None:
    before = judge(rollout(" ".join(words), **said))
    answered = words[:at] + ["200+garbled"] * times + words[at:]
    after = judge(rollout(" ".join(answered), **said))
    if before.scoreable != "yes":
        assert after.scoreable != "yes"


@given(LIFE, SAID)
def test_an_unread_answer_at_the_end_makes_no_failure_good(
    words: list[str], said: dict[str, Any]
) -> None:
    assume("200+media+quota" not in words)  # a batch job counts where nothing else was asked
    before = judge(rollout(" ".join(words), **said))
    after = judge(rollout(" ".join([*words, "200+garbled"]), **said))
    if before.health is Health.API_ERROR:
        assert after.health is Health.API_ERROR


def test_what_is_missing_of_an_undecided_rollout_is_said() -> None:
    for text, missing in (
        ("302+empty", "calls never answered, nothing read"),
        ("200+unseen", "answers unseen, nothing read"),
    ):
        verdict = judge(rollout(text))
        assert (verdict.rule, verdict.scoreable) == ("undecided", "unknown"), text
        (info,) = diagnose(verdict)
        assert isinstance(info, UndecidedInfo)
        assert ", ".join(each.replace("_", " ") for each in info.missing) == missing
    assert judge(rollout("200+unseen*2")).evidence == ("x0", "x1")


# ── 404s, lost states, failures at paths of no dialect ───────────────────────


@each(
    "words, said, scoreable, to, warning",
    [
        (None, {}, "yes", AttributedTo.AGENT, "no_reference"),
        ("ok ok ok", {}, "yes", AttributedTo.AGENT, "provoked_suspected"),
        ("rejected_request", {}, "unknown", AttributedTo.PROVIDER, "ended_on_lost_state"),
        ("ok rejected_request", {}, "unknown", AttributedTo.PROVIDER, "reference_partly"),
        ("auth", {}, "unknown", AttributedTo.UNKNOWN, "reference_inconclusive"),
        ("", {"running": True}, "unknown", AttributedTo.UNKNOWN, "reference_pending"),
    ],
)
def test_a_question_decides_of_an_untrusted_agents_lost_state(
    words: str | None, said: dict[str, Any], scoreable: str, to: AttributedTo, warning: str
) -> None:
    seen = rollout("200+tool+read 400+lost_state", agents="untrusted")
    assert [need.id for need in references_wanted(seen)] == ["x1"]
    verdict = judge(seen if words is None else asked(seen, words, **said))
    assert verdict.health is Health.HEALTHY
    assert (verdict.scoreable, verdict.attributed_to) == (scoreable, to)
    assert warning in verdict.warnings
    assert "ended_on_lost_state" in verdict.warnings
    assert verdict.provisional is bool(said)
    recovered = rollout("200+tool+read 400+lost_state 200+tool+read", agents="untrusted")
    assert references_wanted(recovered) == []


def test_a_lost_state_dooms_nothing_and_counts_for_no_breaker() -> None:
    lost = [
        judge(rollout("404+lost_state*2", id=f"r{n}", batch="b", outcome=outcome()))
        for n in range(9)
    ]
    assert {(v.rule, v.scoreable, v.doomed) for v in lost} == {("all_failed", "no", False)}
    assert judge(rollout("404+lost_state*9", outcome=None)).doomed is False
    states: list[BreakerState] = []
    for verdict in lost:
        states = feed(states, verdict, now=0.0) or states
    assert [state for state in states if state.phase is not Phase.CLOSED or state.streak] == []


# ── stored verdicts ──────────────────────────────────────────────────────────


def test_a_proof_is_encoded_as_the_contract_says() -> None:
    cases: tuple[tuple[str, dict[str, Any], object], ...] = (
        ("200+read*2", {}, {"source": "wire", "first": "x0", "last": "x1"}),
        ("", {"total_tokens": 9}, {"source": "reported", "first": None, "last": None}),
        ("401", {}, None),
    )
    for text, said, expected in cases:
        seen = rollout(text, **said)
        verdict = judge(seen)
        told = json.loads(json.dumps(encode_verdict(verdict)))
        assert told["proof"] == expected
        assert encode_result(result(seen, verdict))["proof"] == expected
        assert decode_verdict(told).proof == verdict.proof


def test_a_verdict_stored_before_keeps_its_score_and_has_no_proof() -> None:
    told = encode_verdict(judge(rollout("200")))
    del told["proof"]
    verdict = decode_verdict(told)
    assert (verdict.scoreable, verdict.proof) == ("yes", None)
