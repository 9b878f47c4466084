"""Another model than was asked for."""

from __future__ import annotations

from classifier.validity.priced_models import NAMES, VERSION
from classifier.validity.serving import (
    MODEL_SUBSTITUTED,
    are_other_models,
    distinct,
    promises_none,
    same_model,
)
from tests.classifier.validity.judged import call, coverage, found, level, record
from tests.priced_models import names, version


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
        known = asked in NAMES and answered in NAMES
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
    if version() == VERSION:
        assert table == NAMES
    assert len(NAMES & table) > 0.9 * len(NAMES)
    assert {"gpt-5", "gpt-4o", "gpt-4o-mini", "claude-opus-4-5", "gemini-2.5-pro"} <= NAMES


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
