"""Moves bytes between an agent and a provider, unchanged, and says how each call ended.

It judges nothing, stores nothing and knows no database: it hands each finished exchange
to the recorder, and only then lets the agent have its last byte.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING

from classifier.records import Cause, Ending, Exchange
from classifier.verdicts import Subcategory
from proxy.capture import usage_injection
from proxy.capture.call import Call
from proxy.capture.observer import CallObserver
from proxy.inbound.asgi import Message, Receive, Scope, Send
from proxy.inbound.request_cycle import RequestCycle
from proxy.outbound import errors
from proxy.outbound.transport import UpstreamRequest, UpstreamResponse
from proxy.relay.context import AgentLeft, BodyTooLarge, CallLimits, RelayContext
from proxy.routing import headers as dress
from proxy.routing.errors import Refusal, problem
from proxy.routing.target import Target
from proxy.wire.unreadable import Unreadable
from proxy.wire.usage_request import with_usage

if TYPE_CHECKING:
    pass


_NO_BODY = frozenset({204, 304})
_STATUSES = range(200, 600)

# Refused for want of the service's own credentials: no byte was sent, and the rollout did not
# reach its model. The first only an operator can mend.
_WITHOUT_CREDENTIALS = {
    code: Cause(subcategory=subcategory, transient=transient, rule=f"proxy.{code}", code=code)
    for code, subcategory, transient in (
        ("upstream_credentials_missing", Subcategory.AUTH, False),
        ("upstream_credentials_unavailable", Subcategory.PROVIDER_ERROR, True),
    )
}


class ProxiedCall:
    """One call under way: the state that its steps share."""

    _enough: asyncio.TimerHandle | None = None  # of reading on without the agent
    _opened: asyncio.Future[None] | None = None
    _asked = False  # the usage was asked for, and the agent had not
    _blame: Cause | None = None  # why nothing was sent
    _left = False  # the agent hung up
    _arriving = False  # the request's body, still
    _as_left: Exchange | None = None  # as it stood then, where it is read on
    _drain_to = 0  # up to so many bytes
    _body_over = False  # the request outgrew its limit on the way
    _started = False  # the agent has the answer's head
    _received = 0  # bytes of the answer's body
    _length: int | None = None  # as its head states
    _fed = 0  # bytes of the next chunk that were heard already
    _ends = False  # the answer, with them
    _whole: Message | None = None  # an answer that goes out in one write
    _committed: asyncio.Future[None] | None = None
    _committed_bytes = -1

    def __init__(
        self,
        context: RelayContext,
        target: Target,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        injected: bool = False,
    ) -> None:
        self._context = context
        self._target = target
        self._scope = scope
        self._answering: RequestCycle = scope["answering"]
        self._receive = receive
        self._send = send
        self._call = _call(context, target, scope, injected=injected)
        self._observer = CallObserver(self._call, salt=context.salt, stall_s=context.stall_s)
        self._task = asyncio.current_task()

    async def run(self) -> None:
        """Carry the request up and the answer down; whatever happens, one ending is recorded."""
        ending = Ending.LOST  # what a call is when the server stops under it
        refusal: Refusal | None = None
        try:
            ending, refusal = await self._carry()
        except asyncio.CancelledError:
            if not self._left:
                raise
            ending = Ending.LEFT_BY_AGENT
            if self._task is not None:
                self._task.uncancel()
        finally:
            self._stop_watching()
            self._record(ending)
        await self._durable()
        await self._close(ending, refusal)

    async def _carry(self) -> tuple[Ending, Refusal | None]:
        try:
            # No name for the request: a stream's would be in memory as long as the stream lasts.
            response = await self._context.transport.send(await self._request())
            try:
                return await self._answer(response)
            finally:
                await response.aclose()
        except errors.UnreachableError as error:
            return Ending.NEVER_CONNECTED, self._unreachable(502, "upstream_unreachable", error)
        except errors.UpstreamTimeout as error:
            return Ending.TIMED_OUT, self._unreachable(504, "upstream_timeout", error)
        except errors.UpstreamError as error:
            if self._body_over:
                return Ending.LEFT_BY_AGENT, body_too_large(self._context.limits)
            if self._left:
                return Ending.LEFT_BY_AGENT, None
            return Ending.CUT_UPSTREAM, self._unreachable(502, "upstream_disconnected", error)
        except Refusal as refusal:
            self._blame = _WITHOUT_CREDENTIALS.get(refusal.code)
            return Ending.NEVER_CONNECTED, self._named(refusal)
        except AgentLeft:
            return Ending.LEFT_BY_AGENT, None
        except BodyTooLarge:
            return Ending.LEFT_BY_AGENT, body_too_large(self._context.limits)

    # the way up

    async def _request(self) -> UpstreamRequest:
        target, context, method = self._target, self._context, self._scope["method"]
        upstream, forwarded = target.upstream, target.forwarded
        headers = dress.for_upstream(
            self._scope["headers"],
            host=upstream.host,
            auth=upstream.auth,
            real_key=context.real_keys.get(upstream.name),
        )
        signer = context.signers.get(upstream.auth)
        if signer is not None and dress.shows_key(headers):
            signer = None
        body, more = await self._body_part()
        asks = (more or self._observer.asked_to_stream()) and usage_injection.may_inject(
            upstream, method, target.path, headers
        )
        self._arriving = more
        self._opened = context.recorder.opened(self._call.id, self._observer.opened)
        if more and (asks or (signer is not None and signer.whole_body)):
            body, more = await self._all_of_body(body), False
        elif not more:
            self._watch()
        if asks and self._observer.asked_to_stream() and (asked := with_usage(body)) is not None:
            self._asked = True
            body, headers = asked, dress.with_length(headers, len(asked))
        if signer is not None:
            headers = await signer.sign(
                upstream=upstream, method=method, target=forwarded, headers=headers, body=body
            )
        return UpstreamRequest(
            method,
            upstream.origin,
            forwarded,
            headers,
            _UploadStream(self, body) if more else body,
            context.limits.timeouts,
        )

    async def _body_part(self) -> tuple[bytes, bool]:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._left = True
            raise AgentLeft
        body: bytes = message.get("body", b"")
        if body:
            self._observer.on_request_body(body)
        return body, message.get("more_body", False)

    async def next_part(self, before: int) -> bytes | None:
        """The next part of a body that is still arriving; None after its last.

        Arguments:
            before: bytes of it that came before this part.
        """
        while self._arriving:
            try:
                part, self._arriving = await self._body_part()
            except asyncio.CancelledError:
                self._watch()  # the provider answered already; the agent may still leave
                raise
            if before + len(part) > self._context.limits.body_bytes:
                self._body_over = True
                raise BodyTooLarge
            if part:
                return part
        self._watch()
        return None

    async def _all_of_body(self, first: bytes) -> bytes:
        parts, size = [first], len(first)
        while (part := await self.next_part(size)) is not None:
            parts.append(part)
            size += len(part)
        return b"".join(parts)

    # the way down

    async def _answer(self, response: UpstreamResponse) -> tuple[Ending, Refusal | None]:
        status = response.status
        if status not in _STATUSES:
            return Ending.CUT_UPSTREAM, self._refusal(
                502, "upstream_disconnected", f"the upstream answered with status {status}"
            )
        headers = dress.for_agent(response.headers, self._call.id)
        self._observer.on_response_head(status, headers, self._context.clock())
        bodiless = self._scope["method"] == "HEAD" or status in _NO_BODY
        unasked = self._unasked(status, headers) if self._asked else None
        whole = response.whole
        if whole and not bodiless and unasked is None:
            return self._answer_at_once(status, headers, whole)
        length = None if bodiless else _length(headers)
        if bodiless or length == 0:  # the head is all the agent waits for
            self._record(Ending.COMPLETE)
            await self._durable()
        elif self._opened is not None and not self._opened.done():
            self._context.recorder.hurry()
            await self._opened
        if status in _NO_BODY:
            headers = [pair for pair in headers if pair[0] != b"content-length"]
        if unasked is not None:
            headers = unasked.headers
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        self._started = True
        if unasked is None:
            await self._body(response, length)
        else:
            await self._unasked_body(response, length, unasked)
        return Ending.COMPLETE, None

    def _answer_at_once(
        self, status: int, headers: dress.Pairs, whole: bytes
    ) -> tuple[Ending, Refusal | None]:
        """An answer that is all here: it is recorded, then sent whole, as one write."""
        self._observer.on_response_body(whole, self._context.clock())
        self._received = len(whole)
        self._whole = {
            "type": "http.response.start", "status": status, "headers": headers, "whole": whole,
        }  # fmt: skip
        return Ending.COMPLETE, None

    async def _body(self, response: UpstreamResponse, length: int | None) -> None:
        body, self._length = response.body, length
        body.through(self._pass_on)
        async for chunk in body:
            fed, ends = self._fed, self._ends
            self._fed, self._ends = 0, False
            if fed < len(chunk):
                ends = self._hear(chunk[fed:]) or ends
            if ends:
                self._record(Ending.COMPLETE)
                await self._durable()
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    def _pass_on(self, chunk: bytes) -> bool:
        """Hand a chunk on as it comes, without a turn of the loop; False where it has to wait,
        for room or for its record."""
        self._ends = self._hear(chunk)
        if self._ends or not self._answering.pass_on(chunk):
            self._fed = len(chunk)
            return False
        return True

    def _hear(self, chunk: bytes) -> bool:
        """Count a chunk; whether it is the answer's last."""
        self._received += len(chunk)
        return (
            self._observer.on_response_body(chunk, self._context.clock())
            or self._received == self._length
        )

    def _unasked(self, status: int, headers: dress.Pairs) -> usage_injection.UsageStripper | None:
        """How to give the agent its own answer, where more was asked for than it did."""
        if usage_injection.is_plain(status, headers):
            return None
        try:
            return usage_injection.UsageStripper(headers)
        except (
            Unreadable
        ):  # in an encoding that nobody offered: what the agent makes of it is its own
            return None

    async def _unasked_body(
        self, response: UpstreamResponse, length: int | None, unasked: usage_injection.UsageStripper
    ) -> None:
        try:
            async for chunk in response.body:
                terminal = self._observer.on_response_body(chunk, self._context.clock())
                self._received += len(chunk)
                if terminal or self._received == length:
                    self._record(Ending.COMPLETE)
                    await self._durable()
                for part in unasked.feed(chunk):
                    await self._send_part(part)
        except Unreadable as error:
            raise errors.DecodingError(str(error)) from error
        except errors.UpstreamError:
            await self._send_part(unasked.flush())
            raise
        self._record(Ending.COMPLETE)
        await self._durable()
        await self._send_part(unasked.flush())

    async def _send_part(self, part: bytes) -> None:
        if part:
            await self._send({"type": "http.response.body", "body": part, "more_body": True})

    # the end

    def _record(self, ending: Ending) -> None:
        """Hand over the exchange once, and again only where more bytes came after that."""
        if self._committed_bytes == self._received:
            return
        self._committed_bytes = self._received
        exchange = self._observer.finish(ending, self._context.clock())
        if self._blame is not None:
            exchange = replace(exchange, cause=self._blame)
        if self._as_left is not None:
            exchange = _read_on(self._as_left, exchange)
        self._committed = self._context.recorder.recorded(exchange)

    async def _durable(self) -> None:
        if self._committed is not None and not self._committed.done():
            await self._committed

    async def _close(self, ending: Ending, refusal: Refusal | None) -> None:
        if self._left:
            return
        if refusal is not None and not self._started:
            await send_refusal(refusal, self._send)
        elif ending is Ending.COMPLETE:
            last = {"type": "http.response.body", "body": b"", "more_body": False}
            await self._send(self._whole or last)
        # else: returning without the last message makes the server cut the agent's
        # connection too, as the provider's was

    def _unreachable(self, status: int, code: str, error: Exception) -> Refusal:
        name = self._target.upstream.name
        return self._refusal(status, code, f"no answer from upstream {name!r}: {error}")

    def _refusal(self, status: int, code: str, detail: str) -> Refusal:
        return self._named(Refusal(status, code, detail))

    def _named(self, refusal: Refusal) -> Refusal:
        """The refusal with the name of the exchange that it ended."""
        name = (b"x-truezero-exchange", self._call.id.encode())
        return replace(refusal, headers=(*refusal.headers, name))

    # is the agent still there?

    def _watch(self) -> None:
        self._answering.watch(self._agent_left)

    def _agent_left(self) -> None:
        self._left = True
        if self._task is not None and not self._drains():
            self._task.cancel()

    def _drains(self) -> bool:
        """Read on without the agent, where that is wanted and anything is still to come."""
        limits = self._context.limits
        if not limits.drain_s or self._task is None:
            return False
        as_left = self._observer.finish(Ending.LEFT_BY_AGENT, self._context.clock())
        if as_left.ending is Ending.COMPLETE:
            return False
        self._as_left = as_left
        self._drain_to = self._received + limits.drain_bytes
        self._send = self._to_nobody
        loop = asyncio.get_running_loop()
        self._enough = loop.call_later(limits.drain_s, self._task.cancel)
        return True

    async def _to_nobody(self, _message: Message) -> None:
        told = self._committed_bytes == self._received  # by its terminal event
        if told or self._received > self._drain_to:
            raise AgentLeft

    def _stop_watching(self) -> None:
        self._answering.watch(None)
        if self._enough is not None:
            self._enough.cancel()


