"""What can be asked of a service: each question a request, and how its answer is read.

It opens no connection: the clients play these stories, one waiting, the other awaiting.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from typing import Any, Generic, Literal, TypedDict, TypeVar, Unpack
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from truezero import models

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

EXPORT = "/rollouts/export"
UNREACHABLE = "unreachable"  # nobody listens there

_LOST_AFTER = 5  # reconnections in a row without an event before a stream is given up


class ServiceError(Exception):
    """A service that is not there, or that refused; the sentence says which and why.

    ``status`` is the HTTP status, None where no answer came; ``code`` the problem's word.
    """

    def __init__(
        self, sentence: str, *, status: int | None = None, code: str | None = None
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[T]):
    """One request, and how its answer is read."""

    method: str
    path: str
    read: Callable[[Any], T]
    params: Mapping[str, str | float] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait, in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Work:
    """Call the runner's own code; what it returns is awaited where the client is async."""

    do: Callable[[], Any]


Step = Request[Any] | Pause | Work
Story = Generator[Step, Any, T]


class LaneFacts(TypedDict, total=False):
    """What the rollouts of a batch often share."""

    model: str | None
    upstream: str | None
    usage_channel: Literal["proxy", "none"]
    metadata: dict[str, Any] | None


class RunFacts(LaneFacts, total=False):
    """What tells one run of a task from another."""

    id: str | None
    attempt: int | None


class RolloutFacts(RunFacts, total=False):
    """What `POST /rollouts` can be told."""

    batch: str | None
    task: str | None


class DrillFacts(RolloutFacts, total=False):
    """The same, with a failure to be played to the agent."""

    fault: Mapping[str, Any] | None


class OutcomeFacts(TypedDict, total=False):
    """What `POST /rollouts/{id}/outcome` can be told; ``status`` is success by default."""

    status: models.ExecutionStatus
    termination_reason: models.TerminationReason | None
    prompts_executed: int | None
    tool_calls: int | None
    total_tokens: int | None
    rewards: float | Mapping[str, float] | None
    eval: dict[str, Any] | None
    error: str | None
    verifier_error: str | None
    export_error: str | None


class RolloutFilters(TypedDict, total=False):
    """What `GET /rollouts` can be narrowed by."""

    batch: str
    task: str
    health: models.Health
    subcategory: models.Subcategory
    fingerprint: str


# --- stories -------------------------------------------------------------------------------


def greet() -> Story[models.Alive]:
    """See that a service is there and speaks as this client does.

    Raises:
        ServiceError: ``other_version`` where it is not of this client's release.
    """
    alive = yield from _ask(models.Alive, "/healthz")
    ours = metadata.version("truezero")
    if _release(alive.version) != _release(ours):
        raise ServiceError(
            f"the service is truezero {alive.version} and this is truezero {ours}: "
            "install the same release on both sides",
            code="other_version",
        )
    return alive


def register(**facts: Unpack[DrillFacts]) -> Story[models.RolloutRegistered]:
    """Announce a rollout."""
    return (yield from _tell(models.RolloutRegistered, "/rollouts", facts))


def report(rollout_id: str, **seen: Unpack[OutcomeFacts]) -> Story[models.Result]:
    """Say what the runner saw; repeating it is harmless."""
    body = {"status": "success", **seen}
    return (yield from _tell(models.Result, f"{_rollout(rollout_id)}/outcome", body))


def verdict(
    rollout_id: str, *, settled: bool = False, timeout_s: float = 10.0, policy: str | None = None
) -> Story[models.Verdict]:
    """Judge a rollout; ``settled`` waits up to ``timeout_s`` for its calls in flight."""
    asked: dict[str, str | float] = {}
    if settled:
        asked = {"wait": "settled", "timeout_s": timeout_s}
    if policy:
        asked["policy"] = policy
    return (yield from _ask(models.Verdict, f"{_rollout(rollout_id)}/verdict", asked))


def result(rollout_id: str) -> Story[models.Result]:
    """The record to store as ``result.json``."""
    return (yield from _ask(models.Result, f"{_rollout(rollout_id)}/result"))


def ended(
    rollout_id: str, **seen: Unpack[OutcomeFacts]
) -> Story[tuple[models.Result, models.Verdict]]:
    """Report a rollout whose agent is gone; its last calls are given time to end."""
    made = yield from report(rollout_id, **seen)
    judged = yield from verdict(rollout_id, settled=True)
    if (made.model_extra or {}).get("provisional") and not judged.provisional:
        made = yield from result(rollout_id)
    return made, judged


def exchanges(rollout_id: str) -> Story[list[models.Exchange]]:
    """Every call of a rollout, oldest first."""
    found: list[models.Exchange] = []
    after: str | None = None
    while True:
        asked = _present(after=after)
        path = f"{_rollout(rollout_id)}/exchanges"
        page = yield from _ask(models.ExchangePage, path, asked)
        found += page.items
        after = page.next
        if after is None:
            return found


def rollouts(**filters: Unpack[RolloutFilters]) -> Story[list[models.RolloutItem]]:
    """Every rollout that the filters let through, oldest first."""
    found: list[models.RolloutItem] = []
    after: str | None = None
    while True:
        asked = _present(**filters, after=after, limit=1000)
        page = yield from _ask(models.RolloutPage, "/rollouts", asked)
        found += page.items
        after = page.next
        if after is None:
            return found


