"""Parts of a rollout that both clients share: the agent loop, its errors, its identity."""

from __future__ import annotations

import subprocess
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, ClassVar

from truezero import models
from truezero.models import TerminationReason
from truezero.sdk.arguments import OutcomeFacts, RolloutFacts
from truezero.sdk.current import Identity, current

# --- agent loop ---


Condition = Callable[[Any], object]


class ExecutionLoop:
    """A loop of at most ``max_steps`` steps that records why it stopped.

    Iterate over it and store the result of each step in ``last``::

        loop = ExecutionLoop(20, agent_done=lambda answer: answer.finished)
        for step in loop:
            loop.last = agent.act()
        loop.termination_reason  # agent_stop, user_stop, max_steps

    After each step ``agent_done`` and then ``user_satisfied`` are called with ``last``. If the
    loop is left by ``break`` or an exception, the reason is ``unknown``.

    Arguments:
        max_steps: at least 1.
        agent_done: returns whether the agent has finished.
        user_satisfied: returns whether the user, real or simulated, is satisfied.

    Raises:
        ValueError: ``max_steps`` is less than 1.
    """

    def __init__(
        self,
        max_steps: int,
        *,
        agent_done: Condition | None = None,
        user_satisfied: Condition | None = None,
    ) -> None:
        if max_steps < 1:
            raise ValueError(f"max_steps: must be at least 1, not {max_steps}")
        self.max_steps = max_steps
        self.steps = 0
        self.last: Any = None
        self.termination_reason: TerminationReason = "unknown"
        self._conditions: tuple[tuple[TerminationReason, Condition | None], ...] = (
            ("agent_stop", agent_done),
            ("user_stop", user_satisfied),
        )

    def __iter__(self) -> Iterator[int]:
        """Yield step numbers from 0; a second iteration continues the count."""
        self.termination_reason = "unknown"
        while self.steps < self.max_steps:
            number = self.steps
            self.steps += 1
            yield number
            if reason := self._stop_reason():
                self.termination_reason = reason
                return
        self.termination_reason = "max_steps"

    def run(self, step: Callable[[int], Any]) -> Any:
        """Call ``step`` with each number; return the last result."""
        for number in self:
            self.last = step(number)
        return self.last

    async def arun(self, step: Callable[[int], Awaitable[Any]]) -> Any:
        """Await ``step`` with each number; return the last result."""
        for number in self:
            self.last = await step(number)
        return self.last

    def _stop_reason(self) -> TerminationReason | None:
        for reason, condition in self._conditions:
            if condition is not None and condition(self.last):
                return reason
        return None


# --- exceptions and the outcomes they mean ---


class ExecutionError(Exception):
    """Raised inside a rollout's block to report what went wrong; its message is reported.

    ``status`` is the rollout status of a subclass.
    """

    status: ClassVar[models.ExecutionStatus] = "unknown_execution_error"


class AgentError(ExecutionError):
    """The agent itself failed."""

    status = "agent_error"


class EnvironmentError(ExecutionError):
    """The sandbox, container or tool around the agent failed."""

    status = "environment_error"


class UserError(ExecutionError):
    """The user, real or simulated, failed."""

    status = "user_error"


class EvaluationFailed(ExecutionError):
    """The agent ran, but its result could not be evaluated."""

    status = "evaluation_failed"


class SetupFailed(ExecutionError):
    """The rollout did not start: no prompt was executed."""

    status = "setup_failed"


class TaskTimeout(ExecutionError, TimeoutError):
    """The task took too long."""

    status = "task_timeout"


class Skipped(Exception):
    """The rollout was not admitted: the batch's breaker is open on its lane."""

    def __init__(self, rollout_id: str, reason: str) -> None:
        super().__init__(reason)
        self.rollout_id = rollout_id
        self.reason = reason


class AlreadyMeasured(Skipped):
    """The task is not to be run: it has all ``repeats`` that it was registered for, or they run."""


# Exceptions of other libraries with a status of their own; the first match wins.
_MEANS: tuple[tuple[type[Exception], models.ExecutionStatus], ...] = (
    (TimeoutError, "task_timeout"),
    (subprocess.TimeoutExpired, "task_timeout"),
)


