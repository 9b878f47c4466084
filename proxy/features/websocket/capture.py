"""Observe the calls inside one WebSocket: messages go in, exchanges come out.

It never changes or keeps a message, and never raises.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import orjson

from classifier.records import Ending, Exchange, Kind
from proxy.capture.observer import CallObserver
from proxy.wire import routes
from proxy.wire.dialect import Headers, Payload, model_name, name, part
from proxy.wire.request import has_tools

# --- events of OpenAI's WebSocket APIs ---------------------------------------------------------


# Close codes that state no error (RFC 6455 §7.4.1).
_QUIET_CODES = frozenset((None, 1000, 1001, 1005, 1006, 1012))
_ANSWERS = frozenset((1003, 1007, 1008, 1009))  # to what was sent: RFC 6455 §7.4.1
# How OpenAI names why it closes: "invalid_request_error.invalid_api_key" after code 3000.
_CLOSE_REASON = re.compile(r"([a-z][a-z_]+)(?:\.([a-z][a-z_]+))?\Z")


def as_sse(message: bytes) -> bytes:
    """Frame a message as the server-sent event that the same API sends over HTTP.

    Line breaks between JSON's tokens are blanks; inside its strings there are none.
    """
    if b"\n" in message or b"\r" in message:
        message = message.replace(b"\r", b" ").replace(b"\n", b" ")
    return b"data: " + message + b"\n\n"


def parse_message(message: bytes) -> Payload:
    """Parse a message; empty where it is no JSON object."""
    try:
        return part(orjson.loads(message))
    except orjson.JSONDecodeError:
        return {}


def response_id(payload: Payload) -> str | None:
    """Return the id of the response that an event belongs to."""
    return name(payload.get("response_id")) or name(part(payload.get("response")).get("id"))


def error_status(payload: Payload) -> int:
    """Return the HTTP status that an error event states; 200 where it states none.

    Codex reads ``status`` or ``status_code`` beside ``error`` (openai/codex,
    codex-api/src/endpoint/responses_websocket.rs).
    """
    for key in ("status", "status_code"):
        status = payload.get(key)
        if type(status) is int and 400 <= status < 600:
            return status
    return 200


def error_headers(payload: Payload) -> Iterator[tuple[bytes, bytes]]:
    """Yield the headers that an error event states beside its status (same source)."""
    for key, value in part(payload.get("headers")).items():
        if isinstance(value, str | int | float):
            yield key.lower().encode(), str(value).encode()


def close_error(code: int | None, reason: str) -> bytes | None:
    """Return the error event that a close frame stands for; None for a normal close."""
    if code in _QUIET_CODES:
        return None
    match = _CLOSE_REASON.match(reason)
    kind, inner = match.groups() if match else (None, None)
    error = {"type": kind, "code": inner} if match else {"message": reason or f"closed: {code}"}
    if code in _ANSWERS and not inner:
        error["code"] = f"websocket_close_{code}"
    return orjson.dumps({"type": "error", "error": error})


# --- calls of one WebSocket --------------------------------------------------------------------


# A quote inside a JSON string is escaped, so a quoted word in the bytes is a key or a value.
_REQUEST = re.compile(rb'"response\.create"')
_EVENTS = re.compile(
    rb'"(?:error|codex\.rate_limits|response\.(?:created|done|completed|incomplete|failed)|session\.(?:created|updated))"'
)
_CREATED, _LIMITS = "response.created", "codex.rate_limits"
_ENDS = frozenset(("response.done", "response.completed", "response.incomplete", "response.failed"))
_SSE: Headers = ((b"content-type", b"text/event-stream"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSocketApi:
    """The behaviour of calls over one WebSocket API.

    ``errors_end_calls``: an error event ends the response in progress (developers.openai.com,
    websocket-mode); in realtime most errors do not (openai-python,
    types/realtime/realtime_error_event.py). ``falls_back``: its clients have the same API
    over HTTP.
    """

    errors_end_calls: bool
    falls_back: bool


APIS = {
    "openai.responses": WebSocketApi(errors_end_calls=True, falls_back=True),
    "openai.realtime": WebSocketApi(errors_end_calls=False, falls_back=False),
}


def websocket_api(path: bytes) -> WebSocketApi | None:
    """Return the API of a WebSocket, by the raw path after the upstream; None if unknown."""
    return APIS.get(routes.route(routes.WEBSOCKET, path).api)


@dataclass(slots=True, kw_only=True)
class CallChanges:
    """The exchanges that one message started, and those it ended."""

    started: list[Exchange] = field(default_factory=list)
    finished: list[Exchange] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class _OpenCall:
    """One call in progress.

    ``stream_id`` and ``event_id`` are those of the request's event; ``response`` is the id of
    its response, once there is one.
    """

    observer: CallObserver
    stream_id: str | None
    event_id: str | None = None
    response: str | None = None
    prepares: bool = False  # no response is to be generated
    has_head: bool = False  # the observer was given a response head
    size: int = 0
    has_tools: bool | None = None

    def describe(self, exchange: Exchange, model: str | None) -> Exchange:
        """Complete its exchange; ``model`` is the session's."""
        return replace(
            exchange,
            kind=Kind.PROBE if self.prepares else exchange.kind,
            model=exchange.model or model,
            has_tools=self.has_tools if self.has_tools is not None else exchange.has_tools,
            response_bytes=self.size,
        )


