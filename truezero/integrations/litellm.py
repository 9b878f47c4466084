"""LiteLLM: name the current rollout in each asynchronous call that goes to the service.

LiteLLM asks no hook about a blocking call: pass it ``extra_headers=truezero.headers(url)``.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Mapping
from typing import Any

from truezero.sdk.current import current, headers

_log = logging.getLogger("truezero")


class _Naming:
    """The hook of ``Truezero``, which is LiteLLM's ``CustomLogger`` besides."""

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: Any
    ) -> dict[str, Any] | None:
        """Return a call's arguments with the rollout's header; None to leave them.

        Never raises: LiteLLM would fail the call.
        """
        del call_type
        if current.get() is None:
            return None
        try:
            base_url = address(kwargs, os.environ)
        except (
            Exception
        ) as error:  # LiteLLM's own, on arguments that it refuses or will read itself
            _log.debug("a call of LiteLLM is not named: %s", type(error).__name__)
            return None
        named = headers(str(base_url or ""))
        if not named:
            return None
        return {**kwargs, "extra_headers": {**(kwargs.get("extra_headers") or {}), **named}}


def __getattr__(name: str) -> Any:
    """Make ``Truezero`` when it is first used: ``litellm.callbacks.append(Truezero())``."""
    if name != "Truezero":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    base = importlib.import_module("litellm.integrations.custom_logger").CustomLogger
    doc = "Callback of LiteLLM that names the current rollout in calls to the service."
    made = type(name, (_Naming, base), {"__doc__": doc, "__module__": __name__})
    globals()[name] = made
    return made


def address(kwargs: Mapping[str, Any], environment: Mapping[str, str]) -> str | None:
    """Return the base URL that a call of LiteLLM uses, where it is named anywhere.

    Without ``api_base`` it comes from ``litellm.api_base`` or the variables of the model's
    provider (litellm/main.py); a model that is not named by keyword is not known here.
    """
    litellm = importlib.import_module("litellm")
    given = kwargs.get("api_base") or kwargs.get("base_url") or litellm.api_base
    if given or not kwargs.get("model"):
        return given or None
    try:
        _, provider, _, base = litellm.get_llm_provider(
            model=kwargs["model"], custom_llm_provider=kwargs.get("custom_llm_provider")
        )
    except litellm.exceptions.BadRequestError:  # the call itself will say so
        return None
    variables = (f"{provider.upper()}_{end}" for end in ("BASE_URL", "API_BASE"))
    return base or next(filter(None, map(environment.get, variables)), None)
