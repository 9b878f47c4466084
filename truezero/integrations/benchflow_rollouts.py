"""benchflow's rollouts under truezero: registered, pointed at the service, judged in its own terms.

Every function that is wrapped stays in charge of its own work. A rollout that was led to the
service and cannot be judged keeps no reward and says why. Where truezero was not asked for and
cannot measure, benchflow goes on as it is.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

from truezero import AsyncClient, models
from truezero.foreign import parse, read
from truezero.integrations.attempts import (
    BATCH,
    GREETING_S,
    Contact,
    check_service,
    finite,
    keep_verdict,
    no_measurement,
    undecided,
)
from truezero.integrations.benchflow import SWITCH, asked_for
from truezero.integrations.cards import CARD_KEY, NoCard, fetch_card
from truezero.sdk.arguments import OutcomeFacts
from truezero.sdk.errors import NotMeasured, ServiceError
from truezero.whole_file import write_whole

# --- address ---
#
# The variables that lead LiteLLM from benchflow to the service.


UPSTREAM = "TRUEZERO_BENCHFLOW_UPSTREAM"  # names the service's upstreams that have the models

# benchflow/agents/env.py and providers/litellm_config.py.
_BASE_URL, _KEY = "BENCHFLOW_PROVIDER_BASE_URL", "BENCHFLOW_PROVIDER_API_KEY"
# LiteLLM reads one of these, by the kind of the model (litellm/main.py).
_ADDRESSES = (
    _BASE_URL, "OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"
)  # fmt: skip


def upstream_of(route: Any) -> str:
    """Return the named upstream of a model: the one of its provider's name, else the first.

    Arguments:
        route: benchflow's LiteLLMRoute.
    """
    native = route.provider_name == "native"
    provider = route.upstream_model.partition("/")[0] if native else route.provider_name
    named = os.environ[UPSTREAM].split(",")
    return provider if provider in named else named[0]


def addresses(
    upstream: str, registered: models.RolloutRegistered, env: Mapping[str, str], *, gemini: bool
) -> dict[str, str]:
    """Return the variables that lead LiteLLM to the rollout; the provider's key stays the user's.

    Arguments:
        gemini: LiteLLM asks Google's API, whose version is part of the address and which has a
            variable of its own for the key.

    Raises:
        NotMeasured: the service has no such upstream.
    """
    base = registered.base_urls.get(upstream)
    if base is None:
        raise NotMeasured(f"truezero: the service has no upstream {upstream!r}")
    variables = dict.fromkeys(_ADDRESSES, f"{base}/v1beta" if gemini else base)
    keys = (env.get(name) for name in (_KEY, *(("GEMINI_API_KEY",) if gemini else ())))
    return {**variables, _KEY: next(filter(None, keys), registered.key)}


# --- verdicts ---
#
# A rollout's outcome as benchflow has it, and its verdict in benchflow's own terms.


# benchflow/_utils/scoring.py: classify_error. Its sentences may contain prompts, these do not.
STATUSES: Mapping[str, models.ExecutionStatus] = {
    "idle_timeout": "task_timeout",
    "timeout": "task_timeout",
    "install_failure": "setup_failed",
    "sandbox_setup": "setup_failed",
    "pipe_closed": "environment_error",
    "infra_failure": "environment_error",
}
# benchflow/diagnostics.py: fields that would outrank the provider's failure as the category.
_OUTRANKED = ("idle_timeout_info", "agent_timeout_info")


def apply(rollout: Any, verdict: models.Verdict | None, unjudged: str | None) -> None:
    """Write a verdict into a rollout: diagnostics, error, and no reward where none counts."""
    reason = "the rollout was never judged" if verdict is None else sentence(verdict)
    if reason is None:
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
            why = f"suspected provider api error: {reason}"
        case _:
            why = unjudged or f"truezero: not measured: {reason}"
    rollout._error = f"{why}; {rollout._error}" if rollout._error else why
    rollout._rewards = None


def outcome(rollout: Any) -> OutcomeFacts:
    """Return what to report of a rollout; of errors only benchflow's category."""
    scoring = importlib.import_module("benchflow._utils.scoring")
    category = scoring.classify_error(rollout._error)
    status = STATUSES.get(category, "unknown_execution_error") if category else "success"
    seen: OutcomeFacts = {
        "status": status,
        "prompts_executed": len(getattr(rollout, "_executed_prompts", None) or ()),
        "tool_calls": rollout._n_tool_calls or None,  # 0 also where an agent's are not seen
        "rewards": finite(rollout._rewards),
        "error": category,
        "verifier_error": scoring.classify_verifier_error(rollout._verifier_error),
    }
    if status == "success":
        seen["termination_reason"] = "agent_stop" if rollout._config.user is None else "unknown"
    return seen


