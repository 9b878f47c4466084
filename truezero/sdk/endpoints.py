"""The REST endpoints as generators of requests, shared by the sync and the async client.

Nothing here opens a connection: a client runs each generator and sends it the responses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from typing import Any, Generic, Literal, TypedDict, TypeVar, Unpack
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from truezero import models

Parameters = Mapping[str, str | float | Sequence[str] | Sequence[float]]

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

EXPORT = "/rollouts/export"
ROLLOUTS = "/rollouts"
CSV = {"accept": "text/csv"}
UNREACHABLE = "unreachable"  # the connection was refused

_LOST_AFTER = 5  # failed reconnections in a row before a stream is given up


class ServiceError(Exception):
    """The service cannot be reached, or rejected a request; the message says which and why.

    ``status`` is the HTTP status, None without a response; ``code`` is the problem's code.
    """

    def __init__(
        self, sentence: str, *, status: int | None = None, code: str | None = None
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[T]):
    """A request, and how its response is read."""

    method: str
    path: str
    read: Callable[[Any], T]
    params: Parameters = field(default_factory=dict)
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait, in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Work:
    """Call the runner's own code; the async client awaits the result."""

    do: Callable[[], Any]


Step = Request[Any] | Pause | Work
Story = Generator[Step, Any, T]


class PolicyFacts(TypedDict, total=False):
    """How a batch is judged, where not as the service is set."""

    agents: Literal["trusted", "untrusted"] | None
    validity: Literal["invalid", "suspect", "none"] | None
    max_steps: Literal["score", "exclude"] | None


class LaneFacts(TypedDict, total=False):
    """Attributes that the rollouts of a batch often share."""

    model: str | Sequence[str] | None
    upstream: str | None
    usage_channel: Literal["proxy", "none"]
    policy: PolicyFacts | None
    metadata: dict[str, Any] | None


class RunFacts(LaneFacts, total=False):
    """Attributes that distinguish one run of a task from another."""

    id: str | None
    repeat: int | None
    repeats: int | None
    attempt: int | None
    roles: list[str]


class RolloutFacts(RunFacts, total=False):
    """Attributes accepted by `POST /rollouts`."""

    batch: str | None
    task: str | None


class DrillFacts(RolloutFacts, total=False):
    """The same, with a failure to inject into the agent's calls."""

    fault: Mapping[str, Any] | None


class OutcomeFacts(TypedDict, total=False):
    """Fields accepted by `POST /rollouts/{id}/outcome`; ``status`` is success by default.

    ``batch``, ``task``, ``repeat``, ``attempt`` and ``model`` register a rollout that was not.
    """

    batch: str | None
    task: str | None
    repeat: int | None
    attempt: int | None
    model: str | Sequence[str] | None
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
    """Filters and order of `GET /rollouts`; of several values any may apply."""

    batch: str | Sequence[str]
    task: str | Sequence[str]
    repeat: int | Sequence[int]
    attempt: int | Sequence[int]
    model: str | Sequence[str]
    upstream: str | Sequence[str]
    role: str | Sequence[str]
    health: models.Health | Sequence[models.Health]
    subcategory: models.Subcategory | Sequence[models.Subcategory]
    fingerprint: str | Sequence[str]
    cause: str | Sequence[str]
    validity: models.Validity | Sequence[models.Validity]
    reward: models.RewardKind | Sequence[models.RewardKind]
    scoreable: models.Scoreable | Sequence[models.Scoreable]
    text: str
    since: float | str
    until: float | str
    failed_since: float | str
    failed_until: float | str
    sort: models.Sort
    order: models.Order


# --- endpoints -------------------------------------------------------------------------------


def greet() -> Story[models.Alive]:
    """Check that the service is reachable and of a compatible version.

    Raises:
        ServiceError: ``other_version`` if it is not of this client's release.
    """
    alive = yield from _get(models.Alive, "/healthz")
    ours = metadata.version("truezero")
    if _release(alive.version) != _release(ours):
        raise ServiceError(
            f"the service is truezero {alive.version} and this is truezero {ours}: "
            "install the same release on both sides",
            code="other_version",
        )
    return alive


def register(**facts: Unpack[DrillFacts]) -> Story[models.RolloutRegistered]:
    """Register a rollout."""
    return (yield from _post(models.RolloutRegistered, ROLLOUTS, facts))


def register_many(rollouts: Sequence[DrillFacts]) -> Story[list[models.BulkItem]]:
    """Register any number of rollouts, and return the answer to each, in their order.

    One that is refused has a ``problem`` and keeps no other back. Repeating it is harmless.
    """
    items: list[models.BulkItem] = []
    for start in range(0, len(rollouts), models.MOST_REGISTRATIONS):
        body = {"rollouts": [*rollouts[start : start + models.MOST_REGISTRATIONS]]}
        items += (yield from _post(models.BulkRegistered, "/rollouts/bulk", body)).items
    return items


