"""Harbor: each attempt of a trial is a rollout; what was not measured is not verified.

Harbor's own exception types name the causes, so that its retry acts on them.
"""

from __future__ import annotations

import importlib
import logging
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from truezero import models
from truezero.integrations.attempts import NotMeasured, next_attempt
from truezero.sdk.arguments import OutcomeFacts
from truezero.sdk.client import AsyncClient
from truezero.sdk.errors import ServiceError
from truezero.sdk.rollouts import Skipped

_BATCH = "TRUEZERO_BATCH"
_WITHOUT_MODEL = frozenset({"oracle", "nop"})

# harbor/agents/installed/base.py. RetryConfig.exclude_exceptions knows the first three.
EXCEPTION_TYPES: Mapping[str, str] = {
    "auth": "AgentAuthenticationError",
    "quota": "ApiUsageLimitError",
    "model_not_found": "ModelNotFoundError",
    "rate_limit": "ApiRateLimitError",
    "provider_error": "ApiInternalServerError",
}
# harbor/trial/errors.py and verifier/: of other failures only the type is reported.
_STATUSES: Mapping[str, models.ExecutionStatus] = {
    "AgentTimeoutError": "task_timeout",
    "AgentSetupTimeoutError": "setup_failed",
    "VerifierTimeoutError": "evaluation_failed",
    "RewardFileNotFoundError": "evaluation_failed",
    "RewardFileEmptyError": "evaluation_failed",
    "VerifierOutputParseError": "evaluation_failed",
}

_log = logging.getLogger("truezero")


class SuspectedApiError(RuntimeError):
    """No model seems to have been reached; not tried again by itself."""


class ProviderRejectedRequest(RuntimeError):
    """The provider rejects what the agent sends, in a way that no retry mends."""


_FINAL = (SuspectedApiError, ProviderRejectedRequest, Skipped)


@dataclass(slots=True)
class _TrialAttempt:
    """One attempt of a trial."""

    trial: Any
    registered: models.RolloutRegistered | None = None
    refused: Exception | None = None  # why it is not run
    replaced: bool = False  # Harbor's own exception by ours, before the verifier
    ended: str | None = None  # the type of that one, if any


