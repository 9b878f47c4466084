"""Inspect: each attempt of a sample is a rollout, and is not scored if no model was reached."""

from __future__ import annotations

import importlib
import math
import os
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any

from truezero import models
from truezero.sdk.arguments import OutcomeFacts
from truezero.sdk.client import AsyncClient

Scorer = Callable[[Any, Any], Awaitable[Any]]

_KEY_HEADER = "x-truezero-key"  # the rollout's, beside the provider's own; not passed on
_JUDGE = "judge"
_OFF = frozenset({"0", "off", "false", "no"})

# inspect_ai/scorer/_metric.py: CORRECT, INCORRECT, PARTIAL, NOANSWER.
_LETTERS: Mapping[str, float] = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}

# inspect_ai/log/_log.py: EvalSampleLimit.type; other limits stop an agent for other reasons.
_TIME_LIMITS = frozenset({"time", "working"})
_STEP_LIMITS = frozenset({"message", "turn", "token", "cost"})


@dataclass(slots=True)
class _Attempt:
    """One attempt of one sample, while it runs."""

    registered: models.RolloutRegistered | None = None
    scoring: bool = False
    cached_tokens: int = 0  # of answers from Inspect's own cache, which the proxy does not see


# Inspect awaits the hooks of an attempt in the context in which its solver and scorers run.
_attempt: ContextVar[_Attempt | None] = ContextVar("truezero_attempt", default=None)
_installed = threading.Event()  # Inspect keeps one hook of a name: the last


def plug() -> None:
    """Install the hook for the service at ``TRUEZERO_URL``, unless ``install`` was called.

    It imports nothing and changes nothing unless ``TRUEZERO_URL`` is set.
    ``TRUEZERO_INSPECT=off`` turns it off.
    """
    url, switch = os.environ.get("TRUEZERO_URL"), os.environ.get("TRUEZERO_INSPECT", "")
    if url and switch.lower() not in _OFF and not _installed.is_set():
        install()


def install(url: str | None = None, token: str | None = None) -> None:
    """Register every sample that Inspect runs as a rollout; call once, before ``eval``.

    Not needed where ``TRUEZERO_URL`` is set: Inspect's entry points do it. The batch is the
    log's ``eval.eval_id``, the task a sample's id, ``repeat`` its epoch from 0 and ``repeats`` the
    number of epochs. The model's base URL is the service's ``{url}/openai/v1`` (or another
    upstream's).

    Arguments:
        url, token: as for ``truezero.Client``.

    Raises:
        ImportError: inspect-ai is not installed.
    """
    api = importlib.import_module("inspect_ai.hooks")
    limit = importlib.import_module("inspect_ai.util").LimitExceededError

    def stopped(reason: str) -> Exception:
        error: Exception = limit("custom", value=1, limit=0, message=reason)
        return error

    members = {
        "client": staticmethod(lambda: AsyncClient(url, token)),
        "stopped": staticmethod(stopped),
    }
    named = api.hooks(name="truezero", description="Each attempt of a sample is a rollout.")
    named(type("Truezero", (SampleHooks, api.Hooks), members))
    _installed.set()


class SampleHooks:
    """Inspect's hooks; ``install`` adds the base class (inspect_ai/hooks/_hooks.py).

    A client is opened for each request: evals in one process have separate event loops.
    """

    client: Callable[[], AsyncClient]
    stopped: Callable[[str], Exception]

    def __init__(self) -> None:
        super().__init__()
        self._epochs: dict[str, int | None] = {}  # by eval, while it runs

    async def on_task_start(self, data: Any) -> None:
        """Note how many epochs an eval has; inspect_ai/log/_log.py: EvalConfig.epochs."""
        self._epochs[data.eval_id] = data.spec.config.epochs

    async def on_task_end(self, data: Any) -> None:
        """Forget it."""
        self._epochs.pop(data.eval_id, None)

    async def on_sample_attempt_start(self, data: Any) -> None:
        """Register an attempt; end a sample that an open breaker does not admit.

        Raises:
            LimitExceededError: not admitted; the only error on which Inspect ends a sample.
        """
        attempt = _Attempt()
        _attempt.set(attempt)
        async with self.client() as client:
            attempt.registered = await client.register(
                id=_rollout_id(data.sample_id, data.attempt),
                batch=data.eval_id,
                task=str(data.summary.id),
                repeat=data.summary.epoch - 1,
                repeats=self._epochs.get(data.eval_id),
                attempt=data.attempt - 1,
                roles=[_JUDGE],
            )
        if not attempt.registered.admitted:
            raise self.stopped(attempt.registered.error or "skipped")

    async def on_before_model_generate(self, data: Any) -> None:
        """Add the rollout's key to a call; the configuration is a copy for this call."""
        attempt = _attempt.get()
        if attempt is not None and attempt.registered is not None:
            named = identity(attempt.registered, judging=attempt.scoring)
            data.config.extra_headers = {**(data.config.extra_headers or {}), **named}

    async def on_model_cache_usage(self, data: Any) -> None:
        """Count the tokens of an answer from Inspect's cache."""
        attempt = _attempt.get()
        if attempt is not None and not attempt.scoring:
            attempt.cached_tokens += data.usage.total_tokens

    async def on_sample_scoring(self, data: Any) -> None:
        """Mark further calls as those of a judge."""
        del data
        attempt = _attempt.get()
        if attempt is not None:
            attempt.scoring = True

    async def on_sample_attempt_end(self, data: Any) -> None:
        """Report an attempt that Inspect repeats; the last one is reported with its sample."""
        if data.will_retry:
            await self._report(failed_attempt())

    async def on_sample_end(self, data: Any) -> None:
        """Report the outcome of the sample."""
        attempt = _attempt.get()
        cached = attempt.cached_tokens if attempt is not None else 0
        await self._report(sample_outcome(data.sample, cached_tokens=cached))

    async def _report(self, outcome: OutcomeFacts) -> None:
        attempt = _attempt.get()
        if attempt is None or attempt.registered is None or not attempt.registered.admitted:
            return
        async with self.client() as client:
            await client.report(attempt.registered.id, **outcome)


