"""The REST API as both clients use it: connections, answers, and pages joined to one."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from truezero import foreign, models
from truezero.sdk.addresses import client_headers
from truezero.sdk.errors import ServiceError, not_truezero, refused, unreachable

M = TypeVar("M", bound=BaseModel)
Parameters = Mapping[str, str | float | Sequence[str] | Sequence[float]]

# Addresses reached directly, whatever HTTP_PROXY says: patterns of httpx's ``mounts``.
DIRECT = ("all://127.0.0.1", "all://localhost", "all://[::1]")
STREAM_S = httpx.Timeout(10.0)  # a live stream sends several heartbeats a second
CARD_S = 3600.0  # the service reads and judges every rollout of the batch
REFERENCE_S = 120.0  # the longest series: three questions, each within 20 s, some asked twice
RECONNECT_S = 1.0
# What a kept connection fails with that the service, or a balancer, closes at that moment.
CLOSED = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
# httpx closes what was idle for 5 s, also if another thread has just taken it: a run that waits for
# its lane asks again only after up to 10 s.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=30.0)

# Refusals of what another release may take: a field, a path.
OF_ANOTHER_RELEASE = frozenset({"invalid", "not_found", "method_not_allowed"})

sleep = time.sleep


async def async_sleep(seconds: float) -> None:
    """Sleep under asyncio and trio alike; harnesses use both."""
    import anyio  # noqa: PLC0415  httpx, which needs it, loads it as late

    await anyio.sleep(seconds)


def connection(url: str, token: str | None, timeout_s: float) -> dict[str, Any]:
    """Return the arguments of an httpx client for a service."""
    return {
        "base_url": url,
        "headers": {**client_headers(token), "accept-encoding": "gzip, deflate"},
        "timeout": timeout_s,
        "limits": _LIMITS,
        "mounts": dict.fromkeys(DIRECT),
    }


def encoded(body: Mapping[str, Any] | None) -> tuple[bytes | None, Mapping[str, str]]:
    """Return a request's body as JSON, and the header that says so.

    Raises:
        ServiceError: ``invalid``, as the service would say, of a value that JSON has not: NaN.
    """
    if body is None:
        return None, {}
    try:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode(), {"content-type": "application/json"}
    except (TypeError, ValueError):
        field, message = next(_flaws("", body), ("body", "must be plain JSON"))
        raise ServiceError(f"{field}: {message}", status=422, code="invalid") from None


def _flaws(place: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the place of each value that JSON has not, and what is wrong with it."""
    match value:
        case float() if not math.isfinite(value):
            yield place, f"must be a finite number, not {value}"
        case str() if not _is_unicode(value):
            yield place, "must be valid Unicode"
        case Mapping():
            for name, inner in value.items():
                yield from _flaws(f"{place}.{name}" if place else str(name), inner)
        case list() | tuple():
            for number, inner in enumerate(value):
                yield from _flaws(f"{place}.{number}", inner)
        case None | bool() | int() | float() | str():
            pass
        case _:
            yield place, f"must be plain JSON, not {type(value).__name__}"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def no_answer(url: str, error: httpx.HTTPError) -> ServiceError:
    """Return the error for a request without a response."""
    unconnected = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
    return unreachable(url, error, connected=not unconnected)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that was read whole."""

    status: int
    headers: httpx.Headers
    body: bytes


class Pieces:
    """Collects an answer's body, or its lines, within bounds: another program may answer.

    Every method raises ``ServiceError`` if no truezero service would answer so.
    """

    def __init__(self, response: httpx.Response, url: str) -> None:
        self._response, self._status, self._url = response, response.status_code, url
        self._body = foreign.Body()
        with self._of_service():
            foreign.check_encoding(response.headers.get("content-encoding"))

    def add(self, piece: bytes) -> None:
        """Take the next piece of the body."""
        with self._of_service():
            self._body.add(piece)

    def answer(self) -> Answer:
        """Return the whole answer."""
        headers = self._response.headers
        return Answer(status=self._status, headers=headers, body=self._body.rest())

    def lines(self, piece: bytes) -> list[str]:
        """Take the next piece and return the lines that it completes; none of a refusal."""
        if self._status >= 400:
            self.add(piece)
            return []
        with self._of_service():
            return list(self._body.lines(piece))

    def last_line(self) -> list[str]:
        """Return the line that no piece has completed, if there is one; raise a refusal."""
        rest = self._body.rest()
        if self._status >= 400:
            raise refused(self._status, rest, self._url)
        return [rest.decode("utf-8", "replace")] if rest else []

    @contextmanager
    def _of_service(self) -> Iterator[None]:
        try:
            yield
        except foreign.ForeignError as error:
            raise not_truezero(self._url, self._status) from error


def parse(model: type[M], body: bytes, *, path: str, url: str, status: int = 200) -> M:
    """Read the answer to a request of a path as its model.

    Raises:
        ServiceError: it is none.
    """
    try:
        payload = foreign.parse(body)
    except ValueError as error:
        raise not_truezero(url, status) from error
    try:
        return model.model_validate(payload)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise ServiceError(
            f"the response of {url} to {path} does not match truezero "
            f"{metadata.version('truezero')} ({where or 'whole body'}): "
            "the service may be another version",
            code="other_version",
        ) from error


def joined_comparison(pages: Sequence[models.BatchComparison]) -> models.BatchComparison:
    """Return a comparison with the tasks of all its pages."""
    compared, *further = pages
    for page in further:
        compared.tasks += page.tasks
    compared.next = None
    return compared


def joined_reruns(pages: Sequence[models.Reruns]) -> models.Reruns:
    """Return what to run again, with the items of all pages."""
    first, *further = pages
    for name in models.RERUN_NAMES:
        _join(first.kind(name), [page.kind(name) for page in further])
    first.next = None
    return first


def _join(kind: models.RerunKind, further: Sequence[models.RerunKind]) -> None:
    """Add the items of further pages to those of the first, and count what was read."""
    groups = {(group.cause, group.fix): group for group in kind.groups}
    for group in (group for page in further for group in page.groups):
        known = groups.setdefault((group.cause, group.fix), group)
        if known is not group:
            known.items += group.items
    for group in groups.values():
        group.count = len(group.items)
    filled = [group for group in groups.values() if group.items]
    kind.groups = sorted(filled, key=lambda group: (-group.count, group.cause))
    kind.count = sum(group.count for group in kind.groups)


def next_attempts(items: Sequence[models.RolloutItem]) -> dict[tuple[str, int | None], int]:
    """Return the number of the next attempt per task and repeat; none is reused."""
    following: dict[tuple[str, int | None], int] = {}
    for item in items:
        if item.task is not None:
            key = item.task, item.repeat
            following[key] = max(following.get(key, 0), (item.attempt or 0) + 1)
    return following
