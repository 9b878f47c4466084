"""A rollout's outcome as benchflow has it, and its verdict in benchflow's own terms."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from typing import Any

from truezero import models
from truezero.sdk.arguments import OutcomeFacts
from truezero.sdk.errors import ServiceError

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


def apply(rollout: Any, verdict: models.Verdict | None, unjudged: str | None) -> None:
    """Write a verdict into a rollout: diagnostics, error, and no reward where none counts."""
    if verdict is not None and verdict.health == "healthy" and verdict.spoilt is None:
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
    seen = f"{verdict.health} ({', '.join(verdict.warnings) or verdict.rule})"
    said = verdict.error or verdict.spoilt or seen
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
