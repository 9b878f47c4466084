"""Fault injection: answers a call in the provider's place, for rollouts registered with a fault.

No provider is called. Nothing is injected into a rollout that was registered without a fault.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

import orjson

from proxy.inbound.asgi import AgentConnection, Message, Send
from proxy.outbound import errors
from proxy.outbound.request import UpstreamRequest, UpstreamResponse
from proxy.relay.fault_scripts import (
    SILENT,
    SPOILT,
    WORDS,
    ErrorAnswer,
    ErrorScript,
    FaultedRequest,
    Reply,
    anthropic_begun,
    anthropic_breaking,
    anthropic_errors,
    anthropic_stream,
    anthropic_whole,
    chat_begun,
    chat_breaking,
    chat_errors,
    chat_stream,
    chat_whole,
    gemini_begun,
    gemini_breaking,
    gemini_errors,
    gemini_stream,
    gemini_whole,
    responses_begun,
    responses_breaking,
    responses_errors,
    responses_stream,
    responses_whole,
)
from proxy.routing import headers as dress
from proxy.routing.headers import INJECTED_HEADER
from proxy.wire import routes
from proxy.wire.dialect import Payload, part
from proxy.wire.framing import Unreadable, decoder

if TYPE_CHECKING:
    from truezero.models import Fault, FaultKind


# --- scripts by API ----------------------------------------------------------------------------
# All texts are invented, after the providers' documentation.


CHAT = ErrorScript(
    errors=chat_errors,
    begun=chat_begun,
    breaking=chat_breaking,
    stream=chat_stream,
    whole=chat_whole,
)
SCRIPTS: Mapping[str, ErrorScript] = {
    "openai.chat": CHAT,
    "openai.responses": ErrorScript(
        errors=responses_errors,
        begun=responses_begun,
        breaking=responses_breaking,
        stream=responses_stream,
        whole=responses_whole,
    ),
    "anthropic.messages": ErrorScript(
        errors=anthropic_errors,
        begun=anthropic_begun,
        breaking=anthropic_breaking,
        stream=anthropic_stream,
        whole=anthropic_whole,
    ),
    "gemini.generateContent": (
        _GEMINI := ErrorScript(
            errors=gemini_errors,
            begun=gemini_begun,
            breaking=gemini_breaking,
            stream=gemini_stream,
            whole=gemini_whole,
        )
    ),
    "gemini.streamGenerateContent": _GEMINI,
}


def script_for(api: str) -> ErrorScript:
    """Return an API's error script; one that is not listed is answered as OpenAI's chat."""
    return SCRIPTS.get(api, CHAT)


def wants_usage(body: Payload) -> bool:
    """Whether a chat request asks for its stream's usage."""
    return part(body.get("stream_options")).get("include_usage") is True


# --- injection ---------------------------------------------------------------------------------


_REQUEST_LIMIT = 64 * 1024 * 1024
_JSON = ("content-type", "application/json")
_SSE = ("content-type", "text/event-stream; charset=utf-8")