def measured(scorer: Scorer, url: str | None = None, token: str | None = None) -> Scorer:
    """Wrap a scorer to return ``Score.unscored`` for a sample that reached no model.

    Inspect's metrics ignore such a score; its reason says what failed. The scorer keeps its
    name and its metrics.

    Arguments:
        url, token: as for ``truezero.Client``.
    """

    async def score(state: Any, target: Any) -> Any:
        why = await _unmeasured(url, token)
        if why is None:
            return await scorer(state, target)
        unscored = importlib.import_module("inspect_ai.scorer").Score.unscored
        return unscored(reason=why)

    update_wrapper(score, scorer)  # Inspect's registry entry is an attribute, and is copied too
    return score


async def _unmeasured(url: str | None, token: str | None) -> str | None:
    """Return why the current attempt is not a measurement; None if it is one."""
    attempt = _attempt.get()
    if attempt is None or attempt.registered is None:
        raise RuntimeError(
            "the sample is not registered: set TRUEZERO_URL, or call "
            "truezero.integrations.inspect_ai.install() before eval(), and check that the service "
            "is reachable"
        )
    if not attempt.registered.admitted:
        return attempt.registered.error or "skipped"
    async with AsyncClient(url, token) as client:
        verdict = await client.verdict(attempt.registered.id, settled=True)
    return why_unmeasured(verdict, cached_tokens=attempt.cached_tokens)


# --- pure ----------------------------------------------------------------------------------


def identity(registered: models.RolloutRegistered, *, judging: bool) -> dict[str, str]:
    """Return the header that identifies the rollout, and whether a judge makes the call."""
    return {_KEY_HEADER: registered.roles[_JUDGE].key if judging else registered.key}


def why_unmeasured(verdict: models.Verdict, *, cached_tokens: int) -> str | None:
    """Return why there is nothing to score before the outcome is reported; None if there is.

    Without an outcome the service does not suspect a rollout without calls; a sample that is
    being scored has run, so the missing call is known to be a failure here.
    """
    if verdict.error_category is not None:
        return verdict.error or verdict.error_category
    if verdict.total_requests == 0 and cached_tokens == 0:
        return "no model call reached truezero: check that the model's base URL is the service's"
    return None


def sample_outcome(sample: Any, *, cached_tokens: int = 0) -> OutcomeFacts:
    """Return what to report of a sample (inspect_ai.log.EvalSample), without error messages."""
    limit = sample.limit.type if sample.limit is not None else None
    outcome: OutcomeFacts = {"rewards": rewards_of(sample.scores or {})}
    if cached_tokens:
        outcome["total_tokens"] = cached_tokens
    if sample.error is not None:
        return {**outcome, **failed_attempt()}
    if limit in _TIME_LIMITS:
        return {**outcome, "status": "task_timeout"}
    return {**outcome, "status": "success", "termination_reason": _reason(limit)}


def failed_attempt() -> OutcomeFacts:
    """Return what to report of an attempt that failed; Inspect gives only the error's text."""
    return {"status": "unknown_execution_error", "error": "inspect: the sample failed"}


def rewards_of(scores: Mapping[str, Any]) -> dict[str, float] | None:
    """Inspect's scores as numbers, a dict's as ``scorer/key``; None where there is none."""
    rewards = {
        name: number
        for scorer, score in scores.items()
        for name, value in _values(scorer, score.value)
        if (number := _number(value)) is not None
    }
    return rewards or None


def _values(scorer: str, value: object) -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        return [(f"{scorer}/{key}", part) for key, part in value.items()]
    return [(scorer, value)]


def _number(value: object) -> float | None:
    """Return a value as a number; None for text that is not a grade, and for missing scores."""
    if isinstance(value, str):
        return _LETTERS.get(value)
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    return None


def _reason(limit: str | None) -> models.TerminationReason:
    if limit is None:
        return "agent_stop"
    return "max_steps" if limit in _STEP_LIMITS else "unknown"


def _rollout_id(sample_id: str, attempt: int) -> str:
    return sample_id if attempt == 1 else f"{sample_id}.{attempt}"
