"""MASEval: each repetition of a task is a rollout; a report without a model keeps no score.

MASEval swallows what a callback raises: a run without a service is stopped where MASEval runs its
tasks, and whatever cannot be judged later is written into the report.
"""

from __future__ import annotations

import importlib
import logging
import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, get_args

from truezero import Client, models
from truezero.integrations.attempts import (
    BATCH,
    check_service,
    finite,
    no_measurement,
    service_cause,
    undecided,
    unmeasured_line,
)
from truezero.integrations.cards import write_card
from truezero.printable import plural
from truezero.sdk.arguments import OutcomeFacts
from truezero.sdk.current import Identity, WatchedIdentity, current
from truezero.sdk.errors import ServiceError
from truezero.sdk.outcomes import outcomes_left
from truezero.sdk.rest import next_attempts

Report = dict[str, Any]

_JUDGE, _USER = "judge", "user"
_RUNS = ("_run_sequential", "_run_parallel")  # maseval/core/benchmark.py: what `run` ends in
_NO_CALL = "zero_signal"  # rule of a verdict
_TRACE = "truezero"  # key in a report's traces: result loggers drop unknown keys of the report

# maseval/core/benchmark.py: TaskExecutionStatus; its deprecated value means unclassified.
_STATUSES: Mapping[str, models.ExecutionStatus] = {
    status: status for status in get_args(models.ExecutionStatus)
}
# Of these MASEval holds the agent responsible, and counts them.
_COUNTED = frozenset({"success", "agent_error"})

# maseval/core/user.py: TerminationReason. A user that is not done was stopped by max_invocations.
_REASONS: Mapping[str, models.TerminationReason] = {
    "user_terminated": "user_stop",
    "max_turns_and_user_terminated": "user_stop",
    "max_turns": "max_steps",
    "not_terminated": "max_steps",
}

_UNMEASURED = "unmeasured"  # key in the trace of a report whose score was taken: its cause
_ABSENT = object()

_log = logging.getLogger("truezero")


@dataclass(frozen=True, slots=True, kw_only=True)
class _InRole:
    """A rollout's identity in another role than the agent's."""

    id: str
    key: str
    base_urls: dict[str, str]


