"""Where LiteLLM asks a model of benchflow, and the variables that lead it to the service."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from truezero import models
from truezero.integrations.attempts import NotMeasured

UPSTREAM = "TRUEZERO_BENCHFLOW_UPSTREAM"

# benchflow/agents/env.py and providers/litellm_config.py.
_BASE_URL, _KEY = "BENCHFLOW_PROVIDER_BASE_URL", "BENCHFLOW_PROVIDER_API_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRoute:
    """How LiteLLM asks a kind of model: its upstream here, and the variables of its address.

    ``native``: LiteLLM knows the address, and reads another one from these variables.
    """

    upstream: str
    address: tuple[str, ...]
    path: str = ""
    native: bool = False


# benchflow/providers/litellm_config.py: a registered provider's base URL is a parameter of the
# route. A native one is only in litellm/main.py's variables, but Gemini's, which is both.
_REGISTERED: Mapping[str, ModelRoute] = {
    "openai": ModelRoute(upstream="openai", address=(_BASE_URL,)),
    "openrouter": ModelRoute(upstream="openrouter", address=(_BASE_URL,)),
    "deepseek": ModelRoute(upstream="deepseek", address=(_BASE_URL,)),
    "vllm": ModelRoute(upstream="vllm", address=(_BASE_URL,)),
}
_NATIVE: Mapping[str, ModelRoute] = {
    "openai": ModelRoute(
        upstream="openai", address=("OPENAI_BASE_URL", "OPENAI_API_BASE"), native=True
    ),
    "anthropic": ModelRoute(upstream="anthropic", address=("ANTHROPIC_BASE_URL",), native=True),
    "gemini": ModelRoute(upstream="gemini", address=(_BASE_URL,), path="/v1beta", native=True),
}
# Variables that LiteLLM prefers to those above.
_PREFERRED = ("ANTHROPIC_API_BASE",)


def route_of(
    litellm: Any, env: Mapping[str, str], inherited: Mapping[str, str]
) -> ModelRoute | None:
    """Return how a model is asked through the service; None if it has an address of its own.

    Arguments:
        litellm: benchflow's LiteLLMRoute, as it is without us.
        env, inherited: variables for LiteLLM, and those of this process.
    """
    native = litellm.provider_name == "native"
    kind = litellm.upstream_model.partition("/")[0] if native else litellm.provider_name
    known = (_NATIVE if native else _REGISTERED).get(kind)
    if named := inherited.get(UPSTREAM):
        if known is None:
            return None if native else ModelRoute(upstream=named, address=(_BASE_URL,))
        return ModelRoute(
            upstream=named, address=known.address, path=known.path, native=known.native
        )
    if known is None or kind == "vllm":  # the operator says where vLLM is
        return known
    everywhere = {**inherited, **env}
    if native:
        own = any(everywhere.get(name) for name in (*known.address, *_PREFERRED))
    else:
        own = not _is_default(kind, str(litellm.litellm_params.get("api_base") or ""))
    return None if own else known


def _is_default(provider: str, base_url: str) -> bool:
    providers = importlib.import_module("benchflow.agents.providers")
    return bool(base_url == providers.resolve_base_url(providers.PROVIDERS[provider], {}))


def addresses(
    route: ModelRoute, registered: models.RolloutRegistered, env: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that lead LiteLLM to the rollout; the provider's key stays the user's.

    Raises:
        NotMeasured: the service has no such upstream.
    """
    base = registered.base_urls.get(route.upstream)
    if base is None:
        raise NotMeasured(f"truezero: the service has no upstream {route.upstream!r}")
    found = dict.fromkeys(route.address, base + route.path)
    if _BASE_URL in found:
        own = ("GEMINI_API_KEY",) if route.native else ()
        keys = (env.get(name) for name in (_KEY, *own))
        found[_KEY] = next(filter(None, keys), registered.key)
    return found
