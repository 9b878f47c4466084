"""The same runs as each harness writes them down, with what it loses.

Each function writes runs into a folder and returns, for each task, what its files still say:
``false`` (they show that the provider failed), ``honest``, or ``unknown`` (they can't say).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from classifier import classify
from classifier.codec import encode_exchange, encode_outcome, encode_rollout
from classifier.records import (
    Ending,
    Exchange,
    ExecutionStatus,
    FailureEvidence,
    Kind,
    Outcome,
    ProviderError,
    RolloutRecord,
    TerminationReason,
    Timing,
    Usage,
    UsageSource,
)
from tests.truezero.audit.scenarios import MODEL, Raised, Scenario

Truth = dict[str, str]
_BEGAN = datetime(2026, 11, 1, tzinfo=UTC)


def truth(
    run: Scenario,
    *,
    calls: bool = False,
    error: bool = True,
    tokens: bool = True,
    output: bool = True,
) -> str:
    """What files say that keep these facts of a run."""
    if not run.recorded:
        return "unknown"
    if not run.failed:
        return "honest"
    if calls or (run.raised is not None and error):
        return "false"
    if run.kind == "empty":
        return "false" if output else "unknown"
    return "false" if not run.answered and tokens else "unknown"


def at(run: Scenario, step: int = 0) -> str:
    return (_BEGAN + timedelta(minutes=run.number, seconds=step)).isoformat()


def dump_lines(path: Path, records: Iterable[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in records))


def dump(path: Path, record: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1))


def message(step: str | Raised, number: int = 1) -> dict[str, Any]:
    if step == "empty":
        return {"role": "assistant", "content": ""}
    call = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    return {
        "role": "assistant",
        "content": "thinking aloud",
        "tool_calls": [call] if number % 2 else [],
    }


def usage(step: str | Raised) -> dict[str, int]:
    written = 0 if step == "empty" else 20
    return {"prompt_tokens": 100, "completion_tokens": written, "total_tokens": 100 + written}


def truezero(folder: Path, runs: Iterable[Scenario]) -> Truth:
    """Our own export: every call is proven."""
    said: Truth = {}
    lines: list[dict[str, Any]] = []
    for run in runs:
        said[run.task] = (
            truth(run, calls=True) if run.recorded else ("false" if run.failed else "honest")
        )
        lines += _exported(run)
    dump_lines(folder / "export.jsonl", lines)
    return said


def _exported(run: Scenario) -> Iterator[dict[str, Any]]:
    rollout = RolloutRecord(id=run.task, task=run.task, attempt=0)
    yield {"record": "rollout", **encode_rollout(rollout)}
    for place, step in enumerate(run.calls):
        yield {"record": "exchange", **encode_exchange(_exchange(run, step, place))}
    status = {"timeout": ExecutionStatus.TASK_TIMEOUT, "setup": ExecutionStatus.SETUP_FAILED}.get(
        run.ended, ExecutionStatus.AGENT_ERROR if run.raised else ExecutionStatus.SUCCESS
    )
    stopped = (
        TerminationReason.MAX_STEPS if run.ended == "max_steps" else TerminationReason.AGENT_STOP
    )
    outcome = Outcome(
        status=status,
        termination_reason=stopped if status is ExecutionStatus.SUCCESS else None,
        prompts_executed=0 if run.ended == "setup" else 1,
        rewards=None if run.reward is None else {"reward": run.reward},
    )
    yield {"record": "outcome", "rollout_id": run.task, **encode_outcome(outcome)}


def _exchange(run: Scenario, step: str | Raised, place: int) -> Exchange:
    facts: dict[str, Any] = {
        "id": f"{run.task}-{place}",
        "rollout_id": run.task,
        "upstream": "openai",
        "api": "chat",
        "timing": Timing(started_at=1_790_000_000.0 + place, duration_s=0.5),
        "model": "gpt-5",
    }
    if isinstance(step, Raised):
        error = (step.body or {}).get("error", {})
        ending = Ending.COMPLETE if step.status else Ending.NEVER_CONNECTED
        answer = FailureEvidence(
            upstream="openai",
            api="chat",
            kind=Kind.INFERENCE,
            status=step.status,
            ending=ending,
            error=ProviderError(
                code=error.get("code"), type=error.get("type"), message=error.get("message")
            )
            if error
            else None,
        )
        return Exchange(**facts, status=step.status, ending=ending, cause=classify(answer))
    told = usage(step)
    return Exchange(
        **facts,
        status=200,
        ending=Ending.COMPLETE,
        output_seen=step == "ok",
        content_seen=step == "ok",
        usage=Usage(
            input_tokens=100, output_tokens=told["completion_tokens"], source=UsageSource.PROVIDER
        ),
    )


def benchflow(folder: Path, runs: Iterable[Scenario]) -> Truth:
    """Half the runs with the calls that its usage tracking captured."""
    said = {}
    for run in runs:
        tracked = run.recorded and run.number % 4 < 2
        said[run.task] = truth(run, calls=tracked, output=False)
        trial = folder / f"{run.task}__x{run.number}"
        dump(trial / "result.json", _benchflow_result(run))
        if tracked:
            dump_lines(trial / "trajectory" / "llm_trajectory.jsonl", _captured(run))
    return said


def _benchflow_result(run: Scenario) -> dict[str, Any]:
    error, category = None, None
    if run.raised is not None:
        error, category = run.raised.chain, "acp_error"
    if run.ended == "timeout":
        error, category = "Agent openhands timed out after 900.0s", "timeout"
    if run.ended == "setup":
        category = "sandbox_setup"
    source = "provider_response" if run.recorded else "unavailable"
    answered = sum(step in ("ok", "empty") for step in run.calls)
    return {
        "task_name": run.task,
        "rollout_name": f"{run.task}__x{run.number}",
        "rewards": None if run.reward is None else {"reward": run.reward},
        "agent": "openhands",
        "agent_name": "OpenHands",
        "model": MODEL,
        "n_tool_calls": run.answered if run.recorded else 0,
        "n_skill_invocations": 0,
        "n_prompts": 0 if run.ended == "setup" else 1,
        "agent_result": {
            "n_tool_calls": run.answered if run.recorded else 0,
            "n_input_tokens": 100 * answered if run.recorded else None,
            "n_output_tokens": 20 * run.answered if run.recorded else None,
            "total_tokens": run.tokens if run.recorded else None,
            "usage_source": source,
        },
        "error": error,
        "error_category": category,
        "verifier_error": None,
        "verifier_error_category": None,
        "export_error": None,
        "api_error_info": None,
        "suspected_api_error_info": None,
        "partial_trajectory": False,
        "started_at": at(run).replace("+00:00", ""),
        "finished_at": at(run, 50).replace("+00:00", ""),
    }


def _captured(run: Scenario) -> Iterator[dict[str, Any]]:
    for place, step in enumerate(run.calls):
        if isinstance(step, Raised):
            status, body = step.status or 500, step.body or {"error": {"message": step.text}}
        else:
            choice = {"index": 0, "message": message(step, place), "finish_reason": "stop"}
            status, body = 200, {"model": "gpt-5", "choices": [choice], "usage": usage(step)}
        yield {
            "request": {
                "timestamp": at(run, place),
                "method": "POST",
                "path": "/chat/completions",
                "headers": {},
                "body": {"model": "gpt-5", "messages": [], "tools": [{}]},
            },
            "response": {
                "timestamp": at(run, place),
                "status_code": status,
                "headers": {},
                "body": body,
            },
            "duration_ms": 10.0,
            "metadata": {},
        }


def inspect(folder: Path, runs: Iterable[Scenario]) -> Truth:
    """One log; every call is an event, unless the log was stripped of them."""
    runs = list(runs)
    dump(folder / "log.json", inspect_log([inspect_sample(run) for run in runs]))
    return {run.task: truth(run, calls=True) for run in runs}


def inspect_log(samples: list[dict[str, Any]]) -> dict[str, Any]:
    spec = {
        "created": at_zero(),
        "task": "t",
        "dataset": {},
        "model": MODEL,
        "config": {},
        "eval_id": "e1",
        "run_id": "r1",
        "task_id": "t1",
    }
    return {
        "version": 2,
        "status": "success",
        "eval": spec,
        "plan": {},
        "stats": {},
        "samples": samples,
    }


def at_zero() -> str:
    return _BEGAN.isoformat()


def inspect_sample(run: Scenario) -> dict[str, Any]:
    events = [_model_event(run, step, place) for place, step in enumerate(run.calls)]
    start = {
        "event": "sample_init",
        "timestamp": at(run),
        "working_start": 0.0,
        "sample": {"input": "q", "target": "a"},
        "state": {},
    }
    tokens = {"input_tokens": 100, "output_tokens": 20, "total_tokens": run.tokens}
    sample: dict[str, Any] = {
        "id": run.task,
        "epoch": 1,
        "input": "q",
        "target": "a",
        "messages": [],
        "output": {"model": "gpt-5", "choices": []},
        "scores": {} if run.reward is None else {"match": {"value": "C" if run.reward else "I"}},
        "completed_at": at(run, 59),
    }
    if run.recorded:
        sample["events"] = [start, *events]
        sample["model_usage"] = {MODEL: tokens} if run.tokens else {}
    if run.raised is not None:
        sample["error"] = {
            "message": f"{run.raised.type}({run.raised.text!r})",
            "traceback": "",
            "traceback_ansi": "",
        }
    if run.ended in ("timeout", "max_steps"):
        sample["limit"] = {"type": "time" if run.ended == "timeout" else "message", "limit": 30}
    return sample


def _model_event(run: Scenario, step: str | Raised, place: int) -> dict[str, Any]:
    event: dict[str, Any] = {
        "event": "model",
        "timestamp": at(run, place),
        "working_start": 0.0,
        "model": MODEL,
        "input": [],
        "tools": [],
        "tool_choice": "auto",
        "config": {},
        "output": {"model": "gpt-5", "choices": []},
    }
    if isinstance(step, Raised):
        return {**event, "error": f"{step.type}({step.text!r})"}
    told = usage(step)
    spoken = {
        "role": "assistant",
        "content": "" if step == "empty" else "an answer",
        "source": "generate",
    }
    event["output"] = {
        "model": "gpt-5",
        "choices": [{"message": spoken, "stop_reason": "stop"}],
        "usage": {
            "input_tokens": 100,
            "output_tokens": told["completion_tokens"],
            "total_tokens": told["total_tokens"],
        },
    }
    return event


def maseval(folder: Path, runs: Iterable[Scenario]) -> Truth:
    """Half the runs with MASEval's model adapters, half with a framework that counts tokens."""
    said: Truth = {}
    lines: list[dict[str, Any]] = []
    for run in runs:
        adapted = run.recorded and run.number % 4 < 2
        said[run.task] = truth(run, calls=adapted and run.kind != "empty", output=False)
        lines.append(maseval_report(run, adapted=adapted))
    dump_lines(folder / "benchmark.jsonl", lines)
    return said


