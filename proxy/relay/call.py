"""Relay one HTTP call in a task: bytes pass unchanged, and exactly one ending is recorded.

The finished exchange is recorded before the agent gets its last byte.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from enum import Enum

from classifier.records import Cause, Ending, Exchange, KeySource
from classifier.verdicts import Subcategory
from proxy.capture import usage_injection
from proxy.capture.observer import CallObserver
from proxy.capture.request import Call, HeadFacts
from proxy.capture.usage_injection import UsageStripper, with_usage
from proxy.inbound.asgi import (
    AGENT_CONNECTION,
    AgentConnection,
    Message,
    Receive,
    Scope,
    Send,
    send_refusal,
    send_response,
)
from proxy.outbound import errors
from proxy.outbound.request import ResponseBody, UpstreamRequest, UpstreamResponse
from proxy.relay.admission import rollout_ended
from proxy.relay.context import (
    AgentLeft,
    BodyTooLarge,
    CallLimits,
    RelayContext,
    failed,
    strange_status,
    with_exchange,
)
from proxy.relay.operator_access import dressed_as_operator
from proxy.routing import headers as dress
from proxy.routing.errors import Refusal
from proxy.routing.headers import Pairs
from proxy.routing.keys import KeyUse
from proxy.routing.target import Target
from proxy.wire.framing import Unreadable

# --- state and record of a call ----------------------------------------------------------------


class RelayState(Enum):
    """The states of a call; the last three are final for its agent."""

    WAITING = "no response yet; the request may still be arriving"
    RESPONDING = "the agent has the response's head"
    TOO_LARGE = "the request outgrew its limit on the way"
    DRAINING = "the agent left; the response is read on for its usage or its error"
    LEFT = "the agent left"


class CallProgress:
    """The state of one call, and its exchange: opened, observed, recorded.

    ``received``: bytes of the response's body. ``cause``: why nothing was sent, where the proxy
    knows better than the response does. ``closed``: the rollout ended while it was under way.
    """

    state = RelayState.WAITING
    closed = False
    received = 0
    cause: Cause | None = None
    _as_left: Exchange | None = None
    _opened: asyncio.Future[None] | None = None
    _committed: asyncio.Future[None] | None = None
    _committed_bytes = -1

    def __init__(self, context: RelayContext, call: Call, head: HeadFacts | None = None) -> None:
        self.observer = CallObserver(
            call,
            salt=context.salt,
            causes=context.causes,
            conversations=context.live.conversations,
            head=head,
        )
        self.clock = context.clock
        self._recorder = context.recorder

    @property
    def left(self) -> bool:
        """Whether the agent hung up."""
        return self.state is RelayState.LEFT or self.state is RelayState.DRAINING

    @property
    def recorded(self) -> bool:
        """Whether all that was received is on record."""
        return self._committed_bytes == self.received

    def open(self, exchange_id: str) -> None:
        """Record that the call began."""
        self._opened = self._recorder.opened(exchange_id, self.observer.opened)

    async def opened(self) -> None:
        """Wait until that is durable."""
        if self._opened is not None and not self._opened.done():
            self._recorder.hurry()
            await self._opened

    async def caught_up(self) -> bool:
        """Wait until what came is decoded, a turn at a time; whether the stream ended with it."""
        observer, ended = self.observer, False
        while observer.behind:
            await asyncio.sleep(0)
            ended = observer.catch_up(self.clock())
        return ended

    def left_complete(self) -> bool:
        """Note what the agent had when it left; whether that was the whole response.

        The exchange ends for its agent then, however much is read of it afterwards.
        """
        as_left = self.observer.finish(Ending.LEFT_BY_AGENT, self.clock())
        if as_left.ending is Ending.COMPLETE:
            return True
        self._as_left = as_left
        return False

    def ended(self, ending: Ending) -> Exchange | None:
        """Return the exchange to be recorded; None where all that was received is on record."""
        if self._committed_bytes == self.received:
            return None
        self._committed_bytes = self.received
        exchange = self.observer.finish(ending, self.clock())
        if self.cause is not None:
            exchange = replace(exchange, cause=self.cause)
        if self._as_left is not None:
            exchange = _ended_as(self._as_left, exchange)
        return exchange

    def record(self, ending: Ending) -> None:
        """Record the exchange once, and again only where more bytes came after that."""
        exchange = self.ended(ending)
        if exchange is not None:
            self._committed = self._recorder.recorded(exchange)

    async def durable(self) -> None:
        """Wait until what was recorded is durable."""
        if self._committed is not None and not self._committed.done():
            await self._committed


def _ended_as(as_left: Exchange, exchange: Exchange) -> Exchange:
    """Combine what was read after the agent left with the ending at that moment.

    An error's body says why the call failed, however much of it the agent had.
    """
    timing = replace(exchange.timing, duration_s=as_left.timing.duration_s)
    cause = exchange.cause if (exchange.status or 0) >= 400 else as_left.cause
    return replace(exchange, ending=as_left.ending, cause=cause, timing=timing)


# --- agents that leave during a call -----------------------------------------------------------


# An error's body is short and costs nothing; it tells an empty account from a rate limit, which
# its status alone does not. Agents that raise by the status hang up before they have read it.
_ERROR_DRAIN_S = 5.0
_ERROR_DRAIN_BYTES = 64 * 1024


def agent_connection(scope: Scope, receive: Receive, send: Send) -> AgentConnection:
    """Return the server's extension if it has one, else a connection over ASGI messages."""
    extensions = scope.get("extensions")
    connection: AgentConnection | None = extensions and extensions.get(AGENT_CONNECTION)
    return connection or MessageConnection(receive, send)


