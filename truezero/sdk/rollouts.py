"""One rollout, as a harness drives it: announced, run, and reported whatever happens in between.

It judges nothing, and reports nothing that it does not know.
"""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import TracebackType
from typing import ClassVar, Protocol, Self, TypeVar, Unpack

from truezero import models
from truezero.sdk import endpoints
from truezero.sdk.endpoints import Event, OutcomeFacts, RolloutFacts, ServiceError, Story
from truezero.sdk.loop import ExecutionLoop, Seen

T = TypeVar("T")


# --- what an exception means ---------------------------------------------------------------


class ExecutionError(Exception):
    """Raised inside a rollout's block to say what went wrong; its text is reported.

    A subclass with another ``status`` means that status.
    """

    status: ClassVar[models.ExecutionStatus] = "unknown_execution_error"


class AgentError(ExecutionError):
    """The agent itself failed."""

    status = "agent_error"


class EnvironmentError(ExecutionError):
    """The sandbox, container or tool around the agent failed."""

    status = "environment_error"


class UserError(ExecutionError):
    """The user, or who plays it, failed."""

    status = "user_error"


class EvaluationFailed(ExecutionError):
    """The agent ran, and what it did could not be evaluated."""

    status = "evaluation_failed"


class SetupFailed(ExecutionError):
    """The rollout never began: no prompt was executed."""

    status = "setup_failed"


class TaskTimeout(ExecutionError, TimeoutError):
    """The task took too long."""

    status = "task_timeout"


class Skipped(Exception):
    """A rollout that was not admitted: the batch's breaker is open on its lane."""

    def __init__(self, rollout_id: str, reason: str) -> None:
        super().__init__(reason)
        self.rollout_id = rollout_id
        self.reason = reason


# Exceptions of others that mean something; the first that fits.
_MEANS: tuple[tuple[type[Exception], models.ExecutionStatus], ...] = (
    (TimeoutError, "task_timeout"),
    (subprocess.TimeoutExpired, "task_timeout"),
)


def outcome_of(error: Exception) -> OutcomeFacts:
    """What to report of a block that ended in this exception.

    Only who raises an ``ExecutionError`` chose its words; of any other the name alone is
    told, for its message may hold a prompt or a key.
    """
    if isinstance(error, ExecutionError):
        told: OutcomeFacts = {"status": error.status, "error": str(error) or type(error).__name__}
        return {**told, "prompts_executed": 0} if error.status == "setup_failed" else told
    status = next((means for kind, means in _MEANS if isinstance(error, kind)), None)
    return {"status": status or "unknown_execution_error", "error": type(error).__name__}


# --- one rollout ---------------------------------------------------------------------------


