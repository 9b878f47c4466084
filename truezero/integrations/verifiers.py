"""verifiers: report traces as rollouts, and name those that are not measurements.

Calls of a model already belong to rollouts by their X-Session-ID, or by the base URL of a rollout
that was registered before. No file is rewritten.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from truezero import Client, models
from truezero.foreign import parse, text_lines
from truezero.integrations.attempts import check_service, no_measurement
from truezero.printable import plural, visible
from truezero.sdk.arguments import OutcomeFacts
from truezero.sdk.current import is_service
from truezero.sdk.errors import ServiceError

_log = logging.getLogger("truezero")

TRACES = "traces.jsonl"  # verifiers/v1/utils/trace_store.py

# verifiers/v1/trace.py: Trace.is_truncated; an answer cut by length does not end the run.
_LIMITS = frozenset((
    "max_turns", "max_turns_reached", "max_input_tokens", "max_output_tokens", "max_total_tokens",
))  # fmt: skip

# verifiers/v1/errors.py: where a failure happened.
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
    """A reported trace with its result and verdict."""

    trace_id: str
    task: str | None
    result: models.Result
    verdict: models.Verdict

    @property
    def measured(self) -> bool:
        """True unless the rollout has an API error or was skipped, or its score is spoilt."""
        return self.why is None

    @property
    def why(self) -> str | None:
        """The reason why the trace is not a measurement, or None if it is one."""
        return no_measurement(self.verdict)


def settle(
    client: Client,
    trace: Any,
    *,
    batch: str | None = None,
    repeat: int | None = None,
    attempt: int | None = None,
    rollout_id: str | None = None,
) -> Settled:
    """Report a finished trace; remove its rewards if no model was reached.

    A live trace (``verifiers.v1.Trace``) that is not a measurement gets None for each reward,
    which means "not scored" to verifiers, ``ok`` False, and the reason in ``info``; also if the
    service cannot tell. One whose client asks another server keeps its rewards, with one warning a
    process.

    Arguments:
        trace: a live trace, or one read from ``traces.jsonl``.
        batch: name of the run.
        repeat: which rollout of one example this is, from 0.
        rollout_id: of the rollout that was registered for this trace; a live one keeps it in
            ``info``. Without it the trace's id is registered in ``batch``.

    Raises:
        ServiceError: the service is unreachable or rejects the request.
    """
    live = not isinstance(trace, Mapping)
    facts = trace.model_dump(exclude={"nodes", "state"}) if live else trace
    if live and rollout_id is not None:
        trace.info["truezero"] = {"rollout": rollout_id}
    elsewhere = _asked_elsewhere(client, facts)
    try:
        if rollout_id is None:
            rollout_id = str(facts["id"])
            task = task_of(facts)
            client.register(id=rollout_id, batch=batch, task=task, repeat=repeat, attempt=attempt)
        settled = _settled(client, facts, rollout_id)
    except ServiceError as error:
        if elsewhere is None and live:
            _unscore(trace, health=None, error=f"not measured: {error}")
        raise
    if elsewhere is not None and settled.verdict.total_requests == 0:
        _warn_of(elsewhere, client.url)
    elif not settled.measured and live:
        _unscore(trace, health=settled.verdict.health, error=settled.why)
    return settled


def _asked_elsewhere(client: Client, trace: Mapping[str, Any]) -> str | None:
    """Return the base URL that a trace's client asked, if it is another server's."""
    config = (trace.get("agent") or {}).get("config") or {}
    base_url = (config.get("client") or {}).get("base_url")
    return None if base_url is None or is_service(base_url, service=client.url) else str(base_url)


@cache
def _warn_of(base_url: str, service: str) -> None:
    """Warn once of a base URL that is not the service's."""
    _log.warning(
        "no call came through truezero, rewards stay as they are: base_url of the client is %s, "
        "is it to be %s/openai/v1?", urlsplit(base_url)._replace(query="").geturl(), service,
    )  # fmt: skip


def settle_run(client: Client, run_dir: Path, *, batch: str) -> Iterator[Settled]:
    """Report every trace that a run saved, in order.

    Traces of one task are its repeats, numbered in that order. One that was registered before
    keeps the number that it was given.

    Raises:
        ServiceError: the service is unreachable or rejects the request.
    """
    known = {item.id: item for item in client.rollouts(batch=batch)}
    file = run_dir / TRACES
    samples = Counter(task_of(trace) for trace in saved_traces(text_lines(file)))
    taken = {(item.task, item.repeat) for item in known.values()}
    for trace in saved_traces(text_lines(file)):
        if (rollout_id := _rollout_of(trace)) not in known:
            task = task_of(trace)
            repeat = _number(task, samples[task], taken)
            repeats = None if repeat is None else samples[task]
            client.register(id=rollout_id, batch=batch, task=task, repeat=repeat, repeats=repeats)
        yield _settled(client, trace, rollout_id)


