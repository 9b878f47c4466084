"""Observe one response, for the tests of capture and wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from classifier.records import Ending, Exchange
from proxy.capture.observer import CallObserver, ObserverLimits
from proxy.capture.request import Call

SALT = b"a salt of the tests"


def call(
    path: str = "/v1/chat/completions",
    *,
    method: str = "POST",
    upstream: str = "any",
    **headers: str,
) -> Call:
    """Make a call that began at 100.0 s of the monotonic clock; ``_`` in a header reads ``-``."""
    return Call(
        id="x1",
        rollout_id="r1",
        upstream=upstream,
        method=method,
        path=path.encode(),
        started_at=1_800_000_000.0,
        began=100.0,
        request_headers=tuple(
            (key.replace("_", "-").encode(), value.encode()) for key, value in headers.items()
        ),
    )


def head(type_: str | None, headers: Mapping[str, str] | None = None) -> list[tuple[bytes, bytes]]:
    pairs = dict(headers or {}) | ({"content-type": type_} if type_ else {})
    return [(key.encode(), value.encode()) for key, value in pairs.items()]


def observing(
    path: str = "/v1/chat/completions",
    *,
    method: str = "POST",
    status: int = 200,
    type_: str | None = "application/json",
    headers: Mapping[str, str] | None = None,
    request: bytes = b"",
    limits: ObserverLimits | None = None,
    upstream: str = "any",
) -> CallObserver:
    """Return an observer that has the request and, at 100.5 s, the response head."""
    observer = CallObserver(
        call(path, method=method, upstream=upstream), salt=SALT, limits=limits or ObserverLimits()
    )
    if request:
        observer.on_request_body(request)
    observer.on_response_head(status, head(type_, headers), 100.5)
    return observer


def observed(
    body: bytes | Iterable[bytes],
    path: str = "/v1/chat/completions",
    *,
    method: str = "POST",
    ending: Ending = Ending.COMPLETE,
    status: int = 200,
    type_: str | None = "application/json",
    headers: Mapping[str, str] | None = None,
    request: bytes = b"",
    upstream: str = "any",
) -> Exchange:
    """Return the exchange of one response: its pieces came at 101.0 s, its end at 102.0 s."""
    observer = observing(
        path,
        method=method,
        status=status,
        type_=type_,
        headers=headers,
        request=request,
        upstream=upstream,
    )
    for piece in [body] if isinstance(body, bytes) else body:
        observer.on_response_body(piece, 101.0)
    return observer.finish(ending, 102.0)