class _Rollout:
    """What a rollout is to both clients."""

    def __init__(self, facts: RolloutFacts) -> None:
        self._facts = facts
        self._registered: models.RolloutRegistered | None = None
        self._ended: tuple[models.Result, models.Verdict] | None = None
        self._loop: ExecutionLoop | None = None

    @property
    def id(self) -> str:
        """Its id; the service makes one where none was given."""
        return self._known.id

    @property
    def key(self) -> str:
        """An API key of the service's own that proves this rollout, ``tz-…``."""
        return self._known.key

    @property
    def base_urls(self) -> dict[str, str]:
        """Where to point the clients of each upstream, by its name."""
        return self._known.base_urls

    @property
    def env(self) -> dict[str, str]:
        """Variables that point common agents at the service."""
        return self._known.env

    @property
    def task(self) -> str | None:
        """What it runs."""
        return self._facts.get("task")

    @property
    def attempt(self) -> int | None:
        """Which run of its task it is, from 0; None where nobody counts."""
        return self._facts.get("attempt")

    @property
    def finished(self) -> bool:
        """Whether its outcome was reported."""
        return self._ended is not None

    @property
    def result(self) -> models.Result:
        """The record to store, once it has finished."""
        return self._end_known[0]

    @property
    def verdict(self) -> models.Verdict:
        """The judgement on it, once it has finished; before, ask ``peek``."""
        return self._end_known[1]

    def loop(
        self,
        max_steps: int,
        *,
        agent_done: Seen | None = None,
        user_satisfied: Seen | None = None,
    ) -> ExecutionLoop:
        """A loop whose steps and reason to stop are reported with this rollout."""
        self._loop = ExecutionLoop(max_steps, agent_done=agent_done, user_satisfied=user_satisfied)
        return self._loop

    @property
    def _known(self) -> models.RolloutRegistered:
        if self._registered is None:
            raise RuntimeError("the rollout has not begun: enter it by `with`")
        return self._registered

    @property
    def _end_known(self) -> tuple[models.Result, models.Verdict]:
        if self._ended is None:
            raise RuntimeError("the rollout has not finished: call finish(), or leave its block")
        return self._ended

    def _begin(self) -> Story[None]:
        registered = yield from endpoints.register(**self._facts)
        if not registered.admitted:
            raise Skipped(registered.id, registered.error or "skipped")
        self._registered = registered

    def _finish(self, seen: OutcomeFacts) -> Story[models.Result]:
        facts: OutcomeFacts = {**self._counted(seen.get("status", "success")), **seen}
        self._ended = yield from endpoints.ended(self.id, **facts)
        return self._ended[0]

    def _leave(self, error: BaseException | None) -> Story[None]:
        """Report what the block came to; a block that was broken off came to nothing."""
        if self.finished or isinstance(error, ServiceError):
            return
        if error is None:
            yield from self._finish({})
        elif isinstance(error, Exception):
            yield from self._finish(outcome_of(error))

    def _counted(self, status: models.ExecutionStatus) -> OutcomeFacts:
        """What its loop knows."""
        if self._loop is None:
            return {}
        counted: OutcomeFacts = {"prompts_executed": self._loop.steps}
        if status == "success":
            counted["termination_reason"] = self._loop.termination_reason
        return counted


class SyncPlayer(Protocol):
    """Who plays stories, waiting."""

    def play(self, story: Story[T], *, sleep: Callable[[float], object] | None = None) -> T:
        """Play a story to its end."""
        ...

    def events(self, batch: str, *, after: int | None = None) -> Iterator[Event]:
        """What happens in a batch."""
        ...


class AsyncPlayer(Protocol):
    """Who plays stories, awaiting."""

    async def play(
        self, story: Story[T], *, sleep: Callable[[float], Awaitable[object]] | None = None
    ) -> T:
        """Play a story to its end."""
        ...

    def events(self, batch: str, *, after: int | None = None) -> AsyncIterator[Event]:
        """What happens in a batch."""
        ...


class Rollout(_Rollout):
    """One rollout: announced on entry, reported at the latest when its block is left.

    An exception that leaves the block becomes the status it means, and goes on. What is no
    ``Exception`` (Ctrl-C) goes on and reports nothing: nobody knows what would have come.

    Raises:
        Skipped: on entry, where the batch's breaker does not admit it.
        ServiceError: the service is not there, or refuses.
    """

    def __init__(self, client: SyncPlayer, facts: RolloutFacts) -> None:
        super().__init__(facts)
        self._client = client

    def __enter__(self) -> Self:
        self._client.play(self._begin())
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._client.play(self._leave(exc))

    def finish(self, **seen: Unpack[OutcomeFacts]) -> models.Result:
        """Report what the runner saw, success by default; returns the record to store."""
        return self._client.play(self._finish(seen))

    def peek(self) -> models.Verdict:
        """The verdict as it stands; ``doomed`` says that going on is pointless."""
        return self._client.play(endpoints.verdict(self.id))


class AsyncRollout(_Rollout):
    """The same for ``async with``."""

    def __init__(self, client: AsyncPlayer, facts: RolloutFacts) -> None:
        super().__init__(facts)
        self._client = client

    async def __aenter__(self) -> Self:
        await self._client.play(self._begin())
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._client.play(self._leave(exc))

    async def finish(self, **seen: Unpack[OutcomeFacts]) -> models.Result:
        """Report what the runner saw, success by default; returns the record to store."""
        return await self._client.play(self._finish(seen))

    async def peek(self) -> models.Verdict:
        """The verdict as it stands; ``doomed`` says that going on is pointless."""
        return await self._client.play(endpoints.verdict(self.id))
