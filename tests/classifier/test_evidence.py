"""The evidence that the rules read."""

from __future__ import annotations

from dataclasses import replace

from classifier import EVIDENCE, judge
from classifier.evidence import Evidence
from classifier.logical_calls import CallState
from tests.builders import exchange, rollout


def test_a_rollout_without_calls_has_the_lane_of_its_registration() -> None:
    assert judge(rollout(upstream="openai", model="gpt-9")).lane == "openai/gpt-9/-"
    assert judge(rollout(model="gpt-9")).lane == "-/gpt-9/-"
    assert judge(rollout()).lane is None


def test_the_runner_may_name_the_model_as_the_provider_does() -> None:
    main = exchange(200, model="sonnet", answered_model="claude-sonnet-4", request_bytes=10)
    cut = exchange(503, at=1.0, model="sonnet", request_bytes=10)
    side = exchange(200, at=0.5, model="haiku", id="side")
    seen = rollout(exchanges=(main, side, cut), model="claude-sonnet-4")
    assert judge(seen).lane == "openai/sonnet/key-3f9a"
    assert judge(replace(seen, model=None)).lane == "openai/haiku/key-3f9a"


def test_tools_outweigh_bytes() -> None:
    small = exchange(401, request_bytes=10)
    large = exchange(200, at=1.0, model="bulk", has_tools=False, request_bytes=10**6)
    assert judge(rollout(exchanges=(small, large))).rule == "main_model_failed"


def test_the_evidence_is_the_same_in_whatever_order_records_arrive() -> None:
    text = rollout("429 200 503 200+side")
    other = replace(text, exchanges=text.exchanges[::-1])
    one, two = Evidence.of(text, EVIDENCE), Evidence.of(other, EVIDENCE)
    assert (one.exchanges, one.calls, one.main) == (two.exchanges, two.calls, two.main)


def test_the_states_are_those_of_the_calls() -> None:
    facts = Evidence.of(rollout("429 200"), EVIDENCE)
    assert facts.states == {CallState.FAILED, CallState.ANSWERED}
    assert facts.any(CallState.FAILED)
    assert not facts.any(CallState.LOST, CallState.PENDING)
    assert [exchange.status for exchange in facts.failures] == [429]
    assert [exchange.status for exchange in facts.answers] == [200]