def maseval_report(run: Scenario, *, adapted: bool) -> dict[str, Any]:
    status = {"timeout": "task_timeout", "setup": "setup_failed"}.get(
        run.ended, "unknown_execution_error" if run.raised else "success"
    )
    error = None
    if run.raised is not None:
        error = {"error_type": run.raised.type, "error_message": run.raised.text, "traceback": ""}
    if run.ended == "timeout":
        error = {
            "error_type": "TaskTimeoutError",
            "error_message": "deadline exceeded",
            "traceback": "",
        }
    traces: dict[str, Any] = {"agents": {}, "models": {}, "tools": {}}
    if adapted:
        logs = [_log_entry(run, step, place) for place, step in enumerate(run.calls)]
        traces["models"]["main"] = {"type": "Adapter", "model_id": "gpt-5", "logs": logs}
    counted = {
        "agents": {
            "solver": {
                "cost": 0.0,
                "input_tokens": run.tokens,
                "output_tokens": 0,
                "total_tokens": run.tokens,
            }
        },
        "models": {},
    }
    return {
        "task_id": run.task,
        "repeat_idx": 0,
        "status": status,
        "error": error,
        "traces": traces,
        "config": {},
        "eval": None if run.reward is None else [{"score": run.reward}],
        "usage": counted if run.recorded else {"agents": {}, "models": {}},
    }


