"""Harbor: each attempt of a trial is a rollout; what was not measured is not verified.

Harbor's own exception types name the causes, so that its retry acts on them.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truezero import AsyncClient, foreign, models
from truezero.integrations.attempts import (
    BATCH,
    NO_CALL,
    check_service,
    finite,
    keep_verdict,
    no_measurement,
    undecided,
)
from truezero.integrations.cards import CARD_FILE, write_card
from truezero.printable import plural
from truezero.sdk.arguments import OutcomeFacts
from truezero.sdk.errors import NotMeasured, ServiceError
from truezero.sdk.outcomes import outcomes_left
from truezero.sdk.rollouts import Skipped

_KEPT = "truezero.json"  # in a trial's folder, beside Harbor's result.json
_WITHOUT_MODEL = frozenset({"oracle", "nop"})

# harbor/agents/installed/base.py, by a failure's cause. Harbor 0.26 tries the second again.
_PERMANENT: Mapping[str, str] = {
    "auth": "AgentAuthenticationError",
    "quota": "ApiUsageLimitError",
    "model_not_found": "ModelNotFoundError",
}
EXCEPTION_TYPES: Mapping[str, str] = {
    **_PERMANENT,
    "rate_limit": "ApiRateLimitError",
    "provider_error": "ApiInternalServerError",
}
# harbor/trial/errors.py and verifier/: of other failures only the type is reported.
STATUSES: Mapping[str, models.ExecutionStatus] = {
    "AgentTimeoutError": "task_timeout",
    "EnvironmentStartTimeoutError": "setup_failed",
    "SandboxBuildFailedError": "setup_failed",
    "HealthcheckError": "setup_failed",
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


class SpoiltMeasurement(RuntimeError):
    """The model was reached, and its score does not count; not tried again by itself."""


# Harbor looks up by the name of an exception's type whether the trial has a valid reward
# (harbor/models/trial/error_policy.py). One that it does not know has, so ours have its names.
KNOWN_AS: Mapping[type[Exception], str] = {
    SuspectedApiError: "APIResponseValidationError",
    ProviderRejectedRequest: "BadRequestError",
    SpoiltMeasurement: "APIResponseValidationError",
    Skipped: "CancelledError",  # so that `harbor job resume` runs it
    NotMeasured: "ApiConnectionError",
}
_FINAL = (SuspectedApiError, ProviderRejectedRequest, SpoiltMeasurement, Skipped)
_NOT_RETRIED = {*_PERMANENT.values(), *(KNOWN_AS[kind] for kind in _FINAL)}


@dataclass(slots=True)
class _TrialAttempt:
    """One attempt of a trial."""

    trial: Any
    registered: models.RolloutRegistered | None = None
    refused: Exception | None = None  # why it is not run
    replaced: bool = False  # Harbor's own exception by ours, before the verifier
    ended: str | None = None  # the type of that one, if any
    verdict: models.Verdict | None = None

    @property
    def lane(self) -> str:
        """The agent and the model: attempts of one lane reach their provider alike."""
        agent = self.trial.config.agent
        return f"{agent.name or agent.import_path}/{agent.model_name}"


class TruezeroPlugin:
    """Plugin of a Harbor job: ``harbor run … --plugin truezero``.

    The agent's environment gets the rollout's base URLs. Before the verifier runs, the verdict
    is asked: a trial whose model failed, or that made no call, is not verified and has one of
    Harbor's exceptions for it, with which Harbor leaves it out of the job's metrics. Until a
    call of an agent comes through the service, its trials without one keep Harbor's own results.

    Arguments (``--plugin-kwarg name=value``):
        url, token: as for ``truezero.Client``.
        batch: by default ``TRUEZERO_BATCH``, else the job's name.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, batch: str | None = None
    ) -> None:
        self._service = url, token
        self._batch = batch or os.environ.get(BATCH)
        self._job: Any = None
        self._attempts: dict[str, _TrialAttempt] = {}
        self._unmeasured: dict[str, str] = {}  # why, by the trial's name
        self._silent: dict[str, str] = {}  # lanes, by the name of the trial that made no call
        self._called: set[str] = set()  # lanes of which a call was seen
        self._away = False
        self._measures = False  # a trial of this job was put under a rollout

    async def on_job_start(self, job: Any) -> None:
        """Notice each attempt as it is made, before it runs.

        Raises:
            ServiceError: the service is unreachable; the job does not start.
        """
        try:
            await asyncio.to_thread(check_service, *self._service)
        except ServiceError as error:
            raise _not_started(error) from error
        self._job, self._batch = job, self._batch or job.config.job_name
        self._recall(Path(job.job_dir))
        queue = job._trial_queue
        retry = queue._retry_config
        final = {*(retry.exclude_exceptions or ()), *(_NOT_RETRIED - _retried(job.config))}
        # a copy: Harbor resumes a job only with the configuration that it wrote
        queue._retry_config = retry.model_copy(update={"exclude_exceptions": final})
        wire = queue._setup_hooks

        def notice(trial: Any) -> None:
            name = trial.config.agent.name or trial.config.agent.import_path
            if name not in _WITHOUT_MODEL and not trial.config.is_regrade:
                self._attempts[trial.config.trial_name] = _TrialAttempt(trial)
                self._measures = True
            wire(trial)

        queue._setup_hooks = notice
        event = importlib.import_module("harbor.trial.hooks").TrialEvent
        job.add_hook(event.START, self._start)
        job.add_hook(event.ENVIRONMENT_START, self._admit)
        job.add_hook(event.VERIFICATION_START, self._judge)
        job.add_hook(event.END, self._end)

    async def on_job_end(self, job_result: Any) -> None:
        """Say how much of the job was not measured, and which outcomes are not delivered."""
        said = []
        of = plural(len(job_result.trial_results), "trial")
        if self._silent:
            _log.warning(
                "truezero: no call of %s came through the service in %d of %s, which keep Harbor's "
                "own results, unmeasured: does it read its base URL from the environment, or has "
                "it one of its own?",
                ", ".join(sorted({*self._silent.values()})), len(self._silent), of,
            )  # fmt: skip
        if self._unmeasured:
            said.append(
                f"{len(self._unmeasured)} of {of} not measured and left out of the metrics: "
                f"`truezero check {self._batch}` says why"
            )
        said.extend(filter(None, [outcomes_left(), await self._write_card()]))
        if said:
            _log.warning("truezero: %s", "; ".join(said))

    async def _write_card(self) -> str | None:
        """Put the batch's measurement card into the job's folder; return why it is not there."""
        if not (self._measures and self._batch):
            return None
        file = Path(self._job.job_dir) / CARD_FILE
        return await asyncio.to_thread(write_card, file, self._batch, "harbor", *self._service)

    def _recall(self, folder: Path) -> None:
        """Read what an earlier run of this job left beside its trials."""
        for file in folder.glob(f"*/{_KEPT}"):
            try:
                kept = foreign.parse(foreign.read(file, links=False))
            except (OSError, ValueError):
                continue
            if kept.get("why"):
                self._unmeasured[file.parent.name] = kept["why"]
            if kept.get("lane"):
                self._called.add(kept["lane"])

    # --- one attempt -----------------------------------------------------------------------

    async def _start(self, event: Any) -> None:
        """Register an attempt; what is raised here would end the job."""
        attempt = self._attempts.get(event.trial_name)
        if attempt is None:
            return
        self._unmeasured.pop(event.trial_name, None)
        self._silent.pop(event.trial_name, None)
        try:
            attempt.registered = await self._register(event)
        except ServiceError as error:
            attempt.refused = self._lost("not run", error)
            return
        self._away = False
        if not attempt.registered.admitted:
            registered = attempt.registered
            attempt.refused = _named(Skipped)(registered.id, registered.error or "skipped")
        attempt.trial.agent._extra_env.update(attempt.registered.env)

    async def _admit(self, event: Any) -> None:
        """Refuse an attempt that would measure nothing."""
        attempt = self._attempts.get(event.trial_name)
        if attempt is not None and attempt.refused is not None:
            raise attempt.refused

    async def _judge(self, event: Any) -> None:
        """Skip the verifier where no model was reached.

        While the service is away it runs: its rewards are part of the outcome that is kept.
        """
        attempt = self._attempts.get(event.trial_name)
        if attempt is None or attempt.registered is None:
            return
        try:
            async with self._client() as client:
                verdict = await client.verdict(attempt.registered.id, settled=True)
        except ServiceError:
            return
        why = failure(verdict, over=False)
        if self._called_by(attempt, verdict) and why is not None:
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
        verdict = attempt.verdict
        called = verdict is not None and self._called_by(attempt, verdict)
        if why is None:
            if verdict is not None:
                _keep(attempt, None)
        elif verdict is not None and not called:
            self._silent[event.trial_name] = attempt.lane
        else:
            self._unmeasured[event.trial_name] = str(why)
            _amend(attempt, event.result, why)

    async def _settle(
        self, registered: models.RolloutRegistered, attempt: _TrialAttempt, result: Any
    ) -> Exception | None:
        try:
            async with self._client() as client:
                kind = attempt.ended if attempt.replaced else _type_of(result.exception_info)
                _, attempt.verdict = await client.ended(registered.id, **outcome(result, kind))
        except ServiceError as error:
            return self._lost("not measured", error)
        return failure(attempt.verdict, over=True)

    def _called_by(self, attempt: _TrialAttempt, verdict: models.Verdict) -> bool:
        """Return true if this attempt or another of its lane was seen calling."""
        if verdict.total_requests:
            self._called.add(attempt.lane)
        return attempt.lane in self._called

    def _lost(self, what: str, error: ServiceError) -> Exception:
        """Return the exception of a trial; say once that the service is away."""
        if not self._away:
            _log.warning("truezero: trials are not measured while this lasts: %s", error)
        self._away = True
        return _named(NotMeasured)(f"truezero: {what}: {error}")

    async def _register(self, event: Any) -> models.RolloutRegistered:
        agent, trials = event.config.agent, self._job.config.n_attempts
        async with self._client() as client:
            return await client.register(
                batch=self._batch,
                task=f"{event.task_name}@{agent.name or agent.import_path}",
                repeats=trials if trials > 1 else None,
                model=(agent.model_name or "").rpartition("/")[2] or None,
                metadata={"trial_name": event.trial_name},
            )

    def _client(self) -> AsyncClient:
        return AsyncClient(*self._service)