def report(rollout_id: str, **outcome: Unpack[OutcomeFacts]) -> Story[models.Result]:
    """Report what the runner observed; safe to repeat."""
    body = {"status": "success", **outcome}
    return (yield from _post(models.Result, f"{_rollout(rollout_id)}/outcome", body))


def verdict(
    rollout_id: str, *, settled: bool = False, timeout_s: float = 10.0, policy: str | None = None
) -> Story[models.Verdict]:
    """Judge a rollout; ``settled`` waits up to ``timeout_s`` for its calls in flight."""
    params: dict[str, str | float] = {}
    if settled:
        params = {"wait": "settled", "timeout_s": timeout_s}
    if policy:
        params["policy"] = policy
    return (yield from _get(models.Verdict, f"{_rollout(rollout_id)}/verdict", params))


def result(rollout_id: str) -> Story[models.Result]:
    """Return the record to store as ``result.json``."""
    return (yield from _get(models.Result, f"{_rollout(rollout_id)}/result"))


def ended(
    rollout_id: str, **outcome: Unpack[OutcomeFacts]
) -> Story[tuple[models.Result, models.Verdict]]:
    """Report a rollout whose agent has exited, and wait for its last calls to end."""
    made = yield from report(rollout_id, **outcome)
    judged = yield from verdict(rollout_id, settled=True)
    if (made.model_extra or {}).get("provisional") and not judged.provisional:
        made = yield from result(rollout_id)
    return made, judged


def exchanges(rollout_id: str) -> Story[list[models.Exchange]]:
    """Return every call of a rollout, oldest first."""
    calls: list[models.Exchange] = []
    after: str | None = None
    while True:
        path = f"{_rollout(rollout_id)}/exchanges"
        page = yield from _get(models.ExchangePage, path, _present(after=after))
        calls += page.items
        after = page.next
        if after is None:
            return calls


def rollouts(**filters: Unpack[RolloutFilters]) -> Story[list[models.RolloutItem]]:
    """Return every rollout that matches the filters, oldest first unless asked otherwise."""
    items: list[models.RolloutItem] = []
    after: str | None = None
    while True:
        page = yield from rollout_page(after=after, **filters)
        items += page.items
        after = page.next
        if after is None:
            return items


def rollout_page(
    *, after: str | None = None, limit: int = 1000, **filters: Unpack[RolloutFilters]
) -> Story[models.RolloutPage]:
    """Return a page of rollouts; its ``next`` is the ``after`` of the following one."""
    params = _present(**filters, after=after, limit=limit)
    return (yield from _get(models.RolloutPage, ROLLOUTS, params))


def batch_page(*, after: str | None = None, limit: int = 20) -> Story[models.BatchPage]:
    """Return a page of batches, the newest first."""
    return (yield from _get(models.BatchPage, "/batches", _present(after=after, limit=limit)))


def summary(batch: str) -> Story[models.BatchSummary]:
    """Return a batch's counts, tokens, cost, scores, and the rollouts to run again."""
    return (yield from _get(models.BatchSummary, _batch(batch)))


def check(batch: str) -> Story[models.Check]:
    """Check whether a batch is a valid measurement."""
    return (yield from _get(models.Check, f"{_batch(batch)}/check"))


def breaker(batch: str) -> Story[models.Breaker]:
    """Return the circuit breakers of a batch, lane by lane."""
    return (yield from _get(models.Breaker, f"{_batch(batch)}/breaker"))


def groups(
    batch: str,
    *,
    method: models.AdvantageMethod = "grpo",
    min_valid: int = 2,
    settled: bool | None = None,
    task: str | None = None,
) -> Story[list[models.Group]]:
    """Return the groups of a batch, by task; ``settled`` leaves out the others."""
    found: list[models.Group] = []
    asked = _present(
        method=method,
        min_valid=min_valid,
        settled=None if settled is None else str(settled).lower(),
        task=task,
        limit=1000,
    )
    after: str | None = None
    while True:
        params = {**asked, **_present(after=after)}
        page = yield from _get(models.GroupPage, f"{_batch(batch)}/groups", params)
        found += page.items
        after = page.next
        if after is None:
            return found


def compare(a: str, b: str) -> Story[models.BatchComparison]:
    """Compare batch ``b`` with batch ``a``, task by task."""
    params = _present(a=a, b=b, limit=10_000)
    compared = yield from _get(models.BatchComparison, "/compare", params)
    while compared.next is not None:
        further = _present(**params, after=compared.next)
        page = yield from _get(models.BatchComparison, "/compare", further)
        compared.tasks += page.tasks
        compared.next = page.next
    return compared


def rerun(batch: str) -> Story[models.Reruns]:
    """Return what a batch has to run again, by what is to be done first."""
    return (yield from _get(models.Reruns, f"{_batch(batch)}/rerun"))


def usage(
    batch: str, *, by: Sequence[models.UsageDimension] = ("model", "upstream", "role")
) -> Story[models.BatchUsage]:
    """Add up a batch's calls: tokens, cost, seconds, and what is not known of them."""
    return (yield from _get(models.BatchUsage, f"{_batch(batch)}/usage", {"by": ",".join(by)}))