def _number(
    task: str | None, samples: int, taken: set[tuple[str | None, int | None]]
) -> int | None:
    """Return a trace's place among its task's samples: the first number that is not taken."""
    if task is None or samples == 1:
        return None
    repeat = next(number for number in count() if (task, number) not in taken)
    taken.add((task, repeat))
    return repeat


def _rollout_of(trace: Mapping[str, Any]) -> str:
    """Return the id of a saved trace's rollout: the one that ``settle`` kept, or its own."""
    kept = (trace.get("info") or {}).get("truezero") or {}
    return str(kept.get("rollout") or trace["id"])


def _settled(client: Client, trace: Mapping[str, Any], rollout_id: str) -> Settled:
    result, verdict = client.ended(rollout_id, **outcome(trace))
    return Settled(trace_id=str(trace["id"]), task=task_of(trace), result=result, verdict=verdict)


@click.command()
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option("--batch", help="Batch of the rollouts.  [default: the folder's name]")
def main(run_dir: Path, batch: str | None) -> None:
    """Report a run's traces; print each that is not a measurement, and exit with 1 if any."""
    try:
        check_service()
        with Client() as client:
            settled = list(settle_run(client, run_dir, batch=batch or run_dir.resolve().name))
    except ServiceError as error:
        click.echo(visible(f"truezero: not reported: {error}"), err=True)
        sys.exit(1)
    lost = [one for one in settled if not one.measured]
    if lost and all(one.verdict.total_requests == 0 for one in settled):
        click.echo("no call of this run came through truezero: was its base_url the service's?")
        sys.exit(1)
    for one in lost:
        click.echo(visible(f"{one.task or '–'} {one.trace_id}: {one.why}"))
    click.echo(f"measured: {len(settled) - len(lost)} of {plural(len(settled), 'trace')}")
    sys.exit(1 if lost else 0)


def _unscore(trace: Any, *, health: str | None, error: str | None) -> None:
    trace.rewards = dict.fromkeys(trace.rewards)
    trace.ok = False
    known = trace.info.get("truezero", {})
    trace.info["truezero"] = {**known, "health": health, "error": error}


# --- pure ----------------------------------------------------------------------------------


def saved_traces(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """Return the traces in a run's file; each line is an episode of one or more."""
    for line in lines:
        if line.strip():
            yield from parse(line)["traces"]


def task_of(trace: Mapping[str, Any]) -> str | None:
    """Return the name of a trace's task: its source's id, name, key or number."""
    task = trace.get("task") or {}
    data = task.get("data") or {}
    names = (data.get("id"), data.get("name"), task.get("key"), data.get("idx"))
    return next((str(name) for name in names if name not in (None, "")), None)


def outcome(trace: Mapping[str, Any]) -> OutcomeFacts:
    """Return what to report of a trace; of errors only the type: messages may contain prompts."""
    rewards = rewards_of(trace.get("rewards") or {})
    errors = trace.get("errors") or []
    if trace.get("is_timeout"):
        return {"status": "task_timeout", "rewards": rewards}
    if errors and not trace.get("ok"):
        kind = str(errors[-1]["type"])
        status = _STATUSES.get(kind, "unknown_execution_error")
        return {"status": status, "rewards": rewards, "error": kind}
    return {"status": "success", "rewards": rewards, "termination_reason": ended_by(trace)}


def rewards_of(rewards: Mapping[str, Any]) -> dict[str, float] | None:
    """Return the weighted rewards and their sum as ``reward``; None if nothing was scored."""
    named = {
        name: float(reward["score"]) * float(reward.get("weight", 1.0))
        for name, reward in rewards.items()
        if reward is not None
    }
    return {**named, "reward": sum(named.values())} if named else None


def ended_by(trace: Mapping[str, Any]) -> models.TerminationReason:
    """Return why a trace without an error ended."""
    if trace.get("stop_condition") in _LIMITS:
        return "max_steps"
    return "agent_stop" if trace.get("ok") else "unknown"


if __name__ == "__main__":
    main()