class Truezero:
    """Callback of a MASEval benchmark: ``callbacks=[Truezero()]``, anywhere in the list.

    While a repetition runs, ``truezero.current`` holds its rollout: point each client at
    ``truezero.current.get().base_urls["openai"]``, or share one with ``truezero.httpx_hook``.
    Calls made by evaluators and by the user simulator have roles of their own.

    Each report gets ``termination_reason`` beside ``status`` and ``eval``, and
    ``traces["truezero"]``. A report that is no measurement (the model failed, no call was made,
    or the service is unreachable) has ``eval`` None and, where MASEval would count it, the status
    ``environment_error``, so that ``get_failed_tasks`` returns its task. Where nothing takes a
    rollout's base URL or key, MASEval's own scores stay, and a warning says so once a run.

    The batch's measurement card is written beside the file of a ``FileResultLogger``, as
    ``….card.json``.

    A run does not start without a service: ``benchmark.run`` raises ``ServiceError``.

    Arguments:
        url, token: as for ``truezero.Client``.
        batch: by default ``TRUEZERO_BATCH``, else a name for this object.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, *, batch: str | None = None
    ) -> None:
        self._url, self._token = url, token
        self._client = Client(url, token)
        self._batch = batch or os.environ.get(BATCH) or f"maseval-{uuid.uuid4().hex[:8]}"
        self._patched: list[tuple[Any, str, Any]] = []
        self._wired = False  # in this run the key or base URL of a rollout was taken
        self._warned = False  # and it was said that none was

    # --- called by MASEval -----------------------------------------------------------------

    def on_run_start(self, benchmark: Any) -> None:
        """Put each repetition of the run under a rollout; stop the run if there is no service."""
        self._restore()  # a run that was aborted has no end
        self._wired = self._warned = False
        try:
            check_service(self._url, self._token)
        except Exception as error:  # MASEval would swallow it, and run on
            for name in _RUNS:
                self._patch(benchmark, name, partial(self._refuse, error))
            return
        self._patch(benchmark, "_execute_task_repetition", partial(self._measure, benchmark))
        self._patch(benchmark, "evaluate", partial(_in_role, _JUDGE))
        self._patch(benchmark, "setup_user", _user_in_role)

    def on_task_repeat_end(self, benchmark: Any, report: Report) -> None:
        """Mark a report that was not judged: nothing may keep a score unseen."""
        del benchmark
        if _TRACE not in report["traces"]:
            why = "truezero did not see this repetition; its log says why"
            unmeasured(report, why, cause="not seen")

    def on_run_end(self, benchmark: Any, results: list[Report]) -> None:
        """Restore the benchmark; say how much was not measured; write the measurement card."""
        self._restore()
        if counts := causes(results):
            counted = plural(len(results), "repetition")
            line = unmeasured_line(counts, counted, self._batch)
            _log.warning("%s", "; ".join(filter(None, (line, outcomes_left()))))
        if self._wired:
            for file in card_files(benchmark):
                if why := write_card(file, self._batch, "maseval", self._url, self._token):
                    _log.warning("%s", why)

    def _refuse(self, error: Exception, *_: Any) -> NoReturn:
        self._restore()
        raise ServiceError(f"no task was run: {error}") from None

    # --- one repetition --------------------------------------------------------------------

    def _measure(
        self,
        benchmark: Any,
        original: Callable[..., Report],
        task: Any,
        agent_data: Any,
        repeat_idx: int,
    ) -> Report:
        """Run a repetition under a rollout, and judge its report."""
        name, repeat = str(task.id), repeat_idx if benchmark.n_task_repeats > 1 else None
        try:
            earlier = self._client.rollouts(batch=self._batch, task=name)
            registered = self._client.register(
                batch=self._batch,
                task=name,
                repeat=repeat,
                repeats=None if repeat is None else benchmark.n_task_repeats,
                attempt=next_attempts(earlier).get((name, repeat), 0),
                roles=[_JUDGE, _USER],
            )
        except ServiceError as error:
            why = f"not measured, not run: {error}"
            return _not_run(benchmark, task, repeat_idx, why, cause=service_cause(error))
        if not registered.admitted:
            why = registered.error or "skipped"
            return _not_run(benchmark, task, repeat_idx, why, cause="skipped")
        watched = WatchedIdentity(registered)
        with _working_for(watched):
            report = self._run(registered, original, task, agent_data, repeat_idx)
        self._wired = self._wired or watched.taken
        self._judge(registered, report, termination_reason(benchmark, report))
        return report

    def _run(
        self, registered: models.RolloutRegistered, original: Callable[..., Report], *given: Any
    ) -> Report:
        try:
            return original(*given)
        except Exception as error:  # one of MASEval's fail_on_… flags
            failed: OutcomeFacts = {
                "status": "unknown_execution_error",
                "error": type(error).__name__,
            }
            try:
                self._client.report(registered.id, **failed)
            except ServiceError as unreported:
                _log.warning("%s: outcome not reported: %s", registered.id, unreported)
            raise

    def _judge(
        self,
        registered: models.RolloutRegistered,
        report: Report,
        reason: models.TerminationReason | None,
    ) -> None:
        report["termination_reason"] = reason
        seen = outcome(report, reason)
        known = {"rollout": registered.id, "batch": self._batch, **facts_of(seen)}
        try:
            _, verdict = self._client.ended(registered.id, **seen)
        except ServiceError as error:
            unmeasured(report, f"not measured: {error}", cause=service_cause(error), **known)
            return
        judged = {**known, **judgement(verdict)}
        why = no_measurement(verdict) or undecided(verdict)
        if why is None:
            report["traces"][_TRACE] = judged
        elif verdict.rule == _NO_CALL and not self._wired:
            report["traces"][_TRACE] = judged
            self._warn_of_no_call(report)
        else:
            cause = verdict.fingerprint or verdict.health
            unmeasured(report, why, cause=cause, **judged)

    def _warn_of_no_call(self, report: Report) -> None:
        if not self._warned:
            self._warned = True
            _log.warning(
                "task %s: no call came through truezero, MASEval's own score is kept: "
                "is the client's base URL the service's, and does it name the rollout?",
                report["task_id"],
            )

    # --- the benchmark's methods -----------------------------------------------------------

    def _patch(self, benchmark: Any, name: str, around: Callable[..., Any]) -> None:
        """Call ``around`` with the original method before its arguments."""
        self._patched.append((benchmark, name, vars(benchmark).get(name, _ABSENT)))
        setattr(benchmark, name, partial(around, getattr(benchmark, name)))

    def _restore(self) -> None:
        while self._patched:
            benchmark, name, own = self._patched.pop()
            if own is _ABSENT:
                delattr(benchmark, name)
            else:
                setattr(benchmark, name, own)


@contextmanager
def _working_for(rollout: Identity) -> Iterator[None]:
    token = current.set(rollout)
    try:
        yield
    finally:
        current.reset(token)


def _in_role(role: str, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a method whose model calls are not the agent's."""
    rollout = current.get()
    if not isinstance(rollout, WatchedIdentity):
        return original(*args, **kwargs)
    access = rollout.rollout.roles[role]
    named = _InRole(id=rollout.id, key=access.key, base_urls=access.base_urls)
    with _working_for(named):
        return original(*args, **kwargs)


