"""Each kind of model led to the upstream that is named for it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from truezero import models
from truezero.integrations.benchflow_rollouts import UPSTREAM, addresses, upstream_of
from truezero.sdk.errors import NotMeasured


def registered(**base_urls: str) -> models.RolloutRegistered:
    return models.RolloutRegistered(
        id="r", key="tz-r", admitted=True, error=None, base_urls=base_urls, env={}
    )


BASES = registered(openai="http://p/r/r/openai/v1", gemini="http://p/r/r/gemini")


@pytest.mark.parametrize(
    ("provider", "model", "named", "upstream"),
    [
        ("openai", "openai/gpt-5", "openai", "openai"),
        ("vllm", "openai/llama", "anthropic,vllm", "vllm"),
        ("native", "anthropic/claude", "openai,anthropic", "anthropic"),
        ("native", "gemini/g", "own", "own"),
        ("aws-bedrock", "bedrock/claude", "own,openai", "own"),
    ],
)
def test_a_model_is_led_to_the_upstream_of_its_provider_or_the_first(
    monkeypatch: pytest.MonkeyPatch, provider: str, model: str, named: str, upstream: str
) -> None:
    monkeypatch.setenv(UPSTREAM, named)
    route = SimpleNamespace(provider_name=provider, upstream_model=model)
    assert upstream_of(route) == upstream


@pytest.mark.parametrize(
    ("env", "gemini", "key"),
    [
        ({"BENCHFLOW_PROVIDER_API_KEY": "sk-own"}, False, "sk-own"),
        ({"GEMINI_API_KEY": "AIza"}, False, "tz-r"),
        ({"GEMINI_API_KEY": "AIza"}, True, "AIza"),
        ({}, True, "tz-r"),
    ],
)
def test_litellm_is_led_to_the_rollout_whatever_variable_it_reads(
    env: dict[str, str], gemini: bool, key: str
) -> None:
    led = addresses("gemini" if gemini else "openai", BASES, env, gemini=gemini)
    assert led.pop("BENCHFLOW_PROVIDER_API_KEY") == key
    assert {name for name in led if name.startswith(("OPENAI", "ANTHROPIC", "BENCHFLOW"))} == set(
        led
    )
    base = "http://p/r/r/gemini/v1beta" if gemini else "http://p/r/r/openai/v1"
    assert set(led.values()) == {base}


def test_an_upstream_that_the_service_lacks_is_named() -> None:
    with pytest.raises(NotMeasured, match="no upstream 'vllm'"):
        addresses("vllm", BASES, {}, gemini=False)