def _log_entry(run: Scenario, step: str | Raised, place: int) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "timestamp": at(run, place),
        "message_count": 2,
        "duration_seconds": 0.5,
        "tools_provided": 1,
        "generation_params": {},
        "kwargs": {},
    }
    if isinstance(step, Raised):
        return {**entry, "status": "error", "error": step.text, "error_type": step.type}
    spoke = step == "ok"
    return {
        **entry,
        "status": "success",
        "response_type": "text",
        "response_length": 12 * spoke,
        "tool_calls_count": 0,
    }


def swebench(folder: Path, runs: Iterable[Scenario]) -> Truth:
    """Predictions and a report; two thirds with mini-SWE-agent's trajectories."""
    said, predictions = {}, {}
    report: dict[str, Any] = {
        name: []
        for name in (
            "resolved_ids",
            "unresolved_ids",
            "empty_patch_ids",
            "error_ids",
            "incomplete_ids",
            "completed_ids",
            "submitted_ids",
        )
    }
    for run in runs:
        kept = run.recorded and run.number % 3 > 0 and run.ended != "setup"
        said[run.task] = _swebench_truth(run, kept=kept)
        patch = (
            "diff --git a/x b/x" if run.reward or run.kind in ("honest_zero", "max_steps") else ""
        )
        predictions[run.task] = {
            "model_name_or_path": MODEL,
            "instance_id": run.task,
            "model_patch": patch,
        }
        report["submitted_ids"].append(run.task)
        ended = "resolved_ids" if run.reward else "unresolved_ids" if patch else "empty_patch_ids"
        report[ended].append(run.task)
        if patch:
            report["completed_ids"].append(run.task)
        if kept:
            dump(folder / run.task / f"{run.task}.traj.json", mini_trajectory(run))
    dump(folder / "preds.json", predictions)
    dump(folder / "gpt-5.run1.json", {**report, "schema_version": 2})
    return said