def summary(batch: str) -> Story[models.BatchSummary]:
    """A batch: counts, tokens, cost, scores, and who should be run again."""
    return (yield from _ask(models.BatchSummary, _batch(batch)))


def check(batch: str) -> Story[models.Check]:
    """Whether a batch is a valid measurement."""
    return (yield from _ask(models.Check, f"{_batch(batch)}/check"))


def breaker(batch: str) -> Story[models.Breaker]:
    """A batch's breakers, lane by lane."""
    return (yield from _ask(models.Breaker, f"{_batch(batch)}/breaker"))


def reset_breaker(batch: str, *, lane: str | None = None) -> Story[models.Breaker]:
    """Let a canary into one open lane, or into each."""
    path = f"{_batch(batch)}/breaker/reset"
    question = Request(
        method="POST", path=path, read=_reader(models.Breaker), params=_present(lane=lane)
    )
    return (yield from _answer(question))


def fingerprints() -> Story[list[models.Fingerprint]]:
    """Which causes strike how many rollouts, across batches."""
    found = yield from _ask(models.Fingerprints, "/fingerprints")
    return found.items


# --- live events ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened in a batch; the kind ``alive`` says that nothing did.

    ``id`` is where a later stream can go on.
    """

    id: int | None
    kind: str
    data: Mapping[str, Any]


class Events:
    """Reads a batch's stream of events line by line, over as many connections as it takes."""

    def __init__(self, batch: str, after: int | None) -> None:
        self.path = f"{_batch(batch)}/events"
        self._after = after
        self._lost = 0
        self._fields: dict[str, str] = {}

    @property
    def params(self) -> dict[str, str | float]:
        """Where the next connection goes on."""
        return _present(after=self._after)

    def line(self, line: str) -> Event | None:
        """Take one line; an event where it completes one."""
        if line.startswith(":"):
            self._lost = 0
            return Event(id=self._after, kind="alive", data={})
        if line:
            name, _, value = line.partition(":")
            self._fields[name] = value.removeprefix(" ")
            return None
        read, self._fields = self._fields, {}
        if "data" not in read:
            return None
        self._lost = 0
        self._after = int(read["id"]) if read.get("id", "").isdigit() else self._after
        return Event(
            id=self._after, kind=read.get("event", "message"), data=json.loads(read["data"])
        )

    def lost(self, url: str, error: Exception) -> None:
        """A connection broke.

        Raises:
            ServiceError: it was not the first in a row.
        """
        self._lost += 1
        self._fields = {}
        if self._lost >= _LOST_AFTER:
            raise unreachable(url, error) from error


# --- answers -------------------------------------------------------------------------------


def unreachable(url: str, error: Exception) -> ServiceError:
    """No answer came."""
    nobody = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
    return ServiceError(
        f"no truezero service answers at {url} ({type(error).__name__}): "
        "start one with `truezero serve`, or set TRUEZERO_URL",
        code=UNREACHABLE if nobody else "no_answer",
    )


def refused(status: int, body: bytes, url: str) -> ServiceError:
    """What a service says where it says no."""
    try:
        problem = models.Problem.model_validate_json(body)
    except ValueError:
        return ServiceError(
            f"what answers at {url} is no truezero service (HTTP {status})", status=status
        )
    sentence = problem.detail
    if problem.code == "unauthorized":
        sentence = f"{url} does not take this token: set TRUEZERO_ADMIN_TOKEN to the service's"
    return ServiceError(sentence, status=problem.status, code=problem.code)


def read(question: Request[T], body: bytes, url: str) -> T:
    """The answer to a question.

    Raises:
        ServiceError: what came is no such answer.
    """
    try:
        found = json.loads(body)
    except ValueError as error:
        raise ServiceError(f"what answers at {url} is no truezero service") from error
    try:
        return question.read(found)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise ServiceError(
            f"the service at {url} answers {question.path} as this truezero "
            f"{metadata.version('truezero')} does not know it ({where or 'the whole'}): "
            "is it another version?",
            code="other_version",
        ) from error


def _answer(question: Request[T]) -> Story[T]:
    found: T = yield question
    return found


def _ask(model: type[M], path: str, params: Mapping[str, str | float] | None = None) -> Story[M]:
    return _answer(Request(method="GET", path=path, read=_reader(model), params=params or {}))


def _tell(model: type[M], path: str, body: Mapping[str, Any]) -> Story[M]:
    return _answer(Request(method="POST", path=path, read=_reader(model), body=body))


def _reader(model: type[M]) -> Callable[[Any], M]:
    return partial(model.model_validate)


def _present(**asked: Any) -> dict[str, str | float]:
    return {name: value for name, value in asked.items() if value is not None}


def _rollout(rollout_id: str) -> str:
    return f"/rollouts/{quote(rollout_id, safe='')}"


def _batch(batch: str) -> str:
    return f"/batches/{quote(batch, safe='')}"


def _release(version: str) -> list[str]:
    """What two sides must share to understand each other: before 1.0, the minor number too."""
    return version.split(".")[:2]