def drain_limits(limits: CallLimits, *, is_error: bool) -> tuple[float, int]:
    """How much of a response is read on without its agent: seconds and bytes."""
    if limits.drain_s or not is_error:
        return limits.drain_s, limits.drain_bytes
    return _ERROR_DRAIN_S, _ERROR_DRAIN_BYTES


class MessageConnection:
    """An `AgentConnection` on a server that has only ASGI messages."""

    __slots__ = ("_receive", "_send", "_watching")

    @property
    def paused(self) -> bool:
        """Return that it may be: no message tells."""
        return True

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._watching: asyncio.Task[None] | None = None

    async def send_whole(self, status: int, headers: Pairs, body: bytes) -> None:
        """Send a complete response."""
        await send_response(self._send, status, headers, body)

    def pass_on(self, part: bytes) -> bool:  # AgentConnection's
        """Have every part awaited."""
        return False

    def watch(self, when_gone: Callable[[], None] | None) -> None:
        """Receive in a task until the agent is gone."""
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        if when_gone is not None:
            self._watching = asyncio.create_task(self._until_gone(when_gone))

    def reset(self) -> bool:
        """Do nothing: no message resets a connection."""
        return False

    async def _until_gone(self, when_gone: Callable[[], None]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        when_gone()


class AgentWatch:
    """The agent of one call: cancels the call when it leaves, or lets the response be read on.

    ``send``: sends the agent a message; raises AgentLeft where enough was read without it.
    """

    _drain_to = 0  # bytes of the response, where it is read on
    _enough: asyncio.TimerHandle | None = None

    def __init__(
        self, agent: AgentConnection, send: Send, limits: CallLimits, progress: CallProgress
    ) -> None:
        self.send = send
        self._agent = agent
        self._limits = limits
        self._progress = progress
        self._task = asyncio.current_task()

    def start(self) -> None:
        """Watch from now on; the rest of the request's body is discarded."""
        self._agent.watch(self._on_left)

    def stop(self) -> None:
        """Stop watching, and reading on."""
        self._agent.watch(None)
        if self._enough is not None:
            self._enough.cancel()

    def close(self) -> None:
        """Cancel the call, because its rollout has ended; one whose agent left ends as left."""
        self._progress.closed = True
        if self._task is not None:
            self._task.cancel()

    def caught(self) -> Ending | None:
        """Return how a call ended that was cancelled here, and undo that; None for any other."""
        progress = self._progress
        if not (progress.left or progress.closed):
            return None
        if self._task is not None:
            self._task.uncancel()
        return Ending.LEFT_BY_AGENT if progress.left else Ending.CLOSED_AT_OUTCOME

    def _on_left(self) -> None:
        task, progress = self._task, self._progress
        seconds, size = drain_limits(self._limits, is_error=progress.observer.is_error)
        if task is None:
            progress.state = RelayState.LEFT
        elif seconds and not progress.left_complete():
            progress.state = RelayState.DRAINING
            self._drain_to = progress.received + size
            self.send = self._send_nowhere
            self._enough = asyncio.get_running_loop().call_later(seconds, task.cancel)
        else:
            progress.state = RelayState.LEFT
            task.cancel()

    async def _send_nowhere(self, _message: Message) -> None:
        if self._progress.recorded or self._progress.received > self._drain_to:
            raise AgentLeft


# --- request body ------------------------------------------------------------------------------


class Upload:
    """A request's body as it arrives; once its last part is here the agent is watched.

    ``arriving``: its last part is not here yet.

    Arguments:
        limit: of its size, in bytes.
    """

    arriving = True
    _parted = False  # it came in more than one part
    _size = 0
    _first = b""  # received, but not handed on

    def __init__(
        self, receive: Receive, progress: CallProgress, watch: AgentWatch, limit: int
    ) -> None:
        self._receive = receive
        self._progress = progress
        self._watch = watch
        self._limit = limit

    async def receive(self) -> bytes:
        """Receive the next part, of which the first mostly is the whole body.

        Raises:
            AgentLeft: nothing more will come.
            BodyTooLarge: the body is over its limit.
        """
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._progress.observer.hold()
            self._progress.state = RelayState.LEFT
            raise AgentLeft
        part: bytes = message.get("body", b"")
        if part:
            self._progress.observer.on_request_body(part)
            self._size += len(part)
            if self._size > self._limit:
                self._progress.state = RelayState.TOO_LARGE
                raise BodyTooLarge
        if message.get("more_body", False):
            self._parted = True
            self._progress.observer.hold()
            return part
        self.arriving = False
        if self._parted:
            self._progress.observer.await_provider(self._progress.clock())
        self._watch.start()
        return part

    async def whole(self, first: bytes) -> bytes:
        """Receive all of the body behind its first part; raises as `receive` does."""
        return b"".join([part async for part in self.after(first)])

    def after(self, first: bytes) -> Upload:
        """Return the body part by part, beginning with what was received of it."""
        self._first = first
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        part, self._first = self._first, b""
        while not part:
            if not self.arriving:
                raise StopAsyncIteration
            try:
                part = await self.receive()
            except asyncio.CancelledError:
                self._watch.start()  # the provider answered already; the agent may still leave
                raise
        return part


# --- response body -----------------------------------------------------------------------------
# The last byte leaves when the call is recorded.


class Download:
    """Passes a response's body on, chunk by chunk, and observes each chunk once.

    Most chunks are passed on in the callback that brings them, without a turn of the event loop.
    One that has to wait, for its record or for room, is observed there too, and comes again as the
    beginning of the next chunk that is read.

    Arguments:
        length: of the body as its head states, in bytes; None where it does not.
    """

    __slots__ = ("_agent", "_length", "_observed", "_progress", "_terminal", "_watch")

    def __init__(
        self, agent: AgentConnection, watch: AgentWatch, progress: CallProgress, length: int | None
    ) -> None:
        self._agent = agent
        self._watch = watch
        self._progress = progress
        self._length = length
        self._observed = 0  # bytes of the next chunk that were observed in the callback
        self._terminal = False  # what was observed last completes the response

    async def relay(self, body: ResponseBody) -> None:
        """Pass the body on unchanged."""
        body.through(self._pass_on)
        async for chunk in body:
            observed, self._observed = self._observed, 0
            if observed < len(chunk):
                self._observe(chunk[observed:])
            await self._record_terminal()
            await self._send(chunk)

    async def relay_without_usage(self, body: ResponseBody, stripper: UsageStripper) -> None:
        """Pass the body on without the usage that only the proxy asked for.

        Raises:
            errors.DecodingError: its encoding is broken.
        """
        try:
            async for chunk in body:
                self._observe(chunk)
                await self._record_terminal()
                for part in stripper.feed(chunk):
                    await self._send(part)
                    if stripper.decodes:  # others have their turn between two parts
                        await asyncio.sleep(0)
        except Unreadable as error:
            raise errors.DecodingError(str(error)) from error
        except errors.UpstreamError:
            await self._send(stripper.flush())
            raise
        self._progress.record(Ending.COMPLETE)
        await self._progress.durable()
        await self._send(stripper.flush())

    def _pass_on(self, chunk: bytes) -> bool:
        """Pass a chunk on as it arrives; False where it has to wait."""
        if self._observe(chunk) or not self._agent.pass_on(chunk):
            self._observed = len(chunk)
            return False
        return True

    def _observe(self, chunk: bytes) -> bool:
        progress = self._progress
        progress.received += len(chunk)
        if (
            progress.observer.on_response_body(chunk, progress.clock())
            or progress.received == self._length
        ):
            self._terminal = True
            return True
        return False

    async def _record_terminal(self) -> None:
        if self._terminal:
            self._terminal = False
            progress = self._progress
            if progress.observer.behind:
                ended = await progress.caught_up()
                if not ended and progress.received != self._length:
                    return
            progress.record(Ending.COMPLETE)
            await progress.durable()

    async def _send(self, part: bytes) -> None:
        if not part:
            return
        message = {"type": "http.response.body", "body": part, "more_body": True}
        if not self._agent.paused:
            await self._watch.send(message)
            return
        progress = self._progress
        progress.observer.hold()
        await self._watch.send(message)
        progress.observer.await_provider(progress.clock())


# --- the call ----------------------------------------------------------------------------------


NO_BODY = frozenset({204, 304})
STATUSES = range(200, 600)
_Whole = tuple[int, dress.Pairs, bytes]  # status, headers and body of a complete response

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
    """One call in flight, from the request's first part to the response's last.

    Its states are `RelayState`; what it consists of: `Upload`, `Download`, `AgentWatch`.
    """

    _usage_added = False  # the usage was asked for, and the agent had not
    _whole: _Whole | None = None  # a response that is sent in one write

    def __init__(
        self,
        context: RelayContext,
        target: Target,
        scope: Scope,
        receive: Receive,
        send: Send,
        agent: AgentConnection,
        *,
        injected: bool = False,
    ) -> None:
        self._context = context
        self._target = target
        self._scope = scope
        self._receive = receive
        self._agent = agent
        self._call = _call(context, target, scope, injected=injected)
        self._progress = CallProgress(context, self._call)
        self._watch = AgentWatch(agent, send, context.limits, self._progress)

    async def run(self) -> None:
        """Carry the request up and the response down; whatever happens, one ending is recorded."""
        ending = Ending.LOST  # what a call is when the server stops under it
        refusal: Refusal | None = None
        try:
            ending, refusal = await self._carry()
        except asyncio.CancelledError:
            caught = self._watch.caught()
            if caught is None:
                raise
            ending = caught
            if ending is Ending.CLOSED_AT_OUTCOME:
                refusal = with_exchange(rollout_ended(), self._call.id)
        finally:
            self._watch.stop()
            self._progress.record(ending)
        try:
            await self._progress.durable()
            await self._close(ending, refusal)
        except asyncio.CancelledError:  # its agent does not take what is left of the answer
            if self._watch.caught() is None:
                raise

    def close(self) -> None:
        """End the call, because its rollout has ended."""
        self._watch.close()

    async def _carry(self) -> tuple[Ending, Refusal | None]:
        try:
            # No name for the request: a stream's would be in memory as long as the stream lasts.
            response = await self._context.transport.send(await self._request())
            try:
                return await self._answer(response)
            finally:
                await response.aclose()
        except errors.UpstreamError as error:
            ending, told = failed(error, self._target.upstream.name, self._call.id)
            if ending is not Ending.CUT_UPSTREAM:
                return ending, told
            if self._progress.state is RelayState.TOO_LARGE:
                return Ending.LEFT_BY_AGENT, body_too_large(self._context.limits)
            if self._progress.left:
                return Ending.LEFT_BY_AGENT, None
            return ending, told
        except Refusal as refusal:
            self._progress.cause = _WITHOUT_CREDENTIALS.get(refusal.code)
            return Ending.NEVER_CONNECTED, with_exchange(refusal, self._call.id)
        except AgentLeft:
            return Ending.LEFT_BY_AGENT, None
        except BodyTooLarge:
            return Ending.LEFT_BY_AGENT, body_too_large(self._context.limits)

    # the way up

    async def _request(self) -> UpstreamRequest:
        target, context, method = self._target, self._context, self._scope["method"]
        upstream, forwarded, observer = target.upstream, target.forwarded, self._progress.observer
        headers, signer = self._scope["headers"], None
        if target.keys is KeyUse.OPERATORS:
            headers, signer = dressed_as_operator(context, target, headers)
        else:
            headers = dress.for_upstream(
                headers, host=upstream.host, auth=upstream.auth, real_key=None
            )
        upload = Upload(self._receive, self._progress, self._watch, context.limits.body_bytes)
        body = await upload.receive()
        adds_usage = (upload.arriving or observer.asked_to_stream()) and usage_injection.may_inject(
            upstream, method, target.path, headers
        )
        self._progress.open(self._call.id)
        if upload.arriving and (adds_usage or (signer is not None and signer.whole_body)):
            body = await upload.whole(body)
        if adds_usage and observer.asked_to_stream() and (new_body := with_usage(body)) is not None:
            self._usage_added = True
            body, headers = new_body, dress.with_length(headers, len(new_body))
        if signer is not None:
            headers = await signer.sign(
                upstream=upstream, method=method, target=forwarded, headers=headers, body=body
            )
        return UpstreamRequest(
            method,
            upstream.origin,
            forwarded,
            headers,
            upload.after(body) if upload.arriving else body,
            context.limits.timeouts,
        )

    # the way down

    async def _answer(self, response: UpstreamResponse) -> tuple[Ending, Refusal | None]:
        progress, status = self._progress, response.status
        if status not in STATUSES:
            return Ending.CUT_UPSTREAM, strange_status(status, self._call.id)
        headers = dress.for_agent(response.headers, self._call.id)
        if self._call.injected:  # then it is ours, and no provider's
            headers += [pair for pair in response.headers if pair[0] == dress.INJECTED_HEADER]
        progress.observer.on_response_head(status, headers, progress.clock())
        bodiless = self._scope["method"] == "HEAD" or status in NO_BODY
        stripper = _usage_stripper(status, headers) if self._usage_added else None
        whole = response.whole
        if whole and not bodiless and stripper is None:
            progress.observer.on_response_body(whole, progress.clock())
            progress.received = len(whole)
            if progress.observer.behind:
                await progress.caught_up()
            self._whole = (status, headers, whole)  # sent when it is recorded
            return Ending.COMPLETE, None
        length = None if bodiless else stated_length(headers)
        if bodiless or length == 0:  # the head is all the agent waits for
            progress.record(Ending.COMPLETE)
            await progress.durable()
        else:
            await progress.opened()
        if status in NO_BODY:
            headers = [pair for pair in headers if pair[0] != b"content-length"]
        if stripper is not None:
            headers = stripper.headers
        await self._begin(status, headers)
        download = Download(self._agent, self._watch, progress, length)
        if stripper is None:
            await download.relay(response.body)
        else:
            await download.relay_without_usage(response.body, stripper)
        return Ending.COMPLETE, None

    async def _begin(self, status: int, headers: dress.Pairs) -> None:
        start = {"type": "http.response.start", "status": status, "headers": headers}
        await self._watch.send(start)
        if self._progress.state is RelayState.WAITING:
            self._progress.state = RelayState.RESPONDING

    # the end

    async def _close(self, ending: Ending, refusal: Refusal | None) -> None:
        state, send = self._progress.state, self._watch.send
        if state is RelayState.LEFT or state is RelayState.DRAINING:
            return
        if refusal is not None and state is not RelayState.RESPONDING:
            self._context.notices.refusals.note(refusal.code)
            await send_refusal(refusal, send)
        elif ending is Ending.COMPLETE:
            if self._whole is not None:
                await self._agent.send_whole(*self._whole)
            else:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        # else: returning without the last message makes the server cut the agent's
        # connection too, as the provider's was


def shown_key(
    context: RelayContext, target: Target, headers: dress.Pairs
) -> tuple[str | None, KeySource | None]:
    """Return the digest of the key that a call takes to its provider, and whose that is."""
    if target.keys is KeyUse.OPERATORS:
        key: bytes | None = context.operator_keys.identity(target.upstream)
        replaced = context.operator_keys.replace
        source = KeySource.OPERATOR if replaced else KeySource.ADDED
    else:
        key = dress.shown_key(headers)
        own = target.upstream.name not in context.operator_keys.static
        source = KeySource.AGENT if own else KeySource.OVERRIDE
    return dress.key_digest(key, context.salt), None if key is None else source


def _call(context: RelayContext, target: Target, scope: Scope, *, injected: bool) -> Call:
    digest, source = shown_key(context, target, scope["headers"])
    return Call(  # by position: a third of the time
        context.new_id(),
        target.rollout_id,
        target.upstream.name,
        scope["method"],
        target.path,
        context.wall(),
        context.clock(),
        scope["headers"],
        target.query,
        target.role,
        target.attribution,
        digest,
        injected,
        source,
        scope.get("client"),
    )


def _usage_stripper(status: int, headers: dress.Pairs) -> usage_injection.UsageStripper | None:
    """Return the stripper of usage that the agent did not ask for."""
    if usage_injection.is_plain(status, headers):
        return None
    try:
        return usage_injection.UsageStripper(headers)
    except Unreadable:  # an encoding that nobody offered: the agent may know what to make of it
        return None


def stated_length(headers: dress.Pairs) -> int | None:
    """Return the body's length as its head states it, in bytes."""
    value = dress.named(headers).get(b"content-length")
    return int(value) if value is not None and value.isdigit() else None


def body_too_large(limits: CallLimits) -> Refusal:
    """Refuse a request body over the limit."""
    return Refusal(
        413, "body_too_large", f"a request body has at most {limits.body_bytes} bytes here"
    )