class TruezeroPlugin:
    """Plugin of a Harbor job: ``harbor run … --plugin truezero``.

    The agent's environment gets the rollout's base URLs. Before the verifier runs, the verdict
    is asked: a trial whose model failed, or that made no call, is not verified and has one of
    Harbor's exceptions for it. At the end such trials are left out of the job's metrics.

    Arguments (``--plugin-kwarg name=value``):
        url, token: as for ``truezero.Client``.
        batch: by default ``TRUEZERO_BATCH``, else the job's name.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, batch: str | None = None
    ) -> None:
        self._service = url, token
        self._batch = batch or os.environ.get(_BATCH)
        self._job: Any = None
        self._attempts: dict[str, _TrialAttempt] = {}
        self._unmeasured: set[str] = set()

    async def on_job_start(self, job: Any) -> None:
        """Notice each attempt as it is made, before it runs.

        Raises:
            ServiceError: the service is unreachable; the job does not start.
        """
        async with self._client() as client:
            await client.greet()
        self._job, self._batch = job, self._batch or job.config.job_name
        retry = job.config.retry
        final = {kind.__name__ for kind in _FINAL}
        retry.exclude_exceptions = {*(retry.exclude_exceptions or ()), *final}
        queue = job._trial_queue
        wire = queue._setup_hooks

        def notice(trial: Any) -> None:
            name = trial.config.agent.name or trial.config.agent.import_path
            if name not in _WITHOUT_MODEL and not trial.config.is_regrade:
                self._attempts[trial.config.trial_name] = _TrialAttempt(trial)
            wire(trial)

        queue._setup_hooks = notice
        event = importlib.import_module("harbor.trial.hooks").TrialEvent
        job.add_hook(event.START, self._start)
        job.add_hook(event.ENVIRONMENT_START, self._admit)
        job.add_hook(event.VERIFICATION_START, self._judge)
        job.add_hook(event.END, self._end)

    async def on_job_end(self, job_result: Any) -> None:
        """Compute the metrics anew over the trials that were measured, and store them."""
        job = self._job
        kept: dict[tuple[str, str], list[Any]] = {}
        for trial in job_result.trial_results:
            rewards = kept.setdefault(job._evals_key_for_result(trial), [])
            if trial.trial_name not in self._unmeasured:
                rewards.append(trial.verifier_result and trial.verifier_result.rewards)
        for (key, dataset), rewards in kept.items():
            job_result.stats.evals[key].metrics = [
                metric.compute(rewards) for metric in job._metrics[dataset] if rewards
            ]
        job._write_job_result(exclude_trial_results=True)

    # --- one attempt -----------------------------------------------------------------------

    async def _start(self, event: Any) -> None:
        """Register an attempt; what is raised here would end the job."""
        attempt = self._attempts.get(event.trial_name)
        if attempt is None:
            return
        self._unmeasured.discard(event.trial_name)
        try:
            attempt.registered = await self._register(event)
        except ServiceError as error:
            attempt.refused = NotMeasured(f"truezero: not run: {error}")
            return
        if not attempt.registered.admitted:
            registered = attempt.registered
            attempt.refused = Skipped(registered.id, registered.error or "skipped")
        attempt.trial.agent._extra_env.update(attempt.registered.env)

    async def _admit(self, event: Any) -> None:
        """Refuse an attempt that would measure nothing."""
        attempt = self._attempts.get(event.trial_name)
        if attempt is not None and attempt.refused is not None:
            raise attempt.refused

    async def _judge(self, event: Any) -> None:
        """Skip the verifier where no model was reached."""
        attempt = self._attempts.get(event.trial_name)
        if attempt is None or attempt.registered is None:
            return
        try:
            async with self._client() as client:
                verdict = await client.verdict(attempt.registered.id, settled=True)
        except ServiceError as error:
            why: Exception | None = NotMeasured(f"truezero: not measured: {error}")
        else:
            why = failure(verdict, over=False)
        if why is not None:
            attempt.replaced, attempt.ended = True, _type_of(event.result.exception_info)
            raise why  # Harbor keeps an earlier one; _end replaces it

    async def _end(self, event: Any) -> None:
        """Report the attempt, and amend its result where the verifier did not ask."""
        attempt = self._attempts.pop(event.trial_name, None)
        if attempt is None:
            return
        why = attempt.refused
        if attempt.registered is not None and why is None:
            why = await self._settle(attempt.registered, attempt, event.result)
        if why is None:
            return
        self._unmeasured.add(event.trial_name)
        event.result.verifier_result = None
        if _type_of(event.result.exception_info) != type(why).__name__:
            info = importlib.import_module("harbor.models.trial.result").ExceptionInfo
            event.result.exception_info = info.from_exception(why)
        attempt.trial.paths.result_path.write_text(event.result.model_dump_json(indent=4))

    async def _settle(
        self, registered: models.RolloutRegistered, attempt: _TrialAttempt, result: Any
    ) -> Exception | None:
        try:
            async with self._client() as client:
                kind = attempt.ended if attempt.replaced else _type_of(result.exception_info)
                _, verdict = await client.ended(registered.id, **outcome(result, kind))
        except ServiceError as error:
            return NotMeasured(f"truezero: not measured: {error}")
        return failure(verdict, over=True)

    async def _register(self, event: Any) -> models.RolloutRegistered:
        agent = event.config.agent
        task = f"{event.task_name}@{agent.name or agent.import_path}"
        repeat = self._repeat(event.config)
        async with self._client() as client:
            earlier = await client.rollouts(batch=str(self._batch), task=task)
            return await client.register(
                batch=self._batch,
                task=task,
                repeat=repeat,
                attempt=next_attempt(item for item in earlier if item.repeat == repeat),
                model=(agent.model_name or "").rpartition("/")[2] or None,
                metadata={"trial_name": event.trial_name},
            )

    def _repeat(self, config: Any) -> int | None:
        """Return which of a task's trials this is; they differ by name only."""
        alike = [other.trial_name for other in self._job._trial_configs if other == config]
        return alike.index(config.trial_name) if len(alike) > 1 else None

    def _client(self) -> AsyncClient:
        return AsyncClient(*self._service)


# --- pure ----------------------------------------------------------------------------------


def failure(verdict: models.Verdict, *, over: bool) -> Exception | None:
    """Return the exception of a rollout that is no measurement; None if it is one.

    Arguments:
        over: the outcome is reported; before it a rollout without calls is undecided.
    """
    if not over and verdict.total_requests == 0:
        return SuspectedApiError("no model call reached truezero: check the agent's base URL")
    why = verdict.error or f"{verdict.health}: {', '.join(verdict.warnings) or verdict.rule}"
    match verdict.health:
        case "api_error":
            name = EXCEPTION_TYPES.get(verdict.subcategory or "")
            if name is None:
                return ProviderRejectedRequest(why)
            kind = getattr(importlib.import_module("harbor.agents.installed.base"), name)
            found: Exception = kind(why)
            return found
        case "suspected_api_error":
            return SuspectedApiError(why)
        case "undecided":
            return NotMeasured(why)
    return None


def outcome(result: Any, kind: str | None) -> OutcomeFacts:
    """Return what to report of a trial; of Harbor's own exception only the type, ``kind``."""
    seen: OutcomeFacts = {
        "status": _STATUSES.get(kind, "unknown_execution_error") if kind else "success",
        "prompts_executed": 0 if result.agent_execution is None else 1,
        "rewards": rewards_of(result.verifier_result and result.verifier_result.rewards),
        "error": kind,
    }
    if kind is None:
        seen["termination_reason"] = "agent_stop"
    return seen


def rewards_of(rewards: Mapping[str, Any] | None) -> dict[str, float] | None:
    """Return the finite numbers among a verifier's rewards."""
    numbers = {
        name: float(value) for name, value in (rewards or {}).items() if math.isfinite(value)
    }
    return numbers or None


def _type_of(info: Any) -> str | None:
    return None if info is None else str(info.exception_type)
