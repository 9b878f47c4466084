from __future__ import annotations

from itertools import permutations
from typing import Any

from classifier.tables import shipped
from classifier.validity.serving import (
    MODEL_SUBSTITUTED,
    SERVING_CHANGED,
    BatchFinding,
    Serving,
    are_other_models,
    compare,
    distinct,
    priced_models,
    promises_none,
    same_model,
    servings_of,
)
from tests.classifier.validity.judged import call, coverage, found, level, record
from tests.priced_models import names, version

# --- Another model than was asked for -------------------------------------------------------------


def test_what_answered_is_compared_with_what_was_asked() -> None:
    for text, expected in (
        ("200+tool@gpt-5>gpt-5*3", None),
        ("200+tool@gpt-5>gpt-4o*3", "suspect"),  # in every call, and both are known models
        ("200+tool@gpt-5>ours*3", "info"),  # perhaps an alias
        ("200+tool@ours>gpt-5*3", "info"),
        ("200+tool@gpt-5>gpt-5 200+side@gpt-5-mini>gpt-4o", "info"),  # beside main
        ("200+tool@gpt-5>gpt-5*2 200+tool@gpt-5>gpt-4o", "suspect"),
        ("200+tool@gpt-5>gpt-4.1 200+tool@gpt-5>gpt-4o", "suspect"),
        ("200+tool@gpt-5>gpt-5 200+side@mini>mini 200+side@mini>nano", "info"),
        ("200+tool@gpt-5*3", None),  # no answer names its model
        ("200+tool@gpt-5>gpt-5 503@gpt-5 200+tool@gpt-5>gpt-5", None),
    ):
        calls = [call(one) for part in text.split() for one in _each(part)]
        assert level(MODEL_SUBSTITUTED, record(calls)) == expected, text


def _each(part: str) -> list[str]:
    text, _, times = part.partition("*")
    return [text] * int(times or 1)


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


def test_a_declared_fallback_is_suspected_of_nothing_in_every_call() -> None:
    calls = [call("200+tool@gpt-5>gpt-4o")] * 3
    assert level(MODEL_SUBSTITUTED, record(calls, model="gpt-5")) == "suspect"
    assert level(MODEL_SUBSTITUTED, record(calls, model="gpt-5", fallbacks=("gpt-4o",))) is None


def test_the_known_models_are_those_of_the_price_table() -> None:
    """``python -m tests.priced_models`` writes them anew."""
    table = names()
    known = priced_models()
    if version() == shipped("priced_models.toml")["version"]:
        assert table == known
    assert len(known & table) > 0.9 * len(known)
    assert {"gpt-5", "gpt-4o", "gpt-4o-mini", "claude-opus-4-5", "gemini-2.5-pro"} <= known


def test_an_operators_own_name_is_compared_with_nothing() -> None:
    deployment = call("200+tool@my-deployment>gpt-5-2025-08-07%azure")
    assert level(MODEL_SUBSTITUTED, record([deployment] * 3)) is None
    assert level(
        MODEL_SUBSTITUTED, record([deployment, call("200+tool@my-deployment>gpt-4o%azure")])
    ) == ("suspect")
    profile = "arn:aws:bedrock:eu-west-1:1:application-inference-profile/ab12"
    one = call("200+tool>claude-sonnet-4-20250514%bedrock", model=profile)
    assert level(MODEL_SUBSTITUTED, record([one, one])) is None


def test_a_router_may_choose() -> None:
    for asked in ("openrouter/auto", "openrouter/auto:free", "model-router", "auto", "default",
                  "@preset/coding", "gemini-flash-latest"):  # fmt: skip
        assert promises_none(asked), asked
        chosen = [call(f"200+tool>{model}", model=asked) for model in ("gpt-5", "claude-opus-4")]
        assert level(MODEL_SUBSTITUTED, record(chosen[:1])) is None, asked
        assert level(MODEL_SUBSTITUTED, record(chosen)) == "info", asked
    for asked in ("gpt-5", "openrouter/anthropic/claude-opus-4", "autoglm", "claude-defaulted"):
        assert not promises_none(asked), asked


def test_a_declared_fallback_is_what_was_asked_for() -> None:
    calls = [call("200+tool@gpt-5>gpt-5"), call("200+tool@gpt-5>o3", fallback=True)]
    assert level(MODEL_SUBSTITUTED, record(calls, model="gpt-5")) == "invalid"
    assert level(MODEL_SUBSTITUTED, record(calls, model="gpt-5", fallbacks=("o3",))) is None


def test_a_gateway_that_says_so_is_believed() -> None:
    for fallback, expected in ((True, "invalid"), (False, None), (None, None)):
        calls = [call("200+tool@gpt-5>gpt-5"), call("200+tool@gpt-5>gpt-5", fallback=fallback)]
        assert level(MODEL_SUBSTITUTED, record(calls)) == expected, fallback
    side = call("200+side", fallback=True)
    assert level(MODEL_SUBSTITUTED, record([call("200+tool"), side])) is None
    finding = found(
        MODEL_SUBSTITUTED, record([call("200+tool"), call("200+tool>glm-5", fallback=True)])
    )
    assert finding is not None
    assert finding.sentence == (
        "a gateway had another model (glm-5) stand in for gpt-5 in 1 of 1 answer"
    )
    assert finding.about == {"asked": "gpt-5", "answered": ["glm-5"]}


