"""mini-SWE-agent on SWE-bench: each instance is a rollout; false empty predictions are removed.

Predictions that contain a patch and trajectories are never changed.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truezero import Client, Rollout, Skipped, models
from truezero.foreign import parse, read
from truezero.integrations.attempts import (
    BATCH,
    NO_CALL,
    check_service,
    no_measurement,
    service_cause,
    unmeasured_line,
)
from truezero.printable import plural
from truezero.sdk.arguments import OutcomeFacts
from truezero.sdk.errors import ServiceError
from truezero.sdk.outcomes import outcomes_left
from truezero.sdk.rest import next_attempts

Instance = Mapping[str, Any]
Process = Callable[[Instance, Path, dict[str, Any], Any], None]

_RUNNER = "minisweagent.run.benchmarks.swebench"
_MODEL_CLASS = f"{__name__}.rollout_model"
_BASE_CLASS = "truezero_base"
_PREDICTIONS = "preds.json"
_HELP = frozenset({"--help", "-h"})

_log = logging.getLogger("truezero")
_running = threading.local()  # the runner gives each instance a thread


@dataclass(frozen=True, slots=True, kw_only=True)
class _Provider:
    """A provider of LiteLLM: its upstream, and the variables it reads a key from."""

    upstream: str
    keys: tuple[str, ...]


# docs.litellm.ai/docs/providers: the prefix before the slash, and the variables of its key.
_PROVIDERS: Mapping[str, _Provider] = {
    "openai": _Provider(upstream="openai", keys=("OPENAI_API_KEY",)),
    "anthropic": _Provider(upstream="anthropic", keys=("ANTHROPIC_API_KEY",)),
    "openrouter": _Provider(upstream="openrouter", keys=("OPENROUTER_API_KEY",)),
    "mistral": _Provider(upstream="mistral", keys=("MISTRAL_API_KEY",)),
    "deepseek": _Provider(upstream="deepseek", keys=("DEEPSEEK_API_KEY",)),
    "groq": _Provider(upstream="groq", keys=("GROQ_API_KEY",)),
    "xai": _Provider(upstream="xai", keys=("XAI_API_KEY",)),
    "together_ai": _Provider(upstream="together", keys=("TOGETHERAI_API_KEY",)),
    "fireworks_ai": _Provider(upstream="fireworks", keys=("FIREWORKS_AI_API_KEY",)),
    "hosted_vllm": _Provider(upstream="vllm", keys=("HOSTED_VLLM_API_KEY",)),
}

# minisweagent/exceptions.py and agents/default.py (2.4.6): how an agent's run ends. Any other
# exit status is the name of an exception.
_ENDS: Mapping[str, OutcomeFacts] = {
    "Submitted": {"status": "success", "termination_reason": "agent_stop"},
    "LimitsExceeded": {"status": "success", "termination_reason": "max_steps"},
    "RepeatedFormatError": {"status": "agent_error", "error": "RepeatedFormatError"},
    "TimeExceeded": {"status": "task_timeout"},
}


def main() -> None:
    """Run `mini-extra swebench` with its own options, each instance under a rollout.

    ``TRUEZERO_URL`` and ``TRUEZERO_ADMIN_TOKEN`` select the service, ``TRUEZERO_BATCH`` names
    the batch. Exits with 1 and one sentence if the service does not answer, before any instance,
    and if it went away, after the last one.
    """
    runner: Any = importlib.import_module(_RUNNER)
    batch = os.environ.get(BATCH) or "mini-swe-agent"
    if not _HELP.intersection(sys.argv):
        try:
            check_service()
        except ServiceError as error:
            raise SystemExit(f"truezero: no instance was run: {error}") from None
    with Client() as client:
        run = UnderRollout(
            runner.process_instance, client, batch=batch, forget=runner.remove_from_preds_file
        )
        runner.process_instance = run
        try:
            runner.app()
        except SystemExit as ended:
            if ended.code:
                raise
    if run.unmeasured:
        line = unmeasured_line(run.unmeasured, plural(run.instances, "instance"), batch)
        parts = (line, outcomes_left(), "the same command runs them again")
        message = f"truezero: {'; '.join(filter(None, parts))}"
        if run.away:
            raise SystemExit(message)
        sys.stderr.write(f"{message}\n")


class UnderRollout:
    """The runner's ``process_instance`` with each instance under its own rollout.

    An empty prediction without a model reached, or without a verdict, is removed from
    ``preds.json``, so the runner's next start runs the instance again as a further attempt. An
    instance is not run if an open breaker does not admit it or the service is away. Nothing of
    this raises: the runner would print a traceback for each.

    Arguments:
        forget: the runner's ``remove_from_preds_file``; it holds the file's lock.
    """

    def __init__(
        self, process: Process, client: Client, *, batch: str, forget: Callable[[Path, str], None]
    ) -> None:
        self._process, self._client, self._batch, self._forget = process, client, batch, forget
        self._lock = threading.Lock()
        self.instances = 0
        self.unmeasured: Counter[str] = Counter()  # by cause
        self.away = False  # the service gave no answer to an instance

    def __call__(
        self, instance: Instance, output_dir: Path, config: dict[str, Any], progress: Any
    ) -> None:
        """Run one instance; the signature is the runner's."""
        name = str(instance["instance_id"])
        started = False

        def process() -> None:
            nonlocal started
            started = True
            self._process(instance, output_dir, with_our_class(config), progress)

        try:
            cause = self._measure(name, output_dir, process)
        except ServiceError as error:
            self.away = True
            cause = service_cause(error)
            info = trajectory_info(_trajectory(output_dir, name)) if started else None
            if started and not (info or {}).get("submission"):
                self._forget(output_dir / _PREDICTIONS, name)
        except Skipped:
            cause = "skipped: breaker open"
        with self._lock:
            self.instances += 1
            if cause is not None:
                self.unmeasured[cause] += 1
        if not started:
            progress.on_instance_end(name, cause)

    def _measure(self, name: str, output_dir: Path, process: Callable[[], None]) -> str | None:
        """Run an instance; return why it is no measurement, None if it is one."""
        earlier = self._client.rollouts(batch=self._batch, task=name)
        attempt = next_attempts(earlier).get((name, None), 0)
        with self._client.batch(self._batch).rollout(name, attempt=attempt) as rollout:
            _running.rollout = rollout
            try:
                process()
            finally:
                _running.rollout = None
            info = trajectory_info(_trajectory(output_dir, name))
            rollout.finish(**outcome(info))
        if not is_false_empty(rollout.verdict, info):
            return rollout.verdict.fingerprint if rollout.verdict.error_category else None
        self._forget(output_dir / _PREDICTIONS, name)
        why = no_measurement(rollout.verdict) or NO_CALL
        _log.warning("%s: empty prediction removed: %s", name, why)
        return rollout.verdict.fingerprint or why