def _user_in_role(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Set up the user simulator so that its calls are the user's."""
    user = _in_role(_USER, original, *args, **kwargs)
    if user is not None:
        for name in ("get_initial_query", "respond"):
            method = getattr(user, name)
            if getattr(method, "func", None) is not _in_role:  # one user for all repetitions
                setattr(user, name, partial(_in_role, _USER, method))
    return user


def _not_run(benchmark: Any, task: Any, repeat_idx: int, why: str, *, cause: str) -> Report:
    """Build MASEval's report of a repetition that was not run."""
    status = importlib.import_module("maseval.core.benchmark").TaskExecutionStatus
    report: Report = benchmark._build_report(
        task, repeat_idx, status.ENVIRONMENT_ERROR, error=_error(why)
    )
    report["termination_reason"] = None
    unmeasured(report, why, cause=cause)
    return report


# --- pure ----------------------------------------------------------------------------------


def termination_reason(benchmark: Any, report: Report) -> models.TerminationReason | None:
    """Return why a repetition stopped; None if it failed.

    What the report says already, or else the user simulator's own reason; without a user
    MASEval's loop runs the agents once, until they return. A loop of the benchmark's own that
    says nothing is ``unknown``.
    """
    if report["status"] != "success":
        return None
    if told := report.get("termination_reason"):
        reason: models.TerminationReason = told
        return reason
    user = report["traces"].get("user")
    if user is not None:
        return _REASONS.get(user.get("termination_reason"), "unknown")
    loop = getattr(type(benchmark), "execution_loop", None)
    own = getattr(loop, "__module__", None) != "maseval.core.benchmark"
    return "unknown" if own else "agent_stop"


def outcome(report: Report, reason: models.TerminationReason | None) -> OutcomeFacts:
    """Return what to report of a repetition; of an error only the type, of scores the numbers."""
    status = _STATUSES.get(report["status"], "unknown_execution_error")
    seen: OutcomeFacts = {
        "status": status,
        "prompts_executed": 0 if status == "setup_failed" else 1,
        "rewards": rewards_of(report["eval"]),
    }
    if status == "success":
        seen["termination_reason"] = reason
    else:
        seen["error"] = str((report["error"] or {}).get("error_type") or status)
    return seen


def rewards_of(scored: Any) -> dict[str, float] | None:
    """Return the numbers among the evaluators' results; the second's are ``1/name``."""
    results = scored if isinstance(scored, list) else [scored]
    named = {
        name if number == 0 else f"{number}/{name}": value
        for number, result in enumerate(results)
        if isinstance(result, Mapping)
        for name, value in result.items()
    }
    return finite(named)


def facts_of(seen: OutcomeFacts) -> dict[str, Any]:
    """Return what the repetition itself ended with, before any verdict."""
    return {
        "status": seen["status"],
        "termination_reason": seen.get("termination_reason"),
        "rewards": seen["rewards"],
    }


def judgement(verdict: models.Verdict) -> dict[str, Any]:
    """Return what a report shows of a verdict."""
    shown = {
        "health", "error_category", "subcategory", "transient", "fingerprint", "rule", "error",
        "scoreable", "total_requests", "failed_requests", "warnings", "retry",
    }  # fmt: skip
    return verdict.model_dump(include=shown)


def unmeasured(report: Report, why: str, *, cause: str, **known: Any) -> None:
    """Take the score out of a report, and say why; an error of the run's own stays.

    Arguments:
        cause: in a word or two, counted at the end of the run.
    """
    report["traces"][_TRACE] = {"health": None, **known, "error": why, _UNMEASURED: cause}
    report |= {**without_score(report, why), "termination_reason": None}


def without_score(report: Mapping[str, Any], why: str) -> Report:
    """Return the fields of a report without a score: MASEval runs its task again."""
    status = "environment_error" if report["status"] in _COUNTED else report["status"]
    return {"status": status, "eval": None, "error": report.get("error") or _error(why)}


def card_files(benchmark: Any) -> list[Path]:
    """Return where the card goes: beside each file of results, as its ``.meta.json`` does.

    MASEval has no folder of its own for a run; a ``FileResultLogger`` among its callbacks has.
    """
    loggers = getattr(benchmark, "callbacks", None) or ()
    results = (getattr(logger, "_output_path", None) for logger in loggers)
    return [Path(file).with_suffix(".card.json") for file in results if file is not None]


def causes(reports: Sequence[Report]) -> Counter[str]:
    """Return how many reports are no measurements, by cause."""
    traced = [report["traces"].get(_TRACE) or {} for report in reports]
    return Counter(one[_UNMEASURED] for one in traced if _UNMEASURED in one)


def _error(why: str) -> dict[str, Any]:
    """Return an error as MASEval writes one."""
    return {
        "error_type": "NotMeasured",
        "error_message": why,
        "traceback": "",
        "component": "truezero",
        "details": None,
    }