# --- pure ----------------------------------------------------------------------------------


def _named(kind: type[Exception]) -> type[Exception]:
    """Return an exception of ours by the name that Harbor knows it by."""
    return type(KNOWN_AS[kind], (kind,), {})


def _retried(config: Any) -> set[str]:
    """Return the exceptions that a job's own configuration names as to be tried again."""
    overridden = getattr(config, "override_error_policy", None) or {}
    return {
        *(getattr(config.retry, "include_exceptions", None) or ()),
        *(name for name, policy in overridden.items() if policy.should_retry),
    }


def failure(verdict: models.Verdict, *, over: bool) -> Exception | None:
    """Return the exception of a rollout that is no measurement; None if it is one.

    Arguments:
        over: the outcome is reported; before it a rollout without calls is undecided.
    """
    if not over and verdict.total_requests == 0:
        return _named(SuspectedApiError)(NO_CALL)
    if (doubt := undecided(verdict)) is not None:
        return _named(NotMeasured)(doubt)
    if (why := no_measurement(verdict)) is None:
        return None
    match verdict.health:
        case "api_error":
            name = EXCEPTION_TYPES.get(verdict.subcategory or "")
            if name is None:
                return _named(ProviderRejectedRequest)(why)
            kind = getattr(importlib.import_module("harbor.agents.installed.base"), name)
            found: Exception = kind(why)
            return found
        case "suspected_api_error":
            return _named(SuspectedApiError)(why)
        case "not_judged":
            return _named(Skipped)(verdict.rollout_id, why)
    return _named(SpoiltMeasurement)(why)