def _swebench_truth(run: Scenario, *, kept: bool) -> str:
    if kept:
        return truth(run, tokens=False)
    return "honest" if run.reward or run.kind in ("honest_zero", "max_steps") else "unknown"


def mini_trajectory(run: Scenario) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "q"},
    ]
    for place, step in enumerate(run.calls):
        if not isinstance(step, Raised):
            told = {"response": {"usage": usage(step)}, "cost": 0.0}
            messages.append({**message(step, 2 * place), "extra": told})
    status = {"timeout": "TimeExceeded", "max_steps": "LimitsExceeded"}.get(run.ended, "Submitted")
    extra: dict[str, Any] = {"exit_status": status, "submission": ""}
    if run.raised is not None:
        extra |= {"exit_status": run.raised.type, "exception_str": run.raised.text}
    messages.append({"role": "exit", "content": extra.get("exception_str", ""), "extra": extra})
    info = {
        "model_stats": {"instance_cost": 0.0, "api_calls": len(run.calls)},
        "exit_status": extra["exit_status"],
        "submission": "",
        "mini_version": "2.4.6",
    }
    return {
        "info": info,
        "messages": messages,
        "trajectory_format": "mini-swe-agent-1.1",
        "instance_id": run.task,
    }


def harbor(folder: Path, runs: Iterable[Scenario]) -> Truth:
    """A job's trials; half of them with a trajectory."""
    said = {}
    for run in runs:
        kept = run.recorded and run.number % 4 < 2
        said[run.task] = truth(run, output=kept)
        trial = folder / f"{run.task}__a"
        dump(trial / "result.json", harbor_result(run))
        if kept:
            dump(trial / "agent" / "trajectory.json", _atif(run))
    dump(folder / "result.json", {"id": "j", "stats": {"n_completed_trials": len(said)}})
    return said


