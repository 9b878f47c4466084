"""Situations are captured whole and found, in every dialect, streamed and not, and over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from classifier.records import Ending, Exchange, RolloutRecord, UsageSource
from classifier.rules import judge
from classifier.validity import CHECKS
from classifier.validity.surroundings import OTHER_MODELS
from classifier.verdicts import UNEARNED, Level, ValidityFinding
from tests.fakes.answers import Api
from tests.fakes.replies import WORDS
from tests.proxy.api.test_routes import serving
from tests.situations.play import ScriptedCall, judged, played, script
from tests.situations.table import BY_NAME, EVERY_VARIANT, SITUATIONS, Situation, is_found

# What is unearned has no conversation, and other models are told from those that are registered.
DECLARED = {check.name for check in CHECKS} - {UNEARNED, OTHER_MODELS}


@cache
def recorded(name: str, api: Api, streamed: bool) -> RolloutRecord:
    """Each is played once, and looked at by several tests."""
    return played(BY_NAME[name], api, streamed)


@cache
def findings(name: str, api: Api, streamed: bool) -> Sequence[ValidityFinding]:
    return judge(recorded(name, api, streamed)).validity


def facts(exchange: Exchange) -> dict[str, object]:
    """What of an exchange a situation means to say."""
    return {
        "role": exchange.role,
        "status": exchange.status,
        "ending": exchange.ending,
        "model": exchange.model,
        "answered_model": exchange.answered_model,
        "finish_reason": exchange.finish_reason,
        "input_total": exchange.usage.input_total,
        "output_total": exchange.usage.output_total,
        "reasoning_tokens": exchange.usage.reasoning_tokens or 0,
        "source": exchange.usage.source,
        "tool_calls": exchange.tool_calls,
        "content_seen": exchange.content_seen,
        "has_tools": exchange.has_tools,
        "streamed": exchange.streamed,
        "failed": exchange.failed,
        "deaf": exchange.unreadable_reason,
    }


def meant(call: ScriptedCall, api: Api, streamed: bool, model: str) -> dict[str, object]:
    """The same as the script has it."""
    turn, reply = call.turn, call.reply
    if reply is None:
        said: dict[str, object] = {
            "answered_model": None, "finish_reason": None, "input_total": None,
            "output_total": None, "reasoning_tokens": 0, "source": UsageSource.ABSENT,
            "tool_calls": 0, "content_seen": False, "streamed": streamed, "failed": True,
        }  # fmt: skip
    else:
        said = {
            "answered_model": reply.model,
            "finish_reason": WORDS[api][reply.finish],
            "input_total": reply.input_tokens,
            "output_total": reply.output_tokens,
            "reasoning_tokens": reply.reasoning_tokens,
            "source": UsageSource.PROVIDER,
            "tool_calls": len(reply.calls),
            "content_seen": bool(reply.text or reply.calls),
            "streamed": streamed,
            "failed": False,
        }
    return said | {
        "role": turn.role,
        "status": call.answer.status,
        "ending": Ending.COMPLETE,
        "model": model,
        "has_tools": bool(turn.tools),
        "deaf": None,
    }


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.name)
def test_a_situation_is_captured_whole_in_every_variant(situation: Situation) -> None:
    for api, streamed in situation.variants:
        record = recorded(situation.name, api, streamed)
        calls = script(situation, api, streamed=streamed)
        assert len(record.exchanges) == len(calls) == len(situation.turns)
        for exchange, call in zip(record.exchanges, calls, strict=True):
            assert record.model is not None
            assert facts(exchange) == meant(call, api, streamed, record.model), (api, streamed)
            assert exchange.request_bytes == len(call.body)
            assert exchange.response_bytes == len(call.answer.content)


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.name)
def test_what_spoils_a_measurement_is_found_and_nothing_else(situation: Situation) -> None:
    """Nothing above info; of a healthy rollout not even that."""
    expected = situation.expected
    own = {expected.check, *situation.also} if expected else set()
    mild = {Level.INFO} if expected else set()
    for variant in situation.variants:
        found = findings(situation.name, *variant)
        assert is_found(situation, [(one.check, one.level) for one in found]), (variant, found)
        assert {one.check for one in found if one.level not in mild} <= own, variant


def test_every_check_has_a_situation_in_every_variant() -> None:
    sought = [(one.expected.check, one.variants) for one in SITUATIONS if one.expected]
    looked = {(check, variant) for check, variants in sought for variant in variants}
    assert looked == {(check, variant) for check in DECLARED for variant in EVERY_VARIANT}
    assert len(BY_NAME) == len(SITUATIONS)


@pytest.mark.parametrize("variant", EVERY_VARIANT, ids=str)
def test_prompts_grow_and_what_is_read_of_them_does_not(variant: tuple[Api, bool]) -> None:
    def read(name: str) -> list[int]:
        exchanges = played(BY_NAME[name], *variant).exchanges
        sizes = [exchange.request_bytes for exchange in exchanges]
        assert sizes == sorted(set(sizes)), "a call does not grow"
        return [exchange.usage.input_total or 0 for exchange in exchanges]

    first, second, third, fourth = read("healthy")
    assert first < second < third < fourth
    assert read("prompt_stuck") == [4_096] * 4
    fell = read("prompt_falls")
    assert fell == [first, second, 4_000, fourth]
    assert second * 0.95 > 4_000
    (unread,) = read("prompt_unread")
    (call,) = script(BY_NAME["prompt_unread"], variant[0], streamed=variant[1])
    assert unread * 12 < len(call.body)


def test_a_situation_takes_the_time_that_it_says() -> None:
    record = played(BY_NAME["starved"], Api.CHAT, False)
    spans = [(one.timing.started_at, one.timing.duration_s or 0.0) for one in record.exchanges]
    whole = spans[-1][0] + spans[-1][1] - spans[0][0]
    assert sum(took for _, took in spans) > 0.9 * whole > 500
    assert record.outcome is not None
    assert record.outcome.status == "task_timeout"


AS_REST = ("role", "status", "ending", "model", "answered_model", "finish_reason", "tool_calls",
           "streamed", "deaf")  # fmt: skip


@pytest.mark.parametrize(
    "some", [SITUATIONS[:3], pytest.param(SITUATIONS, marks=pytest.mark.slow)], ids=len
)
def test_through_a_running_service_a_situation_is_what_it_is_in_process(
    some: Sequence[Situation], tmp_path: Path
) -> None:
    """Each once, and every dialect, streamed and not; ``python -m tests.situations`` plays all."""
    heard = set()
    with serving(tmp_path, upstreams=("OPENAI", "ANTHROPIC", "GEMINI")) as service:
        for place, situation in enumerate(some):
            api, streamed = situation.variants[place % len(situation.variants)]
            heard.add((api, streamed))
            verdict = judged(
                situation, api, streamed, service=service.http, provider=service.provider
            )
            record = played(situation, api, streamed)
            calls = service.get(f"/rollouts/{verdict['rollout_id']}/exchanges")["items"]
            assert [[call[name] for name in AS_REST] for call in calls] == [
                [facts(exchange)[name] for name in AS_REST] for exchange in record.exchanges
            ], situation.name
            found = {(one["check"], one["level"]) for one in verdict["validity"]}
            alike = {(one.check, one.level) for one in judge(record).validity}
            if ("starved", "info") in found:  # its waits were shortened
                found ^= {("starved", "info"), ("starved", "suspect")}
            assert found == alike, situation.name
            assert verdict["health"] == "healthy", situation.name
    assert len(heard) == min(len(some), len(EVERY_VARIANT))


def test_two_runs_come_from_two_addresses() -> None:
    turns = BY_NAME["duplicate_identity"].turns
    assert {(turn.run, turn.address) for turn in turns} == {(0, "127.0.0.1"), (1, "127.0.0.2")}
    assert turns[0].adds == turns[1].adds, "both begin alike"