def _read_on(as_left: Exchange, exchange: Exchange) -> Exchange:
    """What was understood after the agent left, of a call that ended for it when it did."""
    timing = replace(exchange.timing, duration_s=as_left.timing.duration_s)
    return replace(exchange, ending=as_left.ending, cause=as_left.cause, timing=timing)


class _UploadStream:
    """A request body that is still arriving."""

    def __init__(self, flight: ProxiedCall, first: bytes) -> None:
        self._flight = flight
        self._first: bytes | None = first
        self._size = len(first)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        part, self._first = self._first, None
        if part is None:
            part = await self._flight.next_part(self._size)
            if part is None:
                raise StopAsyncIteration
            self._size += len(part)
        return part


def _call(context: RelayContext, target: Target, scope: Scope, *, injected: bool) -> Call:
    headers = scope["headers"]
    return Call(  # by position: a third of the time
        context.new_id(),
        target.rollout_id,
        target.upstream.name,
        scope["method"],
        target.path,
        context.wall(),
        context.clock(),
        headers,
        target.query,
        target.role,
        target.attribution,
        dress.key_digest(dress.shown_key(headers), context.salt),
        injected,
    )


def _length(headers: dress.Pairs) -> int | None:
    value = dress.named(headers).get(b"content-length")
    return int(value) if value is not None and value.isdigit() else None


def body_too_large(limits: CallLimits) -> Refusal:
    """The refusal of a request body over the limit."""
    return Refusal(
        413, "body_too_large", f"a request body has at most {limits.body_bytes} bytes here"
    )


async def send_refusal(refusal: Refusal, send: Send) -> None:
    """Answer with a refusal as problem JSON."""
    headers, body = problem(refusal)
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
