"""Healthy traffic is judged healthy, nothing above info is found, and tokens are read as meant."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from classifier.records import Exchange, RolloutRecord
from classifier.rules import judge
from classifier.validity import CHECKS
from classifier.verdicts import Level
from tests.healthy.driving import driven
from tests.healthy.generator import planned, rollout
from tests.healthy.lanes import LANES
from tests.healthy.situations import SITUATIONS
from tests.healthy.traffic import HealthyRollout

FEW, WHOLE = range(0, 4 * len(LANES), 12), range(4 * len(LANES))  # every lane in four situations
HARD = ("streamed", "whole", "compressed", "cached", "cache written", "reasoning",
        "tools offered", "no usage stated", "another name answered", "failed and recovered",
        "large request")  # fmt: skip
APIS = {"openai.chat", "openai.completions", "openai.responses", "anthropic.messages",
        "gemini.generateContent", "gemini.streamGenerateContent", "gemini.interactions",
        "bedrock.converse", "bedrock.converse-stream", "bedrock.invoke", "bedrock.invoke-stream",
        "cohere.v2.chat", "ollama.chat"}  # fmt: skip
Driven = list[tuple[HealthyRollout, RolloutRecord]]


ALL = pytest.param(WHOLE, marks=pytest.mark.slow)


@pytest.fixture(scope="module", params=[FEW, ALL], ids=len)
def sample(request: pytest.FixtureRequest) -> Driven:
    return [(one, driven(one)) for one in map(rollout, request.param)]


def _counts(exchange: Exchange) -> tuple[int | None, ...]:
    usage = exchange.usage
    return usage.input_total, usage.output_total, usage.cached_input_tokens or 0


def test_every_rollout_is_scoreable_and_nothing_above_info_is_found(sample: Driven) -> None:
    """``python -m tests.healthy`` judges a thousand."""
    looked: Counter[str] = Counter()
    for one, record in sample:
        verdict = judge(record)
        found = [each for each in verdict.validity if each.level is not Level.INFO]
        assert (verdict.health, verdict.scoreable, found) == ("healthy", "yes", []), (
            one.id, one.lane, one.situation,
        )  # fmt: skip
        for name, coverage in verdict.validity_coverage.items():
            assert 0 <= coverage.looked <= coverage.of, (one.id, name)
            looked[name] += coverage.looked
    unseen = {check.name for check in CHECKS if not looked[check.name]}
    assert unseen == set(), "checks that saw nothing prove nothing"


def test_every_answer_is_read(sample: Driven) -> None:
    assert [
        x.unreadable_reason for _, record in sample for x in record.exchanges if x.unreadable_reason
    ] == []


def test_tokens_are_read_as_meant(sample: Driven) -> None:
    for one, record in sample:
        for call, exchange in zip(one.calls, record.exchanges, strict=True):
            meant = call.meant
            if meant is not None:
                wanted = (meant.input, meant.output, meant.cached or 0)
                assert _counts(exchange) == wanted, (one.id, one.lane, one.situation, call.path)


@pytest.mark.parametrize("sample", [ALL], indirect=True)
def test_the_sample_holds_what_is_hard_about_healthy_traffic(sample: Driven) -> None:
    traits = Counter(trait for one, _ in sample for trait in one.traits)
    assert {trait for trait in HARD if traits[trait] < 3} == set()
    apis = {exchange.api for _, record in sample for exchange in record.exchanges}
    assert apis >= APIS


def test_a_seed_gives_the_same_bytes_and_another_gives_others() -> None:
    assert rollout(7) == rollout(7)
    assert rollout(7).calls != rollout(7, seed=1).calls


def test_a_thousand_hold_every_situation_and_ten_on_each_lane() -> None:
    plans = {planned(number) for number in range(1000)}
    assert {name for _, name in plans} == set(SITUATIONS)
    for lane in LANES:
        told = {name for one, name in plans if one is lane}
        assert len(told) >= min(10, sum(row.fits(lane) for row in SITUATIONS.values())), lane.key


@pytest.mark.parametrize("sample", [ALL], indirect=True)
def test_the_repeat_of_a_task_begins_with_the_same_words(sample: Driven) -> None:
    begun: dict[tuple[str, str], list[str]] = {}
    for one, _ in sample:
        if one.calls[0].path.endswith("/chat/completions"):
            messages = json.loads(one.calls[0].body)["messages"]
            begun.setdefault((one.lane, one.task), []).append(json.dumps(messages[:2]))
    repeated = [words for words in begun.values() if len(words) > 1]
    assert len(repeated) > 10
    assert sum(len(set(words)) == 1 for words in repeated) > len(repeated) / 2


def test_calls_start_in_order_and_end_after_their_first_byte(sample: Driven) -> None:
    for one, _ in sample:
        starts = [call.start_s for call in one.calls]
        assert starts == sorted(starts), (one.lane, one.situation)
        assert all(call.start_s < (call.first_byte_s or call.end_s) for call in one.calls)
        assert all((call.first_byte_s or call.start_s) <= call.end_s for call in one.calls)