def proven(verdict: Any) -> dict[str, Any]:
    """Return the fields of benchflow's ProviderApiErrorDiagnostic.

    Arguments:
        verdict: as REST has it, or of the classifier.
    """
    return {
        "subcategory": verdict.subcategory or "provider_error",
        "transient": bool(verdict.transient),
        "dominant_status": verdict.dominant_status,
        "status_counts": dict(verdict.status_counts),
        "total_requests": verdict.total_requests,
        "failed_requests": verdict.failed_requests,
        "fingerprint": verdict.fingerprint or "",
    }


def proven_error(verdict: Any, *, counted: bool = True) -> str:
    """Return a proven failure as benchflow words it: its retry and its breaker read this.

    Arguments:
        verdict: as for ``proven``.
        counted: whether its counts are of calls.
    """
    kind = "transient" if verdict.transient else "permanent"
    status = verdict.dominant_status
    answer = "no HTTP status" if status is None else f"HTTP {status}"
    of = f" on {verdict.failed_requests}/{verdict.total_requests} requests" if counted else ""
    return f"provider api error [{verdict.subcategory or 'provider_error'}/{kind}] {answer}{of}"


def suspected(verdict: Any) -> dict[str, Any]:
    """Return the fields of benchflow's SuspectedApiErrorDiagnostic; arguments as ``proven``."""
    return {
        "total_tokens": verdict.total_tokens or 0,
        "n_tool_calls": verdict.tool_calls or 0,
        "total_requests": verdict.total_requests,
        "failed_requests": verdict.failed_requests,
    }


def sentence(verdict: models.Verdict) -> str | None:
    """Return why a rollout is no measurement, without its category; None if it is one."""
    why = no_measurement(verdict) or undecided(verdict)
    return why and why.removeprefix(f"{verdict.error_category}: ")


def unmeasured(error: ServiceError) -> str:
    """Return why nothing was measured; benchflow retries what is temporarily unavailable."""
    passing = error.status is None or error.status >= 500
    return f"truezero: not measured{', temporarily unavailable' if passing else ''}: {error}"


# --- rollouts ---


Method = Callable[..., Any]
AsyncMethod = Callable[..., Awaitable[Any]]

_REVIEWERS = "-reviewers"  # an agent that grades another's work is no sample of the job's
_STATE = "_truezero"
_LONGEST_ID = 200
# Set on a reconnect (benchflow/providers/litellm_config.py): what it was first given is restored.
_MASTER_KEY = "BENCHFLOW_LITELLM_MASTER_KEY"

_log = logging.getLogger("truezero")


@dataclass(slots=True, kw_only=True)
class _Measured:
    """One rollout of benchflow that is registered."""

    registered: models.RolloutRegistered
    verdict: models.Verdict | None = None
    unjudged: str | None = None  # why there is no verdict


class NotStarted(ValueError):
    """No job is started; benchflow's command prints the sentence and ends with 1."""


# benchflow's planes are not told whose runtime they start.
_connecting: ContextVar[Any] = ContextVar("truezero_benchflow_connecting", default=None)


_measured_jobs: dict[str, str] = {}  # batches of running jobs of which a rollout was judged
_told: set[str] = set()
_unsupported: list[str] = []  # why nothing was wrapped


def _say_once(sentence: str) -> None:
    """Say on the console what holds for a whole job, not for each of its rollouts."""
    if sentence not in _told:
        _told.add(sentence)
        _log.warning("truezero: %s", sentence)


def _goes_on(why: str) -> None:
    _say_once(f"benchflow goes on unmeasured ({SWITCH}=on would stop it): {why}")


_contact = Contact(_goes_on)


def attach_evaluation(module: Any) -> None:
    """Wrap ``benchflow.evaluation.Evaluation.run``: the service is greeted before a job."""
    module.Evaluation.run = _starts(module.Evaluation.run)


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
        _unsupported.append(f"this release of benchflow is not supported, it has no {missing}")
        if not asked_for():
            _say_once(_unsupported[-1])
        return
    for owner, name, wrapper in wrappers:
        setattr(owner, name, wrapper(getattr(owner, name)))


# --- wrapped methods ---


def _starts(original: AsyncMethod) -> AsyncMethod:
    @wraps(original)
    async def run(evaluation: Any) -> Any:
        if asked_for():
            why = next(iter(_unsupported), None) or _unnamed()
            why = why or await asyncio.to_thread(_refusal)
            if why:
                raise NotStarted(f"truezero: no job is started: {why}")
        elif not _unnamed():
            await asyncio.to_thread(_contact.made)
        done = await original(evaluation)
        batch = _measured_jobs.pop(evaluation._job_name, None)
        if batch and (why := await asyncio.to_thread(_summarize, evaluation, batch)):
            _log.warning("truezero: %s", why)
        return done

    return run


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
    def classify(rollout: Any) -> None:
        measured: _Measured | None = getattr(rollout, _STATE, None)
        if measured is None or (measured.verdict and measured.verdict.health == "not_judged"):
            original(rollout)
        else:
            apply(rollout, measured.verdict, measured.unjudged)

    return classify


