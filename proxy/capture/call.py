"""What is known of a call before its response: the request, as the relay sends it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from classifier.records import Attribution, KeySource, Kind
from proxy.capture.conversations import Conversations
from proxy.capture.request_facts import RequestFacts
from proxy.routing import headers as dress
from proxy.wire import request, routes
from proxy.wire.dialect import Headers
from proxy.wire.request import RequestReader


class HeadFacts(NamedTuple):
    """What a request's head says of it: its route, and what its headers state."""

    route: routes.Route
    encodings: Sequence[bytes]
    sdk_retry: int | None
    traceparent: bytes | None
    selected: request.Selected


@dataclass(slots=True)
class Call:
    """One call as the relay sends it.

    ``path`` is raw, after the upstream, without the query. ``started_at`` is in seconds
    since the epoch, ``began`` the same moment on the monotonic clock of every ``at``.
    ``request_headers`` have lower-case names. ``client`` is the address and the port
    of the connection that it came by.
    """

    id: str
    rollout_id: str
    upstream: str
    method: str
    path: bytes
    started_at: float
    began: float
    request_headers: Headers = ()
    query: bytes = b""
    role: str = "agent"
    attribution: Attribution = Attribution.PATH
    key_digest: str | None = None
    injected: bool = False
    key_source: KeySource | None = None
    client: tuple[str, int] | None = None


def head_facts(
    method: str, path: bytes, query: bytes, request_headers: Headers, *, operators_key: bool
) -> HeadFacts:
    """Return what a request's head says of it; the other arguments are as in `Call`.

    Arguments:
        operators_key: the call takes the operator's key, in place of its caller's.
    """
    headers = dress.named(request_headers)
    encodings: Sequence[bytes] = ()
    if b"content-encoding" in headers:
        encodings = [v for name, v in request_headers if name == b"content-encoding"]
    selected: request.Selected = ()
    if query or not request.HEADERS.isdisjoint(headers):
        selected = request.in_head(headers, query, operators_key=operators_key)
    return HeadFacts(
        routes.route(method, path),
        encodings,
        _retry_count(headers.get(b"x-stainless-retry-count")),
        headers.get(b"traceparent"),
        selected,
    )


class CapturedRequest:
    """The request of one call: its route, what its headers state, and a reader of its body.

    Arguments:
        conversations: those that the call may go on with; None: they are not followed.
        salt: key of the request's digest; the same in every process of a service.
        limit: most bytes held of the body.
        head: what `head_facts` returns of the call; None: it is read here.
    """

    __slots__ = ("_salt", "body", "call", "facts", "route", "sdk_retry", "selected",
                 "traceparent")  # fmt: skip

    def __init__(
        self,
        call: Call,
        conversations: Conversations | None = None,
        *,
        salt: bytes,
        limit: int,
        head: HeadFacts | None = None,
    ) -> None:
        self.call = call
        self._salt = salt
        head = head or head_facts(
            call.method, call.path, call.query, call.request_headers,
            operators_key=call.key_source is KeySource.OPERATOR,
        )  # fmt: skip
        self.route, encodings, self.sdk_retry, self.traceparent, self.selected = head
        self.facts = RequestFacts(call, conversations)
        self.body = RequestReader(encodings, limit, self.facts)

    def selector_digest(self) -> str | None:
        """Return a salted digest of what the request chooses beside its model; None: nothing."""
        return request.digest(self.selected + self.body.selected, self._salt)

    def fail(self) -> None:
        """Take that the call was not answered."""
        self.body.fields()  # lest it be looked at only after this
        self.facts.fail()

    def ambiguous(self) -> bool:
        """Whether a body that must say which model is asked for does not."""
        return self.route.kind is Kind.INFERENCE and not self.route.model

    def digest(self) -> str | None:
        """Return a salted digest by which a repeated request is known again."""
        line = self.call.method.encode() + b" " + self.call.path + b"\n"
        return self.body.digest(self._salt, line)

    def response_digest(self, response_id: str) -> str:
        """Return the digest of a response's id, under which the exchange knows it."""
        return response_digest(response_id, self._salt)


def response_digest(response_id: str, salt: bytes) -> str:
    """Return the salted 8-byte digest of a response's id, as exchanges are stored with it."""
    named = response_id.encode("utf-8", "replace")
    return hashlib.blake2b(named, key=salt[:64], digest_size=8).hexdigest()


def _retry_count(value: bytes | None) -> int | None:
    return int(value) if value is not None and value.isdigit() and len(value) < 5 else None