def outcome(result: Any, kind: str | None) -> OutcomeFacts:
    """Return what to report of a trial; of Harbor's own exception only the type, ``kind``."""
    seen: OutcomeFacts = {
        "status": STATUSES.get(kind, "unknown_execution_error") if kind else "success",
        "prompts_executed": 0 if result.agent_execution is None else 1,
        "rewards": finite(result.verifier_result and result.verifier_result.rewards),
        "error": kind,
    }
    if kind is None:
        seen["termination_reason"] = "agent_stop"
    return seen


def _type_of(info: Any) -> str | None:
    return None if info is None else str(info.exception_type)


# --- what is written -----------------------------------------------------------------------


def _not_started(error: ServiceError) -> ServiceError:
    """Return what Harbor's command ends with: one sentence and code 1, no traceback."""
    kind = type("JobNotStarted", (ServiceError, importlib.import_module("typer").Exit), {})
    stopped = kind(f"truezero: no job is started: {error}", status=error.status, code=error.code)
    stopped.exit_code = str(stopped)  # what `sys.exit` prints
    return stopped  # type: ignore[no-any-return]


def _amend(attempt: _TrialAttempt, result: Any, why: Exception) -> None:
    """Take the reward from a trial's result, and write why."""
    result.verifier_result = None
    if _type_of(result.exception_info) != type(why).__name__:
        info = importlib.import_module("harbor.models.trial.result").ExceptionInfo
        result.exception_info = info.from_exception(why)
    attempt.trial.paths.result_path.write_text(result.model_dump_json(indent=4))
    _keep(attempt, why)


def _keep(attempt: _TrialAttempt, why: Exception | None) -> None:
    """Write the verdict beside a trial's result, so that a resumed job knows it."""
    verdict = attempt.verdict
    file = Path(attempt.trial.paths.result_path).with_name(_KEPT)
    kept = {
        "why": why and str(why),
        "lane": attempt.lane if verdict and verdict.total_requests else None,
        "verdict": verdict and verdict.model_dump(mode="json"),
    }
    keep_verdict(file, json.dumps(kept, indent=2))