def harbor_result(run: Scenario) -> dict[str, Any]:
    raised = None
    kind, words = (run.raised.type, run.raised.text) if run.raised else (None, "")
    if run.ended == "timeout":
        kind, words = "AgentTimeoutError", "Agent execution timed out after 900 seconds"
    if run.ended == "setup":
        kind = "EnvironmentStartTimeoutError"
    if kind is not None:
        raised = {
            "exception_type": kind,
            "exception_message": words,
            "exception_traceback": "",
            "occurred_at": at(run, 40),
        }
    answered = sum(step in ("ok", "empty") for step in run.calls)
    counted = {
        "n_input_tokens": 100 * answered,
        "n_cache_tokens": 0,
        "n_output_tokens": 20 * run.answered,
    }
    return {
        "id": f"00000000-0000-4000-8000-{run.number:012d}",
        "task_name": run.task,
        "trial_name": f"{run.task}__a",
        "trial_uri": "file:///x",
        "task_id": {"path": "tasks/x"},
        "source": None,
        "task_checksum": "0",
        "config": {"task": {"path": "tasks/x"}},
        "agent_info": {
            "name": "a",
            "version": "1",
            "model_info": {"name": "gpt-5", "provider": "openai"},
        },
        "agent_result": counted if run.recorded and run.ended != "setup" else None,
        "verifier_result": None if run.reward is None else {"rewards": {"reward": run.reward}},
        "exception_info": raised,
        "started_at": at(run),
        "finished_at": at(run, 50),
    }


def _atif(run: Scenario) -> dict[str, Any]:
    steps = [{"step_id": 1, "source": "user", "message": "q"}]
    for place, step in enumerate(run.calls):
        if not isinstance(step, Raised):
            words = "" if step == "empty" else "an answer"
            steps.append({"step_id": place + 2, "source": "agent", "message": words})
    return {
        "schema_version": "ATIF-v1.6",
        "session_id": "s",
        "agent": {"name": "a", "version": "1"},
        "steps": steps,
    }


def verifiers(folder: Path, runs: Iterable[Scenario]) -> Truth:
    """Half the runs as traces of 0.4, half as the rows of before."""
    said: Truth = {}
    episodes: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for run in runs:
        if run.number % 4 < 2:
            said[run.task] = truth(run, calls=True)
            episodes.append(verifiers_episode(run))
        else:
            said[run.task] = truth(run)
            rows.append(_verifiers_row(run))
    dump_lines(folder / "traces.jsonl", episodes)
    dump_lines(folder / "results.jsonl", rows)
    return said


def verifiers_episode(run: Scenario) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = [{"message": {"role": "user", "content": "q"}}]
    calls: list[dict[str, Any]] = []
    for place, step in enumerate(run.calls):
        call: dict[str, Any] = {
            "model": "gpt-5",
            "time": {"start": 1.0 + place, "end": 1.5 + place},
        }
        if isinstance(step, Raised):
            call["error"] = {"type": step.type, "message": step.text}
            if step.status is not None:
                call["error"]["status_code"] = step.status
        else:
            spoken = {"role": "assistant", "content": "" if step == "empty" else "an answer"}
            nodes.append({"parent": len(nodes) - 1, "message": spoken, "sampled": True})
            told = usage(step)
            call |= {
                "node": len(nodes) - 1,
                "finish_reason": "stop",
                "usage": {"prompt_tokens": 100, "completion_tokens": told["completion_tokens"]},
            }
        calls.append(call)
    errors = [] if run.raised is None else [{"type": run.raised.type, "message": run.raised.text}]
    trace: dict[str, Any] = {
        "version": 1,
        "id": f"trace-{run.number}",
        "task": {"type": "T", "data": {"id": run.task}},
        "agent": {"config": {"model": "gpt-5"}},
        "is_completed": True,
        "ok": not errors,
        "rewards": {} if run.reward is None else {"solved": {"score": run.reward, "weight": 1.0}},
        "errors": errors,
        "is_timeout": run.ended == "timeout",
    }
    if run.recorded:
        trace |= {"nodes": nodes, "calls": calls}
    return {
        "id": f"e{run.number}",
        "env": {"id": "x"},
        "task": trace["task"],
        "traces": [trace],
        "ok": not errors,
    }


