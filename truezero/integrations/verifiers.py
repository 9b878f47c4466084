"""verifiers: its traces are rollouts already, by the X-Session-ID that each call carries.

It runs nothing and rewrites no file: it reports traces, and tells which are no measurement.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from truezero import models
from truezero.sdk.client import Client
from truezero.sdk.endpoints import OutcomeFacts

TRACES = "traces.jsonl"  # verifiers/v1/utils/trace_store.py

# verifiers/v1/trace.py: Trace.is_truncated; a length-finished answer is no limit of the run.
_LIMITS = frozenset({"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens"})

# verifiers/v1/errors.py: the boundary that a failure crossed.
_STATUSES: Mapping[str, models.ExecutionStatus] = {
    "EnvError": "environment_error",
    "HarnessError": "agent_error",
    "InterceptionError": "environment_error",
    "SandboxError": "environment_error",
    "ToolsetError": "environment_error",
    "TunnelError": "environment_error",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """One trace, what was stored of it, and the judgement."""

    trace_id: str
    task: str | None
    result: models.Result
    verdict: models.Verdict

    @property
    def measured(self) -> bool:
        """Whether a model was reached."""
        return self.verdict.error_category is None


def settle(client: Client, trace: Any, *, batch: str, attempt: int | None = None) -> Settled:
    """Report a trace that has ended; one whose model was not reached loses its rewards.

    A live trace (``verifiers.v1.Trace``) that is no measurement gets None for each reward, which
    is verifiers' own word for "was not scored", is no longer ``ok``, and says why in ``info``.

    Arguments:
        trace: a live trace, or one read from ``traces.jsonl``.
        batch: what the run is called.

    Raises:
        ServiceError: the service is not there, or refuses.
    """
    facts = trace if isinstance(trace, Mapping) else trace.model_dump(exclude={"nodes", "state"})
    rollout_id = str(facts["id"])
    task = task_of(facts)
    client.register(id=rollout_id, batch=batch, task=task, attempt=attempt)
    result, verdict = client.ended(rollout_id, **outcome(facts))
    settled = Settled(trace_id=rollout_id, task=task, result=result, verdict=verdict)
    if not settled.measured and not isinstance(trace, Mapping):
        _unscore(trace, verdict)
    return settled


def settle_run(client: Client, run_dir: Path, *, batch: str) -> Iterator[Settled]:
    """Report every trace that a run saved, in the order in which they were."""
    with (run_dir / TRACES).open(encoding="utf-8") as lines:
        for trace in saved_traces(lines):
            yield settle(client, trace, batch=batch)


def main(run_dir: Path, batch: str = "") -> None:
    """Report a run's traces; a line for each that is no measurement, exit 1 where there is one."""
    with Client() as client:
        settled = list(settle_run(client, run_dir, batch=batch or run_dir.resolve().name))
    lost = [one for one in settled if not one.measured]
    for one in lost:
        typer.echo(f"{one.task or '–'} {one.trace_id}: {one.verdict.error}")
    typer.echo(f"{len(settled) - len(lost)} of {len(settled)} traces are measurements")
    raise typer.Exit(1 if lost else 0)


def _unscore(trace: Any, verdict: models.Verdict) -> None:
    trace.rewards = dict.fromkeys(trace.rewards)
    trace.ok = False
    trace.info["truezero"] = {"health": verdict.health, "error": verdict.error}


# --- pure ----------------------------------------------------------------------------------


def saved_traces(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """The traces in a run's file: each line is an episode of one or more."""
    for line in lines:
        if line.strip():
            yield from json.loads(line)["traces"]


def task_of(trace: Mapping[str, Any]) -> str | None:
    """What a trace's task is called: its source's id, its name, its key, or its number."""
    task = trace.get("task") or {}
    data = task.get("data") or {}
    named = data.get("id") or data.get("name") or task.get("key") or data.get("idx")
    return None if named is None else str(named)


def outcome(trace: Mapping[str, Any]) -> OutcomeFacts:
    """What to report of a trace; of an error its type, for its message may hold a prompt."""
    rewards = rewards_of(trace.get("rewards") or {})
    errors = trace.get("errors") or []
    if trace.get("is_timeout"):
        return {"status": "task_timeout", "rewards": rewards}
    if errors and not trace.get("ok"):
        kind = str(errors[-1]["type"])
        status = _STATUSES.get(kind, "unknown_execution_error")
        return {"status": status, "rewards": rewards, "error": kind}
    return {"status": "success", "rewards": rewards, "termination_reason": _reason(trace)}


def rewards_of(rewards: Mapping[str, Any]) -> dict[str, float] | None:
    """The weighted rewards, and their sum as ``reward``; None where nothing was scored."""
    named = {
        name: float(reward["score"]) * float(reward.get("weight", 1.0))
        for name, reward in rewards.items()
        if reward is not None
    }
    return {**named, "reward": sum(named.values())} if named else None


def _reason(trace: Mapping[str, Any]) -> models.TerminationReason:
    if trace.get("stop_condition") in _LIMITS:
        return "max_steps"
    return "agent_stop" if trace.get("ok") else "unknown"


if __name__ == "__main__":
    typer.run(main)