class FaultInjector:
    """Answers one call as a provider in trouble would.

    Arguments:
        fault: which trouble.
        method: of the request, upper case.
        path: raw, after the upstream, without the query.
        query: raw.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        fault: Fault,
        *,
        method: str,
        path: bytes,
        query: bytes = b"",
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._fault = fault
        self._sleep = sleep
        self._route = routes.route(method, path)
        self._framed = not self._route.api.startswith("gemini") or b"alt=sse" in query

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        """Read the request to its end, then fail.

        Raises:
            errors.ReadTimeout: a hang or a delay outlasted the read timeout of the call.
            errors.ReadError: the fault is a connection that is reset.
        """
        body = request.body
        if not isinstance(body, bytes):
            body = b"".join([part async for part in body])
        fault = self._fault
        call = _FaultedCall(
            kind=fault.kind,
            script=script_for(self._route.api),
            request=self._faulted_request(_decoded(body, request.headers)),
            read_timeout_s=request.timeouts.read_s,
        )
        if fault.kind == "slow":
            await self._delay(fault.delay_s, call.read_timeout_s)
        return await _PLAYS.get(fault.kind, _refuse)(call)

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""

    async def _delay(self, delay_s: float, limit_s: float | None) -> None:
        if limit_s is not None and limit_s < delay_s:
            await self._sleep(limit_s)
            raise errors.ReadTimeout("no byte came")
        await self._sleep(delay_s)

    def _faulted_request(self, content: bytes) -> FaultedRequest:
        body = _parsed(content)
        named = self._route.model or body.get("model")
        return FaultedRequest(
            model=named if isinstance(named, str) else "unknown",
            streamed=self._route.streams or body.get("stream") is True,
            usage=wants_usage(body),
            framed=self._framed,
            size=len(content),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _FaultedCall:
    """One call to be failed: its fault, its dialect's script, and what it asks for.

    ``read_timeout_s``: how long the call waits for a byte; None is for ever.
    """

    kind: FaultKind
    script: ErrorScript
    request: FaultedRequest
    read_timeout_s: float | None

    @property
    def failure(self) -> ErrorAnswer:
        return self.script.errors(self.request.model)[self.kind]

    def body(self, status: int, payload: object, headers: Mapping[str, str]) -> UpstreamResponse:
        """Return a complete JSON answer."""
        content = json.dumps(payload).encode()
        stated = {"content-length": str(len(content)), **headers}
        return self._response(status, _JSON, stated, _Events([content]))

    def half(self, payload: object) -> UpstreamResponse:
        """Return a JSON answer that is truncated below its content-length."""
        content = json.dumps(payload).encode()
        events = _Events([content[: len(content) // 2]], cut=True)
        return self._response(200, _JSON, {"content-length": str(len(content))}, events)

    def events(self, events: Sequence[bytes], *, cut: bool = False) -> UpstreamResponse:
        """Return a stream, complete or truncated."""
        kind = _SSE if self.request.framed else _JSON
        return self._response(200, kind, {}, _Events(events, cut=cut))

    def _response(
        self,
        status: int,
        content_type: tuple[str, str],
        headers: Mapping[str, str],
        body: _Events,
    ) -> UpstreamResponse:
        named = [content_type, *headers.items()]
        pairs = [(name.encode("ascii"), value.encode("ascii")) for name, value in named]
        pairs.append((INJECTED_HEADER, self.kind.encode("ascii")))
        return UpstreamResponse(status, pairs, body)


class _Events:
    """Pieces of a body; ``cut`` breaks the connection after the last."""

    def __init__(self, pieces: Sequence[bytes], *, cut: bool = False) -> None:
        self._pieces, self._cut = pieces, cut

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
            await asyncio.sleep(0)  # each is a write of its own, as it would be
        if self._cut:
            raise errors.RemoteProtocolError("peer closed connection before the body's end")

    def through(self, pass_on: Callable[[bytes], bool]) -> None:
        """Do nothing: every part is read by iteration."""

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""


async def _refuse(call: _FaultedCall) -> UpstreamResponse:
    failure = call.failure
    return call.body(failure.status, failure.body, failure.headers)


async def _break(call: _FaultedCall) -> UpstreamResponse:
    """Return an error inside a 200, after the first words if the request streams."""
    if not call.request.streamed:
        return await _refuse(call)
    return call.events([*call.script.begun(call.request), call.script.breaking(call.request)])


async def _truncate(call: _FaultedCall) -> UpstreamResponse:
    if call.request.streamed:
        return call.events(call.script.begun(call.request), cut=True)
    return call.half(call.script.whole(call.request, Reply(words=WORDS)))


async def _say_nothing(call: _FaultedCall) -> UpstreamResponse:
    """Return a complete, valid answer without content."""
    return _say(call, SILENT)


async def _spoil(call: _FaultedCall) -> UpstreamResponse:
    """Return a complete, valid answer by which the measurement is spoilt."""
    request, reply = SPOILT[call.kind](call.request)
    return _say(replace(call, request=request), reply)


def _say(call: _FaultedCall, reply: Reply) -> UpstreamResponse:
    if call.request.streamed:
        return call.events(call.script.stream(call.request, reply))
    return call.body(200, call.script.whole(call.request, reply), {})


async def _hang(call: _FaultedCall) -> NoReturn:
    limit = call.read_timeout_s
    try:
        async with asyncio.timeout(limit):
            await asyncio.Event().wait()
    except TimeoutError:
        raise errors.ReadTimeout("no byte came") from None
    raise AssertionError("an event that nobody sets was set")


async def _reset(_stage: _FaultedCall) -> NoReturn:
    raise errors.ReadError("connection reset by peer")


_PLAYS: Mapping[FaultKind, Callable[[_FaultedCall], Awaitable[UpstreamResponse]]] = {
    "stream_error": _break,
    "truncation": _truncate,
    "empty": _say_nothing,
    "hang": _hang,
    "reset": _reset,
    **dict.fromkeys(SPOILT, _spoil),
}


def _decoded(body: bytes, headers: dress.Pairs) -> bytes:
    encodings = [value for name, value in headers if name.lower() == b"content-encoding"]
    try:
        undo = decoder(encodings, _REQUEST_LIMIT)
        return undo.feed(body) if undo else body
    except Unreadable:
        return b""


def _parsed(content: bytes) -> Payload:
    try:
        payload = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    return payload if isinstance(payload, dict) else {}


def resetting(agent: AgentConnection, send: Send) -> Send:
    """Send with this in a call whose fault is ``reset``: the agent's connection is reset instead.

    Where the server cannot do that, the agent gets the refusal that a provider's reset becomes.
    """

    async def reset(message: Message) -> None:
        agent.reset()
        await send(message)  # goes nowhere, and tells the server that there was a response

    return reset