def reset_breaker(batch: str, *, lane: str | None = None) -> Story[models.Breaker]:
    """Allow one probe (half-open) in one open lane, or in all of them."""
    path = f"{_batch(batch)}/breaker/reset"
    request = Request(
        method="POST", path=path, read=_reader(models.Breaker), params=_present(lane=lane)
    )
    return (yield from _answer(request))


def fingerprints() -> Story[list[models.Fingerprint]]:
    """Return the causes of failures across batches, with the rollouts each affected."""
    page = yield from _get(models.Fingerprints, "/fingerprints")
    return page.items


# --- live events ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of a batch; the kind ``alive`` is a heartbeat.

    ``id`` is where a later stream can resume.
    """

    id: int | None
    kind: str
    data: Mapping[str, Any]


class Events:
    """Parses a batch's event stream line by line, across reconnections."""

    def __init__(self, batch: str, after: int | None) -> None:
        self.path = f"{_batch(batch)}/events"
        self._after = after
        self._lost = 0
        self._fields: dict[str, str] = {}

    @property
    def params(self) -> dict[str, str | float]:
        """The position at which the next connection resumes."""
        return _present(after=self._after)

    def line(self, line: str) -> Event | None:
        """Take one line; return an event if it completes one."""
        if line.startswith(":"):
            self._lost = 0
            return Event(id=self._after, kind="alive", data={})
        if line:
            name, _, value = line.partition(":")
            self._fields[name] = value.removeprefix(" ")
            return None
        read, self._fields = self._fields, {}
        self._after = int(read["id"]) if read.get("id", "").isdigit() else self._after
        if "data" not in read:
            return None
        self._lost = 0
        return Event(
            id=self._after, kind=read.get("event", "message"), data=json.loads(read["data"])
        )

    def lost(self, url: str, error: Exception) -> None:
        """Note that a connection broke.

        Raises:
            ServiceError: too many in a row broke without an event.
        """
        self._lost += 1
        self._fields = {}
        if self._lost >= _LOST_AFTER:
            raise unreachable(url, error) from error


# --- responses -------------------------------------------------------------------------------


def unreachable(url: str, error: Exception) -> ServiceError:
    """Return the error for a request without a response."""
    refused = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
    _, untrusted, why = str(error).partition("certificate verify failed: ")
    if untrusted:  # OpenSSL's words
        return ServiceError(
            f"the certificate of {url} is not trusted here ({why}): set SSL_CERT_FILE to a file "
            "of the authority that signed it, and use a name that it is for",
            code=UNREACHABLE,
        )
    return ServiceError(
        f"cannot reach a truezero service at {url} ({type(error).__name__}): "
        "start one with `truezero serve`, or set TRUEZERO_URL",
        code=UNREACHABLE if refused else "no_answer",
    )


def refused(status: int, body: bytes, url: str) -> ServiceError:
    """Return the error that a service reported."""
    try:
        problem = models.Problem.model_validate_json(body)
    except ValueError:
        return ServiceError(f"{url} is not a truezero service (HTTP {status})", status=status)
    sentence = problem.detail
    if problem.code == "unauthorized":
        told = "the token is wrong or missing: set TRUEZERO_ADMIN_TOKEN to the service's"
        sentence = f"{url}: {told}"
    return ServiceError(sentence, status=problem.status, code=problem.code)


def read(request: Request[T], body: bytes, url: str) -> T:
    """Parse the response to a request.

    Raises:
        ServiceError: the body is not a response to this request.
    """
    try:
        payload = json.loads(body)
    except ValueError as error:
        raise ServiceError(f"{url} is not a truezero service") from error
    try:
        return request.read(payload)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise ServiceError(
            f"the response of {url} to {request.path} does not match truezero "
            f"{metadata.version('truezero')} ({where or 'whole body'}): "
            "the service may be another version",
            code="other_version",
        ) from error


def _answer(request: Request[T]) -> Story[T]:
    payload: T = yield request
    return payload


def _get(model: type[M], path: str, params: Parameters | None = None) -> Story[M]:
    return _answer(Request(method="GET", path=path, read=_reader(model), params=params or {}))


def _post(model: type[M], path: str, body: Mapping[str, Any]) -> Story[M]:
    return _answer(Request(method="POST", path=path, read=_reader(model), body=body))


def _reader(model: type[M]) -> Callable[[Any], M]:
    return partial(model.model_validate)


def _present(**params: Any) -> dict[str, str | float]:
    return {name: value for name, value in params.items() if value is not None}


def _rollout(rollout_id: str) -> str:
    return f"/rollouts/{quote(rollout_id, safe='')}"


def _batch(batch: str) -> str:
    return f"/batches/{quote(batch, safe='')}"


def _release(version: str) -> list[str]:
    """Return the part of a version that must match: before 1.0, the minor number too."""
    return version.split(".")[:2]
