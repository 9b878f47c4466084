"""benchflow's rollouts under truezero: registered, pointed at the service, judged in its own terms.

Every function that is wrapped stays in charge of its own work; a rollout that truezero cannot
measure keeps no reward and says why.
"""

from __future__ import annotations

import importlib
import logging
import math
import os
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any

from truezero import models
from truezero.integrations.attempts import NotMeasured, next_attempt
from truezero.sdk.arguments import OutcomeFacts
from truezero.sdk.client import AsyncClient
from truezero.sdk.errors import ServiceError

Method = Callable[..., Any]
AsyncMethod = Callable[..., Awaitable[Any]]

_BATCH = "TRUEZERO_BATCH"
_UPSTREAM = "TRUEZERO_BENCHFLOW_UPSTREAM"
_REVIEWERS = "-reviewers"  # an agent that grades another's work is no sample of the job's
_STATE = "_truezero"
_LONGEST_ID = 200

# benchflow/agents/env.py and providers/litellm_config.py. The last is there on a reconnect, where
# benchflow restores what it was first given.
_BASE_URL, _KEY = "BENCHFLOW_PROVIDER_BASE_URL", "BENCHFLOW_PROVIDER_API_KEY"
_MASTER_KEY = "BENCHFLOW_LITELLM_MASTER_KEY"

# benchflow/_utils/scoring.py: classify_error. Its sentences may contain prompts, these do not.
_STATUSES: Mapping[str, models.ExecutionStatus] = {
    "idle_timeout": "task_timeout",
    "timeout": "task_timeout",
    "install_failure": "setup_failed",
    "sandbox_setup": "setup_failed",
    "pipe_closed": "environment_error",
    "infra_failure": "environment_error",
}
# benchflow/diagnostics.py: fields that would outrank the provider's failure as the category.
_OUTRANKED = ("idle_timeout_info", "agent_timeout_info")

_log = logging.getLogger("truezero")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Route:
    """How LiteLLM asks a kind of model: its upstream here, and the variables of its address.

    ``native``: LiteLLM knows the address, and reads another one from these variables.
    """

    upstream: str
    address: tuple[str, ...]
    path: str = ""
    native: bool = False


# benchflow/providers/litellm_config.py: a registered provider's base URL is a parameter of the
# route. A native one is only in litellm/main.py's variables, but Gemini's, which is both.
_REGISTERED: Mapping[str, _Route] = {
    "openai": _Route(upstream="openai", address=(_BASE_URL,)),
    "openrouter": _Route(upstream="openrouter", address=(_BASE_URL,)),
    "deepseek": _Route(upstream="deepseek", address=(_BASE_URL,)),
    "vllm": _Route(upstream="vllm", address=(_BASE_URL,)),
}
_NATIVE: Mapping[str, _Route] = {
    "openai": _Route(
        upstream="openai", address=("OPENAI_BASE_URL", "OPENAI_API_BASE"), native=True
    ),
    "anthropic": _Route(upstream="anthropic", address=("ANTHROPIC_BASE_URL",), native=True),
    "gemini": _Route(upstream="gemini", address=(_BASE_URL,), path="/v1beta", native=True),
}
# Variables that LiteLLM prefers to those above.
_PREFERRED = ("ANTHROPIC_API_BASE",)


@dataclass(slots=True, kw_only=True)
class _Measured:
    """One rollout of benchflow that is registered."""

    registered: models.RolloutRegistered
    verdict: models.Verdict | None = None
    unjudged: str | None = None  # why there is no verdict


# benchflow's planes are not told whose runtime they start.
_connecting: ContextVar[Any] = ContextVar("truezero_benchflow_connecting", default=None)


def attach(module: Any) -> None:
    """Wrap the methods of ``benchflow.rollout.Rollout`` and of its planes that matter here.

    A release without one of them is left alone, with a warning.
    """
    planes = importlib.import_module("benchflow.rollout_planes").DefaultRolloutPlanes
    wrappers: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
        (module.Rollout, "connect", _connects),
        (module.Rollout, "connect_as", _connects),
        (module.Rollout, "cleanup", _settles),
        (module.Rollout, "_maybe_classify_api_error", _classifies),
        (planes, "ensure_litellm_runtime", _routes),
    )
    missing = [name for owner, name, _ in wrappers if not hasattr(owner, name)]
    if missing:
        _log.warning("this release of benchflow is not supported, it has no %s", missing)
        return
    for owner, name, wrapper in wrappers:
        setattr(owner, name, wrapper(getattr(owner, name)))


# --- wrapped methods -----------------------------------------------------------------------


def _connects(original: AsyncMethod) -> AsyncMethod:
    @wraps(original)
    async def connect(rollout: Any, *args: Any, **kwargs: Any) -> Any:
        token = _connecting.set(rollout)
        try:
            return await original(rollout, *args, **kwargs)
        finally:
            _connecting.reset(token)

    return connect