@dataclass(slots=True)
class _Session:
    """The settings of a realtime session, valid for all of its calls."""

    model: str | None
    has_tools: bool | None = None


class WebSocketCapture:
    """Observe the calls of one WebSocket.

    Arguments:
        api: how its calls behave; None for an unknown API, of which nothing is recorded.
        new_observer: makes the observer of a call that begins now.
        headers: of the response to the upgrade, in lower case.
        model: named by the upgrade's query.
        on_limits: called with an event that states limits of the account.
    """

    def __init__(
        self,
        api: WebSocketApi | None,
        *,
        new_observer: Callable[[], CallObserver],
        headers: Headers,
        model: str | None,
        on_limits: Callable[[Payload], None] | None = None,
    ) -> None:
        self._api = api
        self._on_limits = on_limits
        self._new_observer = new_observer
        pairs = [pair for pair in headers if pair[0] not in (b"content-type", b"content-encoding")]
        self._headers: Headers = (*pairs, *_SSE)
        self._session = _Session(model)
        self._calls: list[_OpenCall] = []
        self._finished: deque[str] = deque(maxlen=64)  # response ids; late events name them
        self._responded = False  # an event of a call came

    @property
    def idle(self) -> bool:
        """True if no call is in progress."""
        return not self._calls

    def await_agent(self) -> None:
        """Note that silence is not the provider's: the agent does not read."""
        for call in self._calls:
            call.observer.await_agent()

    def on_agent_message(self, message: bytes) -> CallChanges:
        """Note a message from the agent."""
        changes = CallChanges()
        if self._api is not None and _REQUEST.search(message):
            payload = parse_message(message)
            if payload.get("type") == "response.create":
                self._begin(payload, message, changes)
        return changes

    def on_provider_message(self, message: bytes, at: float) -> CallChanges:
        """Note a message from the provider, at monotonic seconds."""
        changes = CallChanges()
        if self._api is None:
            return changes
        relevant = _EVENTS.search(message) is not None
        if not relevant and len(self._calls) == 1:
            self._feed(self._calls[0], message, at)
        elif relevant or self._calls:
            self._take(parse_message(message), message, at, changes)
        return changes

    def on_close(self, ending: Ending, at: float, code: int | None, reason: str) -> CallChanges:
        """End the calls in progress.

        Arguments:
            code: of the provider's close frame; None if it sent none.
            reason: of the same frame.
        """
        changes = CallChanges()
        error = close_error(code, reason) if ending is Ending.CUT_UPSTREAM else None
        if error is not None and self._api is not None and not self._responded and self.idle:
            self._open(None, changes)
        for call in tuple(self._calls):
            if error is not None:
                self._observe(call, error, at)
            self._finish(call, ending, at, changes)
        return changes

    def _begin(self, payload: Payload, message: bytes, changes: CallChanges) -> None:
        response = part(payload.get("response"))  # realtime's settings for this call
        call = self._open(
            name(payload.get("stream_id")),
            changes,
            message,
            event_id=name(payload.get("event_id")),
            prepares=payload.get("generate") is False,
        )
        offered = has_tools(payload) or bool(response.get("tools"))
        call.has_tools = offered or self._session.has_tools

    def _open(
        self,
        stream_id: str | None,
        changes: CallChanges,
        message: bytes = b"",
        *,
        event_id: str | None = None,
        prepares: bool = False,
    ) -> _OpenCall:
        observer = self._new_observer()
        if message:
            observer.on_request_body(message)
        call = _OpenCall(
            observer=observer, stream_id=stream_id, event_id=event_id, prepares=prepares
        )
        call.has_tools = self._session.has_tools
        self._calls.append(call)
        changes.started.append(call.describe(observer.in_flight(), self._session.model))
        return call

    def _take(self, payload: Payload, message: bytes, at: float, changes: CallChanges) -> None:
        kind = payload.get("type")
        if kind == "error":
            self._error(payload, message, at, changes)
            return
        if isinstance(kind, str) and kind.startswith("session."):
            self._update_session(part(payload.get("session")))
            return
        if kind == _LIMITS and self._on_limits is not None:
            self._on_limits(payload)
        call = self._responding(payload, changes) if kind == _CREATED else self._call_of(payload)
        if call is None:
            return
        self._feed(call, message, at)
        if kind in _ENDS:
            self._finish(call, Ending.COMPLETE, at, changes)

    def _update_session(self, session: Payload) -> None:
        self._session.model = model_name(session.get("model")) or self._session.model
        if "tools" in session:
            self._session.has_tools = bool(session["tools"])

    def _responding(self, payload: Payload, changes: CallChanges) -> _OpenCall:
        """Return the call of a new response; providers start some unasked.

        Voice detection does in realtime, steering in the Responses API.
        """
        stream_id = name(payload.get("stream_id"))
        waiting = next(
            (c for c in self._calls if c.stream_id == stream_id and c.response is None), None
        )
        call = waiting or self._open(stream_id, changes)
        call.response = response_id(payload) or ""
        return call

    def _call_of(self, payload: Payload) -> _OpenCall | None:
        """Return the call that an event belongs to, by its response or its stream."""
        response, stream_id = response_id(payload), name(payload.get("stream_id"))
        if response is not None:
            for call in self._calls:
                if call.response == response:
                    return call
            if response in self._finished:
                return None  # OpenAI may send response.done behind response.completed
        return next(
            (c for c in self._calls if c.stream_id == stream_id and not (response and c.response)),
            None,
        )

    def _error(self, payload: Payload, message: bytes, at: float, changes: CallChanges) -> None:
        call = self._call_ended_by(payload)
        if call is None:
            call = self._open(name(payload.get("stream_id")), changes)
        if not call.has_head:
            status = error_status(payload)
            call.observer.on_response_head(status, (*self._headers, *error_headers(payload)), at)
            call.has_head = True
        self._feed(call, message, at)
        self._finish(call, Ending.COMPLETE, at, changes)

    def _call_ended_by(self, payload: Payload) -> _OpenCall | None:
        """Return the call that an error ends; None if it ends none."""
        stream_id = name(payload.get("stream_id"))
        cause = name(part(payload.get("error")).get("event_id"))
        for call in self._calls:
            if call.stream_id != stream_id:
                continue
            refused = call.response is None and (cause is None or cause == call.event_id)
            if refused or (self._api is not None and self._api.errors_end_calls):
                return call
        return None

    def _feed(self, call: _OpenCall, message: bytes, at: float) -> None:
        call.size += len(message)
        self._observe(call, message, at)

    def _observe(self, call: _OpenCall, message: bytes, at: float) -> None:
        if not call.has_head:
            call.observer.on_response_head(200, self._headers, at)
            call.has_head = True
        self._responded = True
        call.observer.on_response_body(as_sse(message), at)

    def _finish(self, call: _OpenCall, ending: Ending, at: float, changes: CallChanges) -> None:
        self._calls.remove(call)
        if call.response:
            self._finished.append(call.response)
        exchange = call.observer.finish(ending, at)
        changes.finished.append(call.describe(exchange, self._session.model))
