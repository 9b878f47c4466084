from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations
from typing import Any

from classifier.tables import shipped
from classifier.validity.serving import (
    MODEL_SUBSTITUTED,
    BatchFinding,
    ServingGroup,
    Way,
    are_other_models,
    compare_ways,
    distinct,
    priced_models,
    promises_none,
    same_model,
    ways_of,
)
from tests.classifier.validity.judged import call, level, record
from tests.priced_models import names, version

# --- Another model than was asked for -------------------------------------------------------------


def test_names_of_one_model_are_no_substitution() -> None:
    for asked, answered in (
        ("gpt-5", "gpt-5-2025-08-07"),
        ("openai/gpt-5", "gpt-5"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4.5-20250929"),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", "claude-sonnet-4-20250514"),
        ("llama3.2", "llama3.2:latest"),
        ("qwen3", "qwen3:32b"),
        ("qwen3:32b", "qwen3:32b-q4_K_M"),
        ("llama-3.3-70b-instruct", "meta-llama/Llama-3.3-70B-Instruct-FP8"),
        ("gemini-2.0-flash", "gemini-2.0-flash-001"),
        ("gemini-2.5-pro", "gemini-2.5-pro-preview-05-06"),
        ("/models/Qwen2.5-7B-Instruct", "qwen2.5-7b-instruct"),
        ("deepseek/deepseek-r1:free", "deepseek/deepseek-r1"),
    ):
        assert same_model(asked, answered), asked
        judged = record([call(f"200+tool@{asked}>{answered}")] * 2)
        assert level(MODEL_SUBSTITUTED, judged) is None, asked


def test_other_models_of_one_family_are() -> None:
    for asked, answered in (
        ("gpt-5", "gpt-5-mini"),
        ("gpt-4", "gpt-4-turbo"),
        ("gpt-4o", "gpt-4"),
        ("claude-opus-4", "claude-sonnet-4"),
        ("qwen3:32b", "qwen3:8b"),
        ("gemini-2.5-pro", "gemini-2.5-flash"),
        ("ft:gpt-5:acme:one:a1", "gpt-5"),
        ("llama-3.1-8b", "llama-3.1-8b-instruct"),
    ):
        assert not same_model(asked, answered), asked
        judged = record([call(f"200+tool@{asked}>{answered}")])
        known = {asked, answered} <= priced_models()
        assert level(MODEL_SUBSTITUTED, judged) == ("suspect" if known else "info"), asked


def test_names_that_may_well_mean_one_model_are_suspected_of_nothing() -> None:
    for asked, answered in (
        ("claude-4-opus", "claude-opus-4"),  # one name in two orders
        ("deepseek-chat", "deepseek-v3.2"),  # its provider's newest
        ("gpt-4-turbo-preview", "gpt-4-0125-preview"),
        ("qwen-max", "qwen3-max"),
        ("llama-3.3-70b", "llama-3.3-70b-instruct"),
    ):
        assert not are_other_models(asked, answered), asked
        assert level(MODEL_SUBSTITUTED, record([call(f"200+tool@{asked}>{answered}")])) != (
            "suspect"
        ), asked


def test_the_known_models_are_those_of_the_price_table() -> None:
    """``python -m tests.priced_models`` writes them anew."""
    table = names()
    known = priced_models()
    if version() == shipped("priced_models.toml")["version"]:
        assert table == known
    assert len(known & table) > 0.9 * len(known)
    assert {"gpt-5", "gpt-4o", "gpt-4o-mini", "claude-opus-4-5", "gemini-2.5-pro"} <= known


def test_a_router_may_choose() -> None:
    for asked in ("openrouter/auto", "openrouter/auto:free", "model-router", "auto", "default",
                  "@preset/coding", "gemini-flash-latest"):  # fmt: skip
        assert promises_none(asked), asked
        chosen = [call(f"200+tool>{model}", model=asked) for model in ("gpt-5", "claude-opus-4")]
        assert level(MODEL_SUBSTITUTED, record(chosen[:1])) is None, asked
        assert level(MODEL_SUBSTITUTED, record(chosen)) == "info", asked
    for asked in ("gpt-5", "openrouter/anthropic/claude-opus-4", "autoglm", "claude-defaulted"):
        assert not promises_none(asked), asked


def test_one_model_is_listed_once() -> None:
    assert distinct(["qwen3", "qwen3:8b", "qwen3:32b"]) == ["qwen3:32b", "qwen3:8b"]
    assert distinct(["gpt-5", "openai/gpt-5-2025-08-07"]) == ["gpt-5"]


# --- What differs between the rollouts of a batch -------------------------------------------------


