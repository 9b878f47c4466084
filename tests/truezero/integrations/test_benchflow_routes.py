"""Each kind of model led to its upstream, and never to another."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.truezero.integrations import fake_benchflow
from truezero import models
from truezero.integrations.benchflow_rollouts import addresses, route_of
from truezero.sdk.errors import NotMeasured


@pytest.fixture(autouse=True)
def _benchflow(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_benchflow.install(monkeypatch)


def registered(**base_urls: str) -> models.RolloutRegistered:
    return models.RolloutRegistered(
        id="r", key="tz-r", admitted=True, error=None, base_urls=base_urls, env={}
    )


BASES = registered(
    openai="http://p/r/r/openai/v1", anthropic="http://p/r/r/anthropic",
    gemini="http://p/r/r/gemini", vllm="http://p/r/r/vllm/v1", own="http://p/r/r/own/v1",
)  # fmt: skip
ROUTES: list[tuple[str, str, dict[str, str], dict[str, str] | None]] = [
    ("openai", "openai/gpt-5", {"BENCHFLOW_PROVIDER_API_KEY": "sk-own"}, {
        "BENCHFLOW_PROVIDER_BASE_URL": "http://p/r/r/openai/v1",
        "BENCHFLOW_PROVIDER_API_KEY": "sk-own",
    }),
    ("openai", "openai/gpt-5", {}, {
        "BENCHFLOW_PROVIDER_BASE_URL": "http://p/r/r/openai/v1",
        "BENCHFLOW_PROVIDER_API_KEY": "tz-r",
    }),
    ("vllm", "openai/llama", {"BENCHFLOW_PROVIDER_BASE_URL": "http://gpu:8000/v1"}, {
        "BENCHFLOW_PROVIDER_BASE_URL": "http://p/r/r/vllm/v1",
        "BENCHFLOW_PROVIDER_API_KEY": "tz-r",
    }),
    ("native", "openai/gpt-5", {}, {
        "OPENAI_BASE_URL": "http://p/r/r/openai/v1", "OPENAI_API_BASE": "http://p/r/r/openai/v1",
    }),
    ("native", "anthropic/claude", {}, {"ANTHROPIC_BASE_URL": "http://p/r/r/anthropic"}),
    ("native", "gemini/g", {"GEMINI_API_KEY": "AIza"}, {
        "BENCHFLOW_PROVIDER_BASE_URL": "http://p/r/r/gemini/v1beta",
        "BENCHFLOW_PROVIDER_API_KEY": "AIza",
    }),
    ("native", "anthropic/claude", {"ANTHROPIC_API_BASE": "https://own.example"}, None),
    ("native", "openai/gpt-5", {"OPENAI_BASE_URL": "https://own.example"}, None),
    ("openai", "openai/gpt-5", {"BENCHFLOW_PROVIDER_BASE_URL": "https://own.example/v1"}, None),
    ("aws-bedrock", "bedrock/claude", {}, None),
    ("kimi", "openai/k2", {"TRUEZERO_BENCHFLOW_UPSTREAM": "own"}, {
        "BENCHFLOW_PROVIDER_BASE_URL": "http://p/r/r/own/v1",
        "BENCHFLOW_PROVIDER_API_KEY": "tz-r",
    }),
    ("native", "anthropic/claude", {
        "ANTHROPIC_BASE_URL": "https://own.example", "TRUEZERO_BENCHFLOW_UPSTREAM": "own",
    }, {"ANTHROPIC_BASE_URL": "http://p/r/r/own/v1"}),
]  # fmt: skip


def test_each_kind_of_model_is_led_to_its_upstream_and_never_to_another() -> None:
    for provider, model, env, led in ROUTES:
        params = {"api_base": env.get("BENCHFLOW_PROVIDER_BASE_URL", "https://api.openai.com/v1")}
        asked = SimpleNamespace(provider_name=provider, upstream_model=model, litellm_params=params)
        route = route_of(asked, env, env)
        found = route and addresses(route, BASES, env)
        assert found == led, (provider, model, env)


def test_an_upstream_that_the_service_lacks_is_named() -> None:
    asked = SimpleNamespace(provider_name="vllm", upstream_model="openai/m", litellm_params={})
    route = route_of(asked, {}, {})
    assert route is not None
    with pytest.raises(NotMeasured, match="no upstream 'vllm'"):
        addresses(route, registered(), {})