def _routes(original: AsyncMethod) -> AsyncMethod:
    @wraps(original)
    async def ensure_litellm_runtime(planes: Any, *args: Any, **kwargs: Any) -> Any:
        rollout = _connecting.get()
        if rollout is not None and not args:
            kwargs["agent_env"] = await _pointed(rollout, kwargs)
        return await original(planes, *args, **kwargs)

    return ensure_litellm_runtime


def _settles(original: AsyncMethod) -> AsyncMethod:
    @wraps(original)
    async def cleanup(rollout: Any) -> None:
        await original(rollout)  # stops LiteLLM: after it no call is in flight
        measured: _Measured | None = getattr(rollout, _STATE, None)
        if measured is not None and measured.verdict is None:
            await _settle(rollout, measured)

    return cleanup


def _classifies(original: Method) -> Method:
    @wraps(original)
    def _maybe_classify_api_error(rollout: Any) -> None:
        measured: _Measured | None = getattr(rollout, _STATE, None)
        if measured is None or (measured.verdict and measured.verdict.health == "not_judged"):
            original(rollout)
        else:
            apply(rollout, measured.verdict, measured.unjudged)

    return _maybe_classify_api_error


# --- before and after ----------------------------------------------------------------------


async def _pointed(rollout: Any, runtime: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of LiteLLM, with the rollout's address where it is routed.

    Raises:
        NotMeasured: the service is unreachable, or does not admit the rollout.
    """
    env: dict[str, str] = runtime["agent_env"]
    agent, model = runtime["agent"], runtime["model"]
    if _MASTER_KEY in env or not _goes_through_litellm(agent, model, env):
        return env
    found = importlib.import_module("benchflow.providers.litellm_config")
    try:
        asked = found.resolve_litellm_route(model, env)
    except ValueError:
        return env  # benchflow says itself what is missing
    route = route_of(asked, env, os.environ)
    if route is None:
        _log.warning(
            "%s is not measured: %s has an address of its own; name the upstream of the service "
            "that leads there in %s",
            runtime["session_id"], model, _UPSTREAM,
        )  # fmt: skip
        return env
    measured: _Measured | None = getattr(rollout, _STATE, None)
    if measured is None:
        measured = _Measured(registered=await _register(rollout, runtime, route))
        setattr(rollout, _STATE, measured)
    return {**env, **addresses(route, measured.registered, env)}


def _goes_through_litellm(agent: str, model: str | None, env: Mapping[str, str]) -> bool:
    runtime = importlib.import_module("benchflow.providers.litellm_runtime")
    native = runtime.uses_native_subscription_auth(agent, model, env)
    return not native and runtime.needs_litellm_runtime(agent, model)


async def _register(
    rollout: Any, runtime: Mapping[str, Any], route: _Route
) -> models.RolloutRegistered:
    batch = os.environ.get(_BATCH) or rollout._job_name
    if rollout._config.purpose == "reviewer":
        batch += _REVIEWERS
    task, name = rollout._config.task_path.name, runtime["session_id"][:_LONGEST_ID] or None
    facts: dict[str, Any] = {
        "batch": batch, "task": task, "upstream": route.upstream,
        "model": runtime["model"].rpartition("/")[2], "metadata": {"rollout_name": name},
    }  # fmt: skip
    try:
        async with AsyncClient() as client:
            facts["attempt"] = next_attempt(await client.rollouts(batch=batch, task=task))
            try:
                registered = await client.register(id=name, **facts)
            except ServiceError as error:
                if error.code != "rollout_exists":
                    raise
                registered = await client.register(**facts)  # benchflow's name is used again
    except ServiceError as error:
        raise NotMeasured(unmeasured(error)) from error
    if not registered.admitted:
        raise NotMeasured(registered.error or "skipped")
    return registered


async def _settle(rollout: Any, measured: _Measured) -> None:
    """Report how the rollout ended, and keep its verdict in its folder too."""
    try:
        async with AsyncClient() as client:
            _, measured.verdict = await client.ended(measured.registered.id, **outcome(rollout))
    except ServiceError as error:
        measured.unjudged = unmeasured(error)
        return
    file = rollout._rollout_dir / "truezero.json"
    try:
        file.write_text(measured.verdict.model_dump_json(indent=2), encoding="utf-8")
    except OSError as error:
        _log.warning("the verdict is not kept in %s: %s", file, error)


# --- in benchflow's terms ------------------------------------------------------------------


def apply(rollout: Any, verdict: models.Verdict | None, unjudged: str | None) -> None:
    """Write a verdict into a rollout: its diagnostics, its error, and no reward where unhealthy."""
    if verdict is not None and verdict.health == "healthy":
        return
    diagnostics = importlib.import_module("benchflow.diagnostics")
    match verdict and verdict.health:
        case "api_error":
            assert verdict is not None
            for field in _OUTRANKED:
                rollout._diagnostics._events.pop(field, None)
            rollout._diagnostics.set(diagnostics.ProviderApiErrorDiagnostic(**proven(verdict)))
            why = proven_error(verdict)
        case "suspected_api_error":
            assert verdict is not None
            rollout._diagnostics.set(diagnostics.SuspectedApiErrorDiagnostic(**suspected(verdict)))
            why = f"suspected provider api error: {sentence(verdict)}"
        case _:
            said = sentence(verdict) if verdict is not None else "the rollout was never judged"
            why = unjudged or f"truezero: not measured: {said}"
    rollout._error = f"{why}; {rollout._error}" if rollout._error else why
    rollout._rewards = None


def outcome(rollout: Any) -> OutcomeFacts:
    """Return what to report of a rollout; of errors only benchflow's category."""
    scoring = importlib.import_module("benchflow._utils.scoring")
    category = scoring.classify_error(rollout._error)
    status = _STATUSES.get(category, "unknown_execution_error") if category else "success"
    seen: OutcomeFacts = {
        "status": status,
        "prompts_executed": len(getattr(rollout, "_executed_prompts", None) or ()),
        "tool_calls": rollout._n_tool_calls or None,  # 0 also where an agent's are not seen
        "rewards": rewards_of(rollout._rewards),
        "error": category,
        "verifier_error": scoring.classify_verifier_error(rollout._verifier_error),
    }
    if status == "success":
        seen["termination_reason"] = "agent_stop" if rollout._config.user is None else "unknown"
    return seen


# --- pure ----------------------------------------------------------------------------------


def route_of(litellm: Any, env: Mapping[str, str], inherited: Mapping[str, str]) -> _Route | None:
    """Return how a model is asked through the service; None if it has an address of its own.

    Arguments:
        litellm: benchflow's LiteLLMRoute, as it is without us.
        env, inherited: variables for LiteLLM, and those of this process.
    """
    native = litellm.provider_name == "native"
    kind = litellm.upstream_model.partition("/")[0] if native else litellm.provider_name
    known = (_NATIVE if native else _REGISTERED).get(kind)
    if named := inherited.get(_UPSTREAM):
        if known is None:
            return None if native else _Route(upstream=named, address=(_BASE_URL,))
        return _Route(upstream=named, address=known.address, path=known.path, native=known.native)
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
    route: _Route, registered: models.RolloutRegistered, env: Mapping[str, str]
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


def proven(verdict: models.Verdict) -> dict[str, Any]:
    """Return the fields of benchflow's ProviderApiErrorDiagnostic."""
    return {
        "subcategory": verdict.subcategory or "provider_error",
        "transient": bool(verdict.transient),
        "dominant_status": verdict.dominant_status,
        "status_counts": dict(verdict.status_counts),
        "total_requests": verdict.total_requests,
        "failed_requests": verdict.failed_requests,
        "fingerprint": verdict.fingerprint or "",
    }


def proven_error(verdict: models.Verdict) -> str:
    """Return a proven failure as benchflow words it: its retry and its breaker read this."""
    kind = "transient" if verdict.transient else "permanent"
    status = verdict.dominant_status
    return (
        f"provider api error [{verdict.subcategory or 'provider_error'}/{kind}] "
        f"{'no HTTP status' if status is None else f'HTTP {status}'} on "
        f"{verdict.failed_requests}/{verdict.total_requests} requests"
    )


def suspected(verdict: models.Verdict) -> dict[str, Any]:
    """Return the fields of benchflow's SuspectedApiErrorDiagnostic."""
    return {
        "total_tokens": verdict.total_tokens or 0,
        "n_tool_calls": verdict.tool_calls or 0,
        "total_requests": verdict.total_requests,
        "failed_requests": verdict.failed_requests,
    }


def sentence(verdict: models.Verdict) -> str:
    """Return why a rollout is not a measurement, without the category before it."""
    said = verdict.error or f"{verdict.health} ({', '.join(verdict.warnings) or verdict.rule})"
    return said.removeprefix(f"{verdict.error_category}: ")


def unmeasured(error: ServiceError) -> str:
    """Return why nothing was measured; benchflow retries what is temporarily unavailable."""
    passing = error.status is None or error.status >= 500
    return f"truezero: not measured{', temporarily unavailable' if passing else ''}: {error}"


def rewards_of(rewards: Mapping[str, Any] | None) -> dict[str, float] | None:
    """Return the numbers among a verifier's rewards."""
    numbers = {
        name: float(value)
        for name, value in (rewards or {}).items()
        if isinstance(value, bool | int | float) and math.isfinite(value)
    }
    return numbers or None
