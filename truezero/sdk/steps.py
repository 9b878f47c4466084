"""The steps that the SDK's generators yield: send a request, wait, call the runner's code.

Nothing here opens a connection: a client takes each step and sends the generator its result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from truezero.sdk.errors import ServiceError, not_truezero

Parameters = Mapping[str, str | float | Sequence[str] | Sequence[float]]

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[T]):
    """A request, and how its response is read."""

    method: str
    path: str
    read: Callable[[Any], T]
    params: Parameters = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    timeout_s: float | None = None  # None: the client's


@dataclass(frozen=True, slots=True)
class AskTerms:
    """Ask the client how it delivers outcomes."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait, in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Work:
    """Call the runner's own code; the async client awaits the result."""

    do: Callable[[], Any]


Step = Request[Any] | AskTerms | Pause | Work
Story = Generator[Step, Any, T]


def read(request: Request[T], body: bytes, url: str, status: int = 200) -> T:
    """Parse the response to a request.

    Raises:
        ServiceError: the body is not a response to this request.
    """
    try:
        payload = json.loads(body)
    except ValueError as error:
        raise not_truezero(url, status) from error
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


def get(model: type[M], path: str, params: Parameters | None = None) -> Story[M]:
    """Read a resource as ``model``."""
    return _answer("GET", model, path, params, None)


def post(
    model: type[M],
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    params: Parameters | None = None,
    timeout_s: float | None = None,
) -> Story[M]:
    """Send ``body`` as JSON, and read the response as ``model``."""
    return _answer("POST", model, path, params, body, timeout_s)


def _answer(
    method: str,
    model: type[M],
    path: str,
    params: Parameters | None,
    body: Mapping[str, Any] | None,
    timeout_s: float | None = None,
) -> Story[M]:
    payload: M = yield Request(
        method=method,
        path=path,
        read=partial(model.model_validate),
        params=params or {},
        body=body,
        timeout_s=timeout_s,
    )
    return payload


def present(**params: Any) -> dict[str, str | float]:
    """Return the parameters of a query that have a value."""
    return {name: value for name, value in params.items() if value is not None}