def test_the_finding_names_the_models_and_the_calls() -> None:
    calls = [call("200+tool@gpt-5>gpt-5-2025-08-07")] * 12 + [call("200+tool@gpt-5>gpt-4o")] * 3
    finding = found(MODEL_SUBSTITUTED, record(calls))
    assert finding is not None
    assert finding.sentence == (
        "gpt-5 was asked for; gpt-4o and gpt-5-2025-08-07 answered, gpt-4o in 3 of 15 calls"
    )
    assert finding.evidence == ("x12", "x13", "x14")
    assert finding.about == {"asked": "gpt-5", "answered": ["gpt-4o", "gpt-5-2025-08-07"]}
    finding = found(MODEL_SUBSTITUTED, record(calls[-2:]))
    assert finding is not None
    assert finding.sentence == "gpt-5 was asked for; gpt-4o answered 2 of 2 calls"


def test_answers_that_name_no_model_are_not_covered() -> None:
    assert coverage(MODEL_SUBSTITUTED, record([call("200+tool>gpt-5"), call("200+tool")])) == (1, 2)
    assert coverage(
        MODEL_SUBSTITUTED, record([call("200+tool", fallback=False), call("200+tool")])
    ) == (1, 2)
    assert coverage(MODEL_SUBSTITUTED, record([call("429")])) is None


def test_one_model_is_listed_once() -> None:
    assert distinct(["qwen3", "qwen3:8b", "qwen3:32b"]) == ["qwen3:32b", "qwen3:8b"]
    assert distinct(["gpt-5", "openai/gpt-5-2025-08-07"]) == ["gpt-5"]


# --- What differs between the rollouts of a batch -------------------------------------------------


def serving(rollout: str, answered: str | None = "gpt-5", **facts: Any) -> Serving:
    said = {"upstream": "openai", "asked": "gpt-5", "answered": answered} | facts
    return Serving(rollout_id=rollout, **said)


def levels(*servings: Serving, **declared: Any) -> list[tuple[str, str]]:
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
    assert servings_of("r1", answers) == [
        serving("r1", "gpt-5", served_by="A"), serving("r1", "o3"),
    ]  # fmt: skip
    assert compare(servings_of("r1", answers)) == compare(servings_of("r1", answers[::-1]))


# --- Another provider or engine behind one model --------------------------------------------------


def test_a_change_behind_one_model_is_worth_knowing() -> None:
    for one, two, expected in (
        ({"served_by": "Azure"}, {"served_by": "Azure"}, None),
        ({"served_by": "Azure"}, {"served_by": "OpenAI"}, "info"),
        ({"served_by": "Azure"}, {}, None),  # the other does not say
        ({"system_fingerprint": "fp_1"}, {"system_fingerprint": "fp_2"}, "info"),
        ({"system_fingerprint": "fp_1"}, {"served_by": "Azure"}, None),
        ({"served_by": "A", "model": "gpt-5"}, {"served_by": "B", "model": "mini"}, None),
        ({"weight_version": "41"}, {"weight_version": "41"}, None),
        ({"weight_version": "41"}, {"weight_version": "42"}, "info"),
        ({"weight_version": "41,42"}, {"weight_version": "42"}, "info"),  # within one answer
        ({"weight_version": "41"}, {}, None),
        ({"served_by": "A"}, {"served_by": "B", "upstream": "other"}, None),
        ({"served_by": "A", "model": "gpt-5"}, {"served_by": "B", "model": "openai/gpt-5"}, "info"),
    ):
        assert level(SERVING_CHANGED, record([call(**one), call(**two)])) == expected, (one, two)


def test_the_finding_lists_what_served() -> None:
    calls = [
        call(served_by=name, system_fingerprint=fp)
        for name, fp in (("Together", "a"), ("Groq", "a"), ("Groq", "b"))
    ]
    finding = found(SERVING_CHANGED, record([*calls, call()]))
    assert finding is not None
    assert finding.sentence == (
        "one model was served by 2 providers (Groq, Together) and 2 engine "
        "configurations (a, b) over 3 calls"
    )
    assert (finding.calls, finding.of, finding.evidence) == (3, 3, ("x0", "x1", "x2"))
    assert finding.about == {"served_by": ["Groq", "Together"], "system_fingerprint": ["a", "b"]}


def test_a_rollout_that_spans_versions_of_the_weights_says_which() -> None:
    calls = [call(weight_version=version) for version in ("step-41", "step-41,step-42", "step-42")]
    finding = found(SERVING_CHANGED, record([*calls, call()]))
    assert finding is not None
    assert (finding.calls, finding.of) == (3, 3)
    assert finding.about == {"weight_version": ["step-41", "step-42"]}
    assert "2 weight versions (step-41, step-42) over 3 calls" in finding.sentence


def test_answers_that_name_neither_are_not_covered() -> None:
    assert coverage(SERVING_CHANGED, record([call(served_by="A"), call(), call("429")])) == (1, 2)
    assert coverage(SERVING_CHANGED, record([call("429")])) is None