def _trajectory(output_dir: Path, name: str) -> Path:
    return output_dir / name / f"{name}.traj.json"


def rollout_model(**config: Any) -> Any:
    """Build the model for the runner's ``get_model``, bound to the current instance's rollout.

    The address and the key are passed with each call and are not part of the configuration, so
    no trajectory contains them.

    Raises:
        RuntimeError: called outside an instance, or the provider has no upstream.
    """
    rollout: Rollout | None = getattr(_running, "rollout", None)
    if rollout is None:
        raise RuntimeError(
            f"no rollout for this model: run the benchmark with python -m {__name__}"
        )
    base = importlib.import_module("minisweagent.models").get_model_class(
        config["model_name"], config.pop(_BASE_CLASS, "")
    )
    arguments = reach(provider_of(config["model_name"]), rollout.base_urls, rollout.key, os.environ)

    def query(self: Any, messages: list[dict[str, Any]], **kwargs: Any) -> Any:
        return base.query(self, messages, **{**arguments, **kwargs})

    return type(base.__name__, (base,), {"query": query, "__module__": base.__module__})(**config)


def provider_of(model_name: str) -> str:
    """Return LiteLLM's provider of a model: the prefix before the slash, else as LiteLLM says."""
    word, slash, _ = model_name.partition("/")
    if slash and word in _PROVIDERS:
        return word
    provider: str = importlib.import_module("litellm").get_llm_provider(model_name)[1]
    return provider


# --- pure ----------------------------------------------------------------------------------


def reach(
    provider: str, base_urls: Mapping[str, str], key: str, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return LiteLLM's arguments to call a provider through a rollout.

    A key in the environment is used; without one, the rollout's key.

    Raises:
        RuntimeError: the provider has no upstream.
    """
    known = _PROVIDERS.get(provider)
    if known is None or known.upstream not in base_urls:
        raise RuntimeError(
            f"no upstream for LiteLLM's provider {provider!r}; supported: "
            f"{', '.join(sorted(_PROVIDERS))}"
        )
    own = any(environment.get(name) for name in known.keys)
    address = {"api_base": base_urls[known.upstream]}
    return address if own else {**address, "api_key": key}


def with_our_class(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration whose model is built by ``rollout_model``."""
    model = dict(config.get("model", {}))
    ours = {"model_class": _MODEL_CLASS, _BASE_CLASS: model.get("model_class") or ""}
    return {**config, "model": {**model, **ours}}


def trajectory_info(path: Path) -> Mapping[str, Any] | None:
    """Return a trajectory's info about its end; None if the agent did not start."""
    if not path.exists():
        return None
    info: Mapping[str, Any] = parse(read(path)).get("info", {})
    return info


def outcome(info: Mapping[str, Any] | None) -> OutcomeFacts:
    """Return what to report of an instance; of errors only the name: texts may contain prompts."""
    if info is None:
        return {
            "status": "setup_failed",
            "prompts_executed": 0,
            "error": "the agent was not started",
        }
    ended = str(info.get("exit_status") or "")
    return ending(info) or {
        "status": "unknown_execution_error",
        "error": ended if ended.isidentifier() else "unknown",
    }


def ending(info: Mapping[str, Any] | None) -> OutcomeFacts | None:
    """Return how an agent ended by its own rules; None if it did not, or had not ended yet."""
    return _ENDS.get(str((info or {}).get("exit_status")))


def is_false_empty(verdict: models.Verdict, info: Mapping[str, Any] | None) -> bool:
    """Return True if an empty prediction is no measurement: no model was reached or called."""
    unmeasured = verdict.total_requests == 0 or no_measurement(verdict) is not None
    return unmeasured and not (info or {}).get("submission")


if __name__ == "__main__":
    main()