def serving(rollout: str, answered: str | None = "gpt-5", **facts: Any) -> tuple[str, Way]:
    said = {"upstream": "openai", "asked": "gpt-5", "answered": answered} | facts
    names = ("upstream", "asked", "answered", "served_by", "system_fingerprint")
    return rollout, tuple(map(said.get, names))


def compare(servings: Iterable[tuple[str, Way]], **declared: Any) -> list[BatchFinding]:
    ways: dict[Way, set[ServingGroup]] = {}
    for rollout, way in servings:
        ways.setdefault(way, set()).add(ServingGroup(1, (rollout,)))
    return compare_ways(ways, **declared)


def levels(*servings: tuple[str, Way], **declared: Any) -> list[tuple[str, str]]:
    found = compare(servings, **declared)
    return [(finding.check, finding.level.value) for finding in found]


def test_a_substitution_that_differs_between_rollouts_is_suspect() -> None:
    for answered, expected in (
        (("gpt-5", "gpt-5", "gpt-5-2025-08-07"), []),
        (("ours", "ours", "ours-2024-08-06"), [("model_substituted", "info")]),
        (("gpt-4o", "gpt-4o", "gpt-4o-2024-08-06"), [("model_substituted", "suspect")]),
        (("gpt-5", "gpt-5", "gpt-4o"), [("model_substituted", "suspect")]),
        (("gpt-4o", "gpt-4.1", "gpt-4o"), [("model_substituted", "suspect")]),
        ((None, None, "ours"), [("model_substituted", "info")]),
        ((None, None, "gpt-4o"), [("model_substituted", "suspect")]),
        ((None, None, None), []),
    ):
        batch = [serving(f"r{at}", name) for at, name in enumerate(answered)]
        assert levels(*batch) == expected, answered


def test_aliases_routers_and_declared_fallbacks_are_known_here_too() -> None:
    deployed = [serving(f"r{at}", "gpt-5", upstream="azure", asked="ours") for at in range(3)]
    assert levels(*deployed) == []
    moved = serving("r9", "gpt-4o", upstream="azure", asked="ours")
    assert levels(*deployed, moved) == [("model_substituted", "suspect")]
    routed = [serving("r1", "gpt-5", asked="openrouter/auto"),
              serving("r2", "o3", asked="openrouter/auto")]  # fmt: skip
    assert levels(*routed) == [("model_substituted", "info")]
    fallen = [serving("r1"), serving("r2", "o3")]
    assert levels(*fallen) == [("model_substituted", "suspect")]
    assert levels(*fallen, declared=("gpt-5", "o3")) == []


def test_another_provider_or_engine_is_worth_knowing() -> None:
    for one, two, expected in (
        ({"served_by": "Azure"}, {"served_by": "Azure"}, []),
        ({"served_by": "Azure"}, {"served_by": "OpenAI"}, [("serving_changed", "info")]),
        ({"served_by": "Azure"}, {}, []),
        ({"system_fingerprint": "a"}, {"system_fingerprint": "b"}, [("serving_changed", "info")]),
        ({"served_by": "A", "asked": "gpt-5"}, {"served_by": "B", "asked": "o3", "answered": "o3"},
         []),
    ):  # fmt: skip
        assert levels(serving("r1", **one), serving("r2", **two)) == expected, (one, two)


def test_a_finding_counts_rollouts_and_names_some() -> None:
    batch = [serving(f"r{at:02}") for at in range(20)]
    batch += [serving(f"s{at:02}", "gpt-4o", served_by=f"p{at % 2}") for at in range(12)]
    substituted, changed = compare(batch)
    assert (substituted.rollouts, substituted.of) == (12, 32)
    assert substituted.examples == tuple(f"s{at:02}" for at in range(10))
    assert substituted.sentence == (
        "gpt-5 was asked for; gpt-4o and gpt-5 answered, gpt-4o in 12 of 32 rollouts"
    )
    assert substituted.about == {"asked": "gpt-5", "answered": ["gpt-4o", "gpt-5"]}
    assert changed.sentence == (
        "gpt-5 was served by 2 providers over 12 rollouts, by another than the usual in 6"
    )
    assert changed.about == {"model": "gpt-5", "served_by": ["p0", "p1"]}


def test_the_order_makes_no_difference() -> None:
    batch = [serving("r1"), serving("r2", "o3", served_by="A"), serving("r3", "o3", served_by="B")]
    once: list[BatchFinding] = compare(batch)
    assert once
    for turned in permutations(batch):
        assert compare((*turned, *turned)) == once


def test_a_rollouts_calls_are_served_in_few_ways() -> None:
    answers = [call(answered_model="gpt-5", served_by="A")] * 3 + [call(answered_model="o3")]
    ways = [serving("r1", "gpt-5", served_by="A"), serving("r1", "o3")]
    assert ways_of(answers) == [way for _, way in ways]
    assert set(ways_of(answers[::-1])) == set(ways_of(answers))