def outcome_of(error: BaseException) -> OutcomeFacts:
    """Return what to report of a block that ended in this exception.

    The message is reported for an ``ExecutionError`` only; of any other exception just the
    type, because its message may contain a prompt or a key. What is no ``Exception`` stopped the
    runner: Ctrl-C, a cancelled task.
    """
    if not isinstance(error, Exception):
        return {"status": "cancelled", "error": type(error).__name__}
    if isinstance(error, ExecutionError):
        outcome: OutcomeFacts = {
            "status": error.status,
            "error": str(error) or type(error).__name__,
        }
        return {**outcome, "prompts_executed": 0} if error.status == "setup_failed" else outcome
    status = next((means for kind, means in _MEANS if isinstance(error, kind)), None)
    return {"status": status or "unknown_execution_error", "error": type(error).__name__}


# --- one rollout ---


class BaseRollout:
    """A rollout's identity, its loop and its end, for both kinds of client."""

    def __init__(self, facts: RolloutFacts) -> None:
        self._facts = facts
        self._registered: models.RolloutRegistered | None = None
        self._ended: tuple[models.Result, models.Verdict] | None = None
        self._loop: ExecutionLoop | None = None
        self._outer: Identity | None = None

    @property
    def id(self) -> str:
        """The rollout's id; generated by the service if none was given."""
        return self._known.id

    @property
    def key(self) -> str:
        """API key that identifies this rollout, ``tz-…``."""
        return self._known.key

    @property
    def base_urls(self) -> dict[str, str]:
        """Base URL for the clients of each upstream, by name."""
        return self._known.base_urls

    @property
    def env(self) -> dict[str, str]:
        """Environment variables that point common agents at the proxy."""
        return self._known.env

    @property
    def task(self) -> str | None:
        """The task's name."""
        return self._facts.get("task")

    @property
    def repeat(self) -> int | None:
        """Number of this sample of the task, from 0, or None if it is not sampled repeatedly."""
        given = self._facts.get("repeat")
        return self._registered.repeat if given is None and self._registered else given

    @property
    def attempt(self) -> int | None:
        """Number of this run of the task, from 0; None if it is the first, and not counted."""
        given = self._facts.get("attempt")
        return self._registered.attempt if given is None and self._registered else given

    @property
    def finished(self) -> bool:
        """True if the outcome was reported."""
        return self._ended is not None

    @property
    def result(self) -> models.Result:
        """The record to store, once the rollout has finished."""
        return self._end_known[0]

    @property
    def verdict(self) -> models.Verdict:
        """The verdict, once the rollout has finished; before that, use ``peek``."""
        return self._end_known[1]

    def loop(
        self,
        max_steps: int,
        *,
        agent_done: Condition | None = None,
        user_satisfied: Condition | None = None,
    ) -> ExecutionLoop:
        """Return a loop whose steps and stop reason are reported with this rollout."""
        self._loop = ExecutionLoop(max_steps, agent_done=agent_done, user_satisfied=user_satisfied)
        return self._loop

    @property
    def _known(self) -> models.RolloutRegistered:
        if self._registered is None:
            raise RuntimeError("the rollout has not started: enter it with `with`")
        return self._registered

    @property
    def _end_known(self) -> tuple[models.Result, models.Verdict]:
        if self._ended is None:
            raise RuntimeError("the rollout has not finished: call finish() or leave its block")
        return self._ended

    def _become_current(self) -> None:
        # Not a token: a block may be left in another context than it was entered in.
        self._outer = current.get()
        current.set(self)

    def _reported(self, outcome: OutcomeFacts) -> OutcomeFacts:
        """Return what to report: what was registered and counted, and then the outcome."""
        counted = self._counted(outcome.get("status", "success"))
        return {**self._named, **counted, **outcome}

    @property
    def _named(self) -> OutcomeFacts:
        """Return what it was registered with, for a service that no longer knows it."""
        return {
            "batch": self._facts.get("batch"),
            "task": self._facts.get("task"),
            "repeat": self._facts.get("repeat"),
            "attempt": self._facts.get("attempt"),
            "model": self._facts.get("model"),
        }

    def _counted(self, status: models.ExecutionStatus) -> OutcomeFacts:
        """Return what the loop counted."""
        if self._loop is None:
            return {}
        counted: OutcomeFacts = {"prompts_executed": self._loop.steps}
        if status == "success":
            counted["termination_reason"] = self._loop.termination_reason
        return counted