def _verifiers_row(run: Scenario) -> dict[str, Any]:
    answers = [message(step, 2) for step in run.calls if not isinstance(step, Raised)]
    row: dict[str, Any] = {
        "example_id": run.task,
        "prompt": [],
        "completion": answers if run.recorded else None,
        "reward": run.reward,
        "error": None,
        "stop_condition": "max_turns_reached",
    }
    if run.recorded:
        row["token_usage"] = {"input_tokens": float(run.tokens), "output_tokens": 0.0}
    if run.raised is not None:
        row["error"] = {"error": run.raised.type, "error_chain_str": run.raised.chain}
    return row


def litellm(folder: Path, runs: Iterable[Scenario]) -> Truth:
    """Rows of calls, half in JSON and half in CSV; nothing of a run that never called."""
    said: Truth = {}
    rows: list[dict[str, Any]] = []
    for run in runs:
        if run.calls and run.recorded:
            said[run.task] = truth(run, calls=True)
            rows += [_spend_row(run, step, place) for place, step in enumerate(run.calls)]
    half = {row["session_id"] for row in rows if int(row["session_id"].rpartition("-")[2]) % 2}
    dump(folder / "spend.json", [row for row in rows if row["session_id"] not in half])
    listed = [row for row in rows if row["session_id"] in half]
    with (folder / "spend.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(listed)
    return said


def _spend_row(run: Scenario, step: str | Raised, place: int) -> dict[str, Any]:
    failed = isinstance(step, Raised)
    told = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    metadata: dict[str, Any] = {"status": "failure" if failed else "success"}
    if isinstance(step, Raised):
        metadata["error_information"] = {
            "error_code": str(step.status or ""),
            "error_class": step.type,
            "error_message": step.text,
        }
    else:
        told = usage(step)
    return {
        "request_id": f"{run.task}-{place}",
        "call_type": "acompletion",
        "api_key": "hash",
        "spend": 0.0,
        **told,
        "startTime": at(run, place),
        "endTime": at(run, place),
        "model": "gpt-5",
        "custom_llm_provider": "openai",
        "metadata": json.dumps(metadata),
        "request_tags": "[]",
        "session_id": run.task,
        "status": metadata["status"],
    }


def openhands(folder: Path, runs: Iterable[Scenario]) -> Truth:
    """One line an instance; half without the agent's history."""
    said: Truth = {}
    lines: list[dict[str, Any]] = []
    for run in runs:
        kept = run.recorded and run.number % 4 < 2
        said[run.task] = truth(run, output=kept)
        lines.append(_openhands_line(run, kept=kept))
    dump_lines(folder / "output.jsonl", lines)
    return said


def _openhands_line(run: Scenario, *, kept: bool) -> dict[str, Any]:
    history: list[dict[str, Any]] = [{"source": "user", "action": "message", "message": "q"}]
    history += [{"source": "agent", "action": "run", "message": "ls"}] * run.answered
    counted = {"prompt_tokens": run.tokens, "completion_tokens": 0}
    error = None if run.raised is None else f"{run.raised.type}: {run.raised.text}"
    if run.ended == "max_steps":
        error = "RuntimeError: Agent reached maximum iteration. Current iteration: 100"
    report = {"resolved": bool(run.reward)}
    return {
        "instance_id": run.task,
        "instruction": "q",
        "metadata": {"llm_config": {"model": MODEL}},
        "test_result": {
            "git_patch": "diff" if run.reward else "",
            **({} if run.reward is None else {"report": report}),
        },
        "history": history if kept else None,
        "metrics": {"accumulated_cost": 0.01 * run.answered, "accumulated_token_usage": counted}
        if run.recorded
        else None,
        "error": error,
    }


WRITERS: dict[str, Callable[[Path, Iterable[Scenario]], Truth]] = {
    each.__name__: each
    for each in (
        truezero,
        benchflow,
        harbor,
        inspect,
        maseval,
        openhands,
        verifiers,
        litellm,
        swebench,
    )
}
