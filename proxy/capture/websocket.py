"""Hears the messages of one socket: which of them ask for a response, which of them end it.

It never changes or keeps a message, and never raises.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import orjson

from classifier.records import Ending, Exchange, Kind
from proxy.capture.call import Call
from proxy.capture.observer import CallObserver
from proxy.wire import routes
from proxy.wire.dialect import Headers, Payload, model_name, name, part

# A quote inside a JSON string is escaped, so a quoted word in the bytes is a key or a value.
_ASKS = re.compile(rb'"response\.create"')
_TELLS = re.compile(
    rb'"(?:error|response\.(?:created|done|completed|incomplete|failed)|session\.(?:created|updated))"'
)
_CREATED = "response.created"
_ENDS = frozenset(("response.done", "response.completed", "response.incomplete", "response.failed"))
_SSE: Headers = ((b"content-type", b"text/event-stream"),)

# Close codes that say nothing went wrong, or nothing at all (RFC 6455 §7.4.1).
_QUIET_CODES = frozenset((None, 1000, 1001, 1005, 1006, 1012))
# How OpenAI names why it closes: "invalid_request_error.invalid_api_key" after code 3000.
_CLOSE_REASON = re.compile(r"([a-z][a-z_]+)(?:\.([a-z][a-z_]+))?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStyle:
    """How a socket's calls behave.

    ``fatal``: an error event ends the response under way (developers.openai.com,
    websocket-mode); in realtime most errors leave it alone (openai-python,
    types/realtime/realtime_error_event.py). ``falls_back``: its clients have the same API
    over HTTP.
    """

    fatal: bool
    falls_back: bool


MANNERS = {
    "openai.responses": TurnStyle(fatal=True, falls_back=True),
    "openai.realtime": TurnStyle(fatal=False, falls_back=False),
}


def manner(path: bytes) -> TurnStyle | None:
    """The manner of a socket, by the raw path after the upstream; None for an unknown one."""
    return MANNERS.get(routes.route(routes.WEBSOCKET, path).api)


@dataclass(slots=True, kw_only=True)
class FinishedCall:
    """What one message brought: exchanges that began, and those that are over."""

    begun: list[Exchange] = field(default_factory=list)
    over: list[Exchange] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class _OpenTurn:
    """One call under way.

    ``lane`` is the stream_id it was asked on, ``asked_by`` the event that asked;
    ``response`` is known once the provider took it up.
    """

    tap: CallObserver
    lane: str | None
    asked_by: str | None = None
    response: str | None = None
    silent: bool = False  # asked to prepare only: generate is false
    answered: bool = False  # the head was given to the tap
    size: int = 0
    has_tools: bool | None = None


@dataclass(slots=True)
class _Session:
    """What a realtime session settled for all of its calls."""

    model: str | None
    has_tools: bool | None = None


class WebSocketCapture:
    """The calls of one socket.

    Arguments:
        manner: how they behave; None where nothing is understood, and nothing noted.
        new_call: a call that begins now.
        salt: key of the requests' digests.
        headers: of the answer to the upgrade, in lower case.
        model: named by the upgrade's query.
    """

    def __init__(
        self,
        manner: TurnStyle | None,
        *,
        new_call: Callable[[], Call],
        salt: bytes,
        headers: Headers,
        model: str | None,
    ) -> None:
        self._manner = manner
        self._new_call = new_call
        self._salt = salt
        kept = [pair for pair in headers if pair[0] not in (b"content-type", b"content-encoding")]
        self._headers: Headers = (*kept, *_SSE)
        self._session = _Session(model)
        self._turns: list[_OpenTurn] = []
        self._over: deque[str] = deque(maxlen=64)  # responses that are, and may be named again
        self._told = False  # the provider said anything about a call, or why there is none

    @property
    def idle(self) -> bool:
        """Whether no call is under way."""
        return not self._turns

    def asked(self, message: bytes) -> FinishedCall:
        """Take a message of the agent."""
        noted = FinishedCall()
        if self._manner is not None and _ASKS.search(message):
            payload = _object(message)
            if payload.get("type") == "response.create":
                self._begin(payload, message, noted)
        return noted

    def answered(self, message: bytes, at: float) -> FinishedCall:
        """Take a message of the provider, at monotonic seconds."""
        noted = FinishedCall()
        if self._manner is None:
            return noted
        telling = _TELLS.search(message) is not None
        if not telling and len(self._turns) == 1:
            self._feed(self._turns[0], message, at)
        elif telling or self._turns:
            self._take(_object(message), message, at, noted)
        return noted

    def ended(self, ending: Ending, at: float, code: int | None, reason: str) -> FinishedCall:
        """Take the socket's end: what is under way is over.

        Arguments:
            code: of the provider's close frame; None where it sent none.
            reason: of the same frame.
        """
        noted = FinishedCall()
        why = _close_error(code, reason) if ending is Ending.CUT_UPSTREAM else None
        if why is not None and self._manner is not None and not self._told and self.idle:
            self._open(None, noted)
        for turn in tuple(self._turns):
            if why is not None:
                self._hear(turn, why, at)
            self._finish(turn, ending, at, noted)
        return noted

    # the calls

    def _begin(self, payload: Payload, message: bytes, noted: FinishedCall) -> None:
        response = part(payload.get("response"))  # realtime's settings for this call
        turn = self._open(
            name(payload.get("stream_id")),
            noted,
            message,
            asked_by=name(payload.get("event_id")),
            silent=payload.get("generate") is False,
        )
        tools = payload.get("tools") or response.get("tools")
        turn.has_tools = bool(tools) or self._session.has_tools

    def _open(
        self,
        lane: str | None,
        noted: FinishedCall,
        message: bytes = b"",
        *,
        asked_by: str | None = None,
        silent: bool = False,
    ) -> _OpenTurn:
        tap = CallObserver(self._new_call(), salt=self._salt)
        if message:
            tap.on_request_body(message)
        turn = _OpenTurn(tap=tap, lane=lane, asked_by=asked_by, silent=silent)
        turn.has_tools = self._session.has_tools
        self._turns.append(turn)
        noted.begun.append(self._as_seen(turn, tap.opened()))
        return turn

    def _take(self, payload: Payload, message: bytes, at: float, noted: FinishedCall) -> None:
        kind = payload.get("type")
        if kind == "error":
            self._error(payload, message, at, noted)
            return
        if isinstance(kind, str) and kind.startswith("session."):
            self._settle(part(payload.get("session")))
            return
        turn = self._taken_up(payload, noted) if kind == _CREATED else self._whose(payload)
        if turn is None:
            return
        self._feed(turn, message, at)
        if kind in _ENDS:
            self._finish(turn, Ending.COMPLETE, at, noted)

    def _settle(self, session: Payload) -> None:
        self._session.model = model_name(session.get("model")) or self._session.model
        if "tools" in session:
            self._session.has_tools = bool(session["tools"])

    def _taken_up(self, payload: Payload, noted: FinishedCall) -> _OpenTurn:
        """The call that a new response answers; providers begin some by themselves.

        Voice detection does in realtime, steering in the Responses API.
        """
        lane = name(payload.get("stream_id"))
        waiting = next((t for t in self._turns if t.lane == lane and t.response is None), None)
        turn = waiting or self._open(lane, noted)
        turn.response = _response_id(payload) or ""
        return turn

    def _whose(self, payload: Payload) -> _OpenTurn | None:
        """The call that a message belongs to, by its response or its lane."""
        response, lane = _response_id(payload), name(payload.get("stream_id"))
        if response is not None:
            for turn in self._turns:
                if turn.response == response:
                    return turn
            if response in self._over:
                return None  # OpenAI may send response.done behind response.completed
        return next(
            (t for t in self._turns if t.lane == lane and not (response and t.response)), None
        )

    def _error(self, payload: Payload, message: bytes, at: float, noted: FinishedCall) -> None:
        turn = self._blamed(payload)
        if turn is None:
            turn = self._open(name(payload.get("stream_id")), noted)
        if not turn.answered:
            status = _status(payload)
            turn.tap.on_response_head(status, (*self._headers, *_headers(payload)), at)
            turn.answered = True
        self._feed(turn, message, at)
        self._finish(turn, Ending.COMPLETE, at, noted)

    def _blamed(self, payload: Payload) -> _OpenTurn | None:
        """The call that an error ends; None where it ends none."""
        lane = name(payload.get("stream_id"))
        cause = name(part(payload.get("error")).get("event_id"))
        for turn in self._turns:
            if turn.lane != lane:
                continue
            refused = turn.response is None and (cause is None or cause == turn.asked_by)
            if refused or (self._manner is not None and self._manner.fatal):
                return turn
        return None

    def _feed(self, turn: _OpenTurn, message: bytes, at: float) -> None:
        turn.size += len(message)
        self._hear(turn, message, at)

    def _hear(self, turn: _OpenTurn, message: bytes, at: float) -> None:
        if not turn.answered:
            turn.tap.on_response_head(200, self._headers, at)
            turn.answered = True
        self._told = True
        turn.tap.on_response_body(_as_event(message), at)

    def _finish(self, turn: _OpenTurn, ending: Ending, at: float, noted: FinishedCall) -> None:
        self._turns.remove(turn)
        if turn.response:
            self._over.append(turn.response)
        noted.over.append(self._as_seen(turn, turn.tap.finish(ending, at)))

    def _as_seen(self, turn: _OpenTurn, exchange: Exchange) -> Exchange:
        return replace(
            exchange,
            kind=Kind.PROBE if turn.silent else exchange.kind,
            model=exchange.model or self._session.model,
            has_tools=turn.has_tools if turn.has_tools is not None else exchange.has_tools,
            response_bytes=turn.size,
        )


def _as_event(message: bytes) -> bytes:
    """A message as the event that the same API sends over HTTP.

    Line breaks between JSON's tokens are blanks; inside its strings there are none.
    """
    if b"\n" in message or b"\r" in message:
        message = message.replace(b"\r", b" ").replace(b"\n", b" ")
    return b"data: " + message + b"\n\n"


def _object(message: bytes) -> Payload:
    try:
        return part(orjson.loads(message))
    except orjson.JSONDecodeError:
        return {}


def _response_id(payload: Payload) -> str | None:
    return name(payload.get("response_id")) or name(part(payload.get("response")).get("id"))


def _status(payload: Payload) -> int:
    """The HTTP status that an error event states instead of a head.

    Codex reads ``status`` or ``status_code`` beside ``error`` (openai/codex,
    codex-api/src/endpoint/responses_websocket.rs).
    """
    for key in ("status", "status_code"):
        status = payload.get(key)
        if type(status) is int and 400 <= status < 600:
            return status
    return 200


def _headers(payload: Payload) -> Iterator[tuple[bytes, bytes]]:
    """The headers that an error event states beside its status (same source)."""
    for key, value in part(payload.get("headers")).items():
        if isinstance(value, str | int | float):
            yield key.lower().encode(), str(value).encode()


def _close_error(code: int | None, reason: str) -> bytes | None:
    """A close frame that says why, as the error event it stands for."""
    if code in _QUIET_CODES:
        return None
    named = _CLOSE_REASON.match(reason)
    kind, inner = named.groups() if named else (None, None)
    error = {"type": kind, "code": inner} if named else {"message": reason or f"closed: {code}"}
    return orjson.dumps({"type": "error", "error": error})