# --- before and after ---


async def _pointed(rollout: Any, runtime: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of LiteLLM, with the rollout's address where it is measured.

    Raises:
        NotMeasured: truezero was asked for, and cannot measure this rollout.
    """
    env: dict[str, str] = runtime["agent_env"]
    agent, model = runtime["agent"], runtime["model"]
    if _MASTER_KEY in env or not _goes_through_litellm(agent, model, env):
        return env
    why = _unnamed()
    if asked_for():
        if why:
            raise NotMeasured(f"truezero: {why}")
        return await _measured(rollout, runtime)
    if why:
        _goes_on(why)
        return env
    if not await asyncio.to_thread(_contact.made):
        return env
    try:
        async with asyncio.timeout(GREETING_S):
            return await _measured(rollout, runtime)
    except NotMeasured as refused:
        if refused.__cause__ is None:  # of this job, not of the service
            _goes_on(str(refused))
        else:
            _contact.leave(str(refused.__cause__))
    except TimeoutError:
        _contact.leave(f"the truezero service registered nothing within {GREETING_S:g} s")
    return env


async def _measured(rollout: Any, runtime: Mapping[str, Any]) -> dict[str, str]:
    """Return LiteLLM's environment with the address of the rollout, registered if it is new."""
    env: dict[str, str] = runtime["agent_env"]
    config = importlib.import_module("benchflow.providers.litellm_config")
    try:
        route = config.resolve_litellm_route(runtime["model"], env)
    except ValueError:
        return env  # benchflow says itself what is missing
    upstream = upstream_of(route)
    measured: _Measured | None = getattr(rollout, _STATE, None)
    if measured is None:
        measured = _Measured(registered=await _register(rollout, runtime, upstream))
    gemini = route.upstream_model.startswith("gemini/")
    variables = {**env, **addresses(upstream, measured.registered, env, gemini=gemini)}
    setattr(rollout, _STATE, measured)
    return variables


def _unnamed() -> str | None:
    """Return what is to be set; None if it is."""
    if os.environ.get(UPSTREAM):
        return None
    return f"set {UPSTREAM} to the upstream of the service that has the models, such as openai"


def _refusal() -> str | None:
    try:
        check_service()
    except ServiceError as error:
        return str(error)
    return None


def _summarize(evaluation: Any, batch: str) -> str | None:
    """Add the measurement card to a job's summary; return why it is not there.

    benchflow/evaluation.py: the summary of a job is in its folder, and the last one also above.
    """
    try:
        jobs = Path(evaluation._jobs_dir)
        file = jobs / evaluation._job_name / "summary.json"
        written = read(file)
        card = parse(fetch_card(batch, "benchflow"))
        summary = json.dumps({**parse(written), CARD_KEY: card}, indent=2).encode()
        write_whole(file, summary)
        above = jobs / file.name
        if read(above) == written:
            write_whole(above, summary)
    except NoCard as error:
        return str(error)
    except (AttributeError, OSError, ValueError) as error:  # of a release without this summary
        return str(NoCard(batch, f"{type(error).__name__} at benchflow's summary"))
    return None


def _goes_through_litellm(agent: str, model: str | None, env: Mapping[str, str]) -> bool:
    runtime = importlib.import_module("benchflow.providers.litellm_runtime")
    native = runtime.uses_native_subscription_auth(agent, model, env)
    return not native and runtime.needs_litellm_runtime(agent, model)


def _batch_of(rollout: Any) -> str:
    return os.environ.get(BATCH) or str(rollout._job_name)


async def _register(
    rollout: Any, runtime: Mapping[str, Any], upstream: str
) -> models.RolloutRegistered:
    batch = _batch_of(rollout)
    if rollout._config.purpose == "reviewer":
        batch += _REVIEWERS
    name = runtime["session_id"][:_LONGEST_ID] or None
    facts: dict[str, Any] = {
        "batch": batch, "task": rollout._config.task_path.name, "upstream": upstream,
        "model": runtime["model"].rpartition("/")[2], "metadata": {"rollout_name": name},
    }  # fmt: skip
    try:
        async with AsyncClient() as client:
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
    if rollout._config.purpose != "reviewer":
        _measured_jobs[rollout._job_name] = _batch_of(rollout)
    file = rollout._rollout_dir / "truezero.json"
    keep_verdict(file, measured.verdict.model_dump_json(indent=2))
