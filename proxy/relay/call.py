"""One relayed HTTP call: bytes pass unchanged, and exactly one ending is recorded.

The provider's connection and the agent's call a `RelayedCall` with what arrives, and it passes that
on in the same callback. A task runs only for what has to be waited for: to connect, to sign. The
finished exchange is recorded before the agent gets its last byte.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from classifier.records import Cause, Ending, Exchange, KeySource
from classifier.verdicts import Subcategory
from proxy.capture import usage_injection
from proxy.capture.observer import CallObserver
from proxy.capture.request import Call, HeadFacts
from proxy.capture.usage_injection import UsageStripper, with_usage
from proxy.inbound.http import RequestCycle
from proxy.outbound import errors
from proxy.outbound.connection import Origin, ResponseHandler
from proxy.outbound.request import SerializedRequest, UpstreamRequest
from proxy.relay.admission import StandIn
from proxy.relay.context import (
    CallLimits,
    RelayContext,
    Signer,
    failed,
    invalid_status,
    with_exchange,
)
from proxy.relay.hold import Hold
from proxy.routing import headers as http_headers
from proxy.routing import refusals
from proxy.routing.errors import Refusal, agents_problem
from proxy.routing.target import Target, own_location
from proxy.wire import routes
from proxy.wire.dialect import Payload
from proxy.wire.framing import Unreadable

log = logging.getLogger("truezero")

_LOOKS = 20  # for silence, in the time that it may last
NO_BODY = frozenset({204, 304})
STATUSES = range(200, 600)

# An error's body is short and costs nothing; it tells an empty account from a rate limit, which
# its status alone does not. Agents that raise by the status hang up before they have read it.
_ERROR_DRAIN_S = 5.0
_ERROR_DRAIN_BYTES = 64 * 1024

# Refused for want of the service's own credentials: no byte was sent, and the rollout did not
# reach its model. The first only an operator can mend.
_WITHOUT_CREDENTIALS = {
    code: Cause(subcategory=subcategory, transient=transient, rule=f"proxy.{code}", code=code)
    for code, subcategory, transient in (
        ("upstream_credentials_missing", Subcategory.AUTH, False),
        ("upstream_credentials_unavailable", Subcategory.PROVIDER_ERROR, True),
    )
}

_Line = tuple[str, str, bytes, bytes]


class RelayState(Enum):
    """The states of a call: one at a time, and each of them here. `FOLLOWING` says what comes next.

    The request, which its agent or a hold keeps from being sent; then the response, which is passed
    on or read on without its agent; then the end, which the agent sees once it is on record.
    """

    # the request
    EXPECTED = "no part of the request's body is here"
    ARRIVING = "a part of the body is here, and more will come"
    HELD = "all of it is here, and a hold has it wait"
    HELD_LEFT = "its agent left meanwhile; it ends as soon as the hold lets go of it"
    HELD_CLOSED = "its rollout ended meanwhile; likewise"
    # the response
    WAITING = "all of the request is here; the agent has nothing of the response"
    RESPONDING = "the agent has the response's head"
    DRAINING = "the agent left; the response is read on for its usage or its error"
    # the end, which waits for its commit
    ANSWERING = "the response is complete; the agent gets what is left of it"
    REFUSING = "there will be no response; the agent is told why"
    CUTTING = "the response breaks off; the agent's connection is cut"
    LEFT = "the agent left; nobody is told"
    LOSING = "the service failed or stops; the agent's connection is cut"
    ENDED = "it is on record, and no longer in flight"


_WAITING, _ANSWERING, _ENDED = RelayState.WAITING, RelayState.ANSWERING, RelayState.ENDED
_ARRIVING = (RelayState.EXPECTED, RelayState.ARRIVING)
_ENDING = (
    RelayState.ANSWERING, RelayState.REFUSING, RelayState.CUTTING, RelayState.LEFT,
    RelayState.LOSING, RelayState.ENDED,
)  # fmt: skip
_LEFT = (RelayState.HELD_LEFT, RelayState.DRAINING, RelayState.LEFT)
_COMPLETE = Ending.COMPLETE  # of every good call


FOLLOWING: Mapping[RelayState, frozenset[RelayState]] = {
    RelayState[state]: frozenset(RelayState[each] for each in after.split())
    for state, after in {
        "EXPECTED": "ARRIVING WAITING LEFT REFUSING LOSING",
        # WAITING: the last part is here; or an early response ends the request.
        "ARRIVING": "WAITING LEFT REFUSING LOSING",
        "HELD": "WAITING HELD_LEFT HELD_CLOSED REFUSING LOSING",
        "HELD_LEFT": "LEFT LOSING",
        "HELD_CLOSED": "HELD_LEFT REFUSING LOSING",
        # HELD: the call has holds, and its request is signed if it has to be.
        "WAITING": "HELD RESPONDING DRAINING ANSWERING LEFT REFUSING LOSING",
        "RESPONDING": "DRAINING ANSWERING CUTTING LEFT LOSING",
        # HELD_LEFT: its agent left while the request was signed; its rollout ended while it waited.
        "DRAINING": "HELD_LEFT ANSWERING LEFT LOSING",
        "ANSWERING": "ENDED LOSING",
        "REFUSING": "ENDED LOSING",
        "CUTTING": "ENDED LOSING",
        "LEFT": "ENDED LOSING",
        "LOSING": "ENDED",
        "ENDED": "",
    }.items()
}
"""The states that may follow each state."""


@dataclass(slots=True)
class PlannedHead:
    """The plan that follows from the head of a request, shared by calls that send the same one.

    ``line``: method, path and query. ``before`` and ``after``: its headers around the length of
    the body, ``head`` and ``rest`` the same of the request as it is sent. ``before`` is None if the
    head cannot be sent unchanged with another length, so that the plan serves one call only.
    ``headers``: as they are sent. ``signer``: adds a credential to them. ``may_ask``: usage may
    have to be asked for, as far as the head says. ``holds``: have such calls wait. ``noted``: the
    model that one of them named last, whose way needs not be noted again.
    """

    line: _Line
    before: http_headers.Pairs | None
    after: http_headers.Pairs
    head: bytes
    rest: bytes
    target: Target
    headers: http_headers.Pairs
    signer: Signer | None
    may_ask: bool
    facts: HeadFacts
    key_digest: str | None
    key_source: KeySource | None
    origin: Origin
    holds: tuple[Hold, ...] = ()
    noted: str | None = ""  # no model has this name


class RelayedCall(ResponseHandler):
    """One call in flight, from the request's first part to what ends it.

    Its states are `RelayState`. Whatever ends it calls `_complete` or `_end`, once: the exchange is
    recorded, and when that is durable the agent gets what is left of the response, a refusal, or a
    connection that is cut.

    ``received``: bytes of the response's body.

    Arguments:
        request: its agent's, and the response to it.
        tasks: what the server cancels when its grace is over; the call is among it until it ends.
        origin: answers it.
        stand_in: the same, where it answers in the provider's place.
    """

    state = RelayState.WAITING
    received = 0
    # the request
    _size = 0
    _collected: list[bytes] | None = None  # of a body that is sent when all of it is here
    _signing: asyncio.Task[None] | None = None
    _usage_added = False  # the usage was asked for, and the agent had not
    _unwritable = False  # its provider does not read it at the moment
    _stalled: asyncio.TimerHandle | None = None  # ends it where that lasts too long
    # the response
    _head: http_headers.Pairs
    _whole = b""  # of a response that came at once: it is sent in one write
    _length: int | None = None  # of the body as the head states it
    _observed = 0  # bytes of the part that comes next that were observed already
    _drain_to = 0  # bytes of the response, where it is read on without its agent
    _stripper: UsageStripper | None = None
    _pieces: Iterator[bytes] | None = None  # of a part, without the usage; not all were passed on
    _piece = b""  # the next of them
    _heard = -1  # how much, the last time that was looked for
    _heard_at = 0.0  # by the call's clock
    _silence: asyncio.TimerHandle | None = None  # looks for how long the provider has been silent
    # the end
    _cause: Cause | None = None  # why nothing was sent, where the response does not say so
    _enough: asyncio.TimerHandle | None = None  # ends what is read on without its agent
    _as_left: Exchange | None = None  # what the agent had when it left
    _committed_bytes = -1  # of the response, that are on record
    _refusal: Refusal | None = None
    _is_open = False  # that it began is on record
    _committing = False  # what was recorded last is not durable yet
    _then: Callable[[], None] | None = None  # what waits for that, or for its opening

    def __init__(
        self,
        context: RelayContext,
        call: Call,
        plan: PlannedHead,
        request: RequestCycle,
        tasks: set[Any],
        origin: Origin,
        loop: asyncio.AbstractEventLoop,
        stand_in: StandIn | None = None,
    ) -> None:
        super().__init__(origin, loop)
        self._context = context
        self._call = call
        self._plan = plan
        self._agent = request
        self._tasks = tasks
        self._stand_in = stand_in
        self._clock = context.clock
        self._observer = CallObserver(
            call,
            salt=context.salt,
            causes=context.causes,
            conversations=context.live.conversations,
            head=plan.facts,
        )

    # --- the agent's side: the request ---------------------------------------------------------

    def begin_whole(self, message: SerializedRequest, body: bytes, parsed: Payload | None) -> None:
        """Send a request that is all there; ``body``: its agent's, which may be parsed already."""
        context, observer = self._context, self._observer
        if body:
            observer.on_request_body(body, parsed)
            if parsed is None:
                observer.asked_to_stream()  # as it is read before any other call's
        if message.body is not body:
            self._usage_added = True
        self._tasks.add(self)
        self._agent.discard_body()  # it is held by who sends it, until its response begins
        self._agent.on_disconnect = self._on_left
        context.recorder.begin(self._call.id, observer.in_flight, self._on_opened)
        limits = context.limits
        if limits.read_s is None and limits.write_s is None:
            self.send(message, limits.connect_s)
        else:
            self._send(message)

    def begin(self) -> None:
        """Receive the request, and send it: as it arrives, or once it is all there."""
        self.state = RelayState.EXPECTED
        self._tasks.add(self)
        self._agent.watch(self._on_left)
        if self.state is RelayState.EXPECTED:
            self._agent.read_body(self._on_request_part)

    def _on_request_part(self, part: bytes, more: bool) -> None:
        try:
            self._receive(part, more)
        except errors.UpstreamError as error:
            self.on_failure(error)
        except Exception as error:
            self.on_internal_error(error)

    def _receive(self, part: bytes, more: bool) -> None:
        """Take the next part of the body; the first one begins the call."""
        observer, before = self._observer, self.state
        if before in _ENDING:
            return
        if part:
            observer.on_request_body(part)
            self._size += len(part)
            if self._size > self._context.limits.body_bytes:
                refusal = refusals.body_too_large(self._context.limits.body_bytes)
                self._end(Ending.LEFT_BY_AGENT, refusal)
                return
        if more:
            self.state = RelayState.ARRIVING
            observer.await_agent()
        else:
            self.state = RelayState.WAITING
            if before is RelayState.ARRIVING:
                observer.await_provider(self._clock())
        first = before is RelayState.EXPECTED
        if first:
            if self._needs_whole_body(more):
                self._collected = []
            self._note_begun()
        if self._collected is not None:
            self._collected.append(part)
            if not more:
                whole, self._collected = b"".join(self._collected), None
                self._prepare(whole, more)
        elif first:
            self._prepare(part, more)
        else:
            self.send_part(part, more)

    def _note_begun(self) -> None:
        """Put on record that the call began."""
        self._context.recorder.begin(self._call.id, self._observer.in_flight, self._on_opened)

    def _needs_whole_body(self, more: bool) -> bool:
        """Return True if a body that is arriving cannot be sent before all of it is here."""
        signer = self._plan.signer
        return (
            (signer is not None and signer.whole_body)
            or self._stand_in is not None
            or (self._may_ask and (more or self._observer.asked_to_stream()))
        )

    @property
    def _may_ask(self) -> bool:
        """Return True if usage may have to be asked for, as far as the head says."""
        if not self._plan.may_ask:
            return False
        stated = http_headers.first(self._plan.headers, b"content-length")
        return stated is not None and int(stated) <= usage_injection.BODY_LIMIT

    def _prepare(self, body: bytes, more: bool) -> None:
        """Send the request, or have it signed first; ``more``: of the body that is sent after it.

        Raises:
            errors.UpstreamError: it cannot be sent.
        """
        headers, signer = self._plan.headers, self._plan.signer
        if self._may_ask and not more and (longer := with_usage(body)) is not None:
            self._usage_added = True
            body, headers = longer, http_headers.with_length(headers, len(longer))
        if signer is None:
            self._compose(headers, body, more)
        else:
            self._agent.pause_body()
            self._signing = self._loop.create_task(self._sign(signer, headers, body, more))

    async def _sign(
        self, signer: Signer, headers: http_headers.Pairs, body: bytes, more: bool
    ) -> None:
        target = self._plan.target
        try:
            signed = await signer.sign(
                upstream=target.upstream,
                method=self._call.method,
                target=target.forwarded,
                headers=headers,
                body=body,
            )
            self._signing = None
            self._compose(signed, body, more)
        except Refusal as refusal:
            self._signing = None
            self._cause = _WITHOUT_CREDENTIALS.get(refusal.code)
            self._end(Ending.NEVER_CONNECTED, with_exchange(refusal, self._call.id))
        except errors.UpstreamError as error:
            self._signing = None
            self.on_failure(error)
        except Exception as error:
            self._signing = None
            self.on_internal_error(error)

    def _compose(self, headers: http_headers.Pairs, body: bytes, more: bool) -> None:
        target = self._plan.target
        message = self._origin.compose(
            UpstreamRequest(
                self._call.method,
                target.upstream.origin,
                target.forwarded,
                headers,
                None if more else body,
            )
        )
        if message.arriving is not None:
            message.arriving.add(body, more)
        self._send(message)

    def _send(self, message: SerializedRequest) -> None:
        limits = self._context.limits
        self.watches_writing = limits.write_s is not None
        if limits.read_s is not None:
            self._look_for_silence()
        self.send(message, limits.connect_s)
        if self.connection is None:
            self._agent.pause_body()
        elif not self._unwritable:
            self._agent.resume_body()

    def on_connecting(self) -> None:
        """Keep what comes of the request until another connection is open."""
        self._end_stall()
        self._agent.pause_body()

    def on_connected(self) -> None:
        """Go on with the request, of which a new connection has what came."""
        if not self._unwritable:
            self._agent.resume_body()

    def on_unwritable(self) -> None:
        """Read the agent no further than its provider reads."""
        self._unwritable = True
        self._agent.pause_body()
        write_s = self._context.limits.write_s
        if write_s is not None:
            self._stalled = self._loop.call_later(write_s, self._not_read)

    def on_writable(self) -> None:
        """Read the agent further."""
        self._end_stall()
        self._agent.resume_body()

    def _not_read(self) -> None:
        if self.connection is not None:
            self.connection.fail(errors.WriteTimeout("the provider did not read the request"))

    def _end_stall(self) -> None:
        self._unwritable = False
        stalled, self._stalled = self._stalled, None
        if stalled is not None:
            stalled.cancel()

    # --- the provider's side -------------------------------------------------------------------

    def on_head(self) -> None:
        """Take the response's head."""
        status = self.status or 0
        if self.state is not _WAITING or self._stalled is not None:  # it answered early
            self._end_request()
        if status not in STATUSES:
            self._end(Ending.CUT_UPSTREAM, invalid_status(status, self._call.id))
            return
        headers = self._head = http_headers.for_agent(self.headers, self._call.id)
        if self._stand_in is not None:  # then it is ours, and no provider's
            headers += [pair for pair in self.headers if pair[0] == http_headers.INJECTED_HEADER]
        if status >= 300 and status < 400:
            self._redirect(status, headers)
        at = self._clock()
        self._observer.on_response_head(status, headers, at)
        if status in NO_BODY:
            self._head = [pair for pair in headers if pair[0] != b"content-length"]
        elif self.bodiless:  # a response to HEAD
            self.take_parts()
        else:
            if self._usage_added:
                self._strip(status)
            if self.ended and self._stripper is None and self._take_whole(at):
                return
            self._length = stated_length(headers)
            if self._length != 0:
                self._start_once_open()
                return
        self._record(Ending.COMPLETE, self._start)  # the head is all the agent waits for

    def _redirect(self, status: int, headers: http_headers.Pairs) -> None:
        """Keep an agent here whose provider sends it to another path of its own."""
        plan = self._plan
        for at, (name, value) in enumerate(headers):
            if name == b"location":
                location = own_location(value, plan.line[2], plan.target)
                if location.startswith(b"/"):
                    headers[at] = (name, location)
                else:
                    self._observer.on_redirect(status, location)

    def _take_whole(self, at: float) -> bool:
        """Take a response whose body came with its head; False if that is empty."""
        self._whole = whole = self.take_parts()
        if not whole:
            return False
        self.received = len(whole)
        if self._observer.on_response_body(whole, at) and self._observer.behind:
            self.held = True
            self._loop.call_soon(self._catch_up, True)
        else:
            self._complete()
        return True

    def _start_once_open(self) -> None:
        """Send the head when it is on record that the call began."""
        if self._is_open:
            self._start()
        else:
            self.held = True
            self._then = self._start
            self._context.recorder.flush_starts()

    def on_part(self, part: bytes) -> bool:
        """Pass a part on, or hold it: until it is on record, or until there is room."""
        fresh = part
        if self._observed:  # the part came before, and was held
            fresh, self._observed = part[self._observed :], 0
            if not fresh:
                return self._pass_on(part)
        self.received += len(fresh)
        if self._observer.on_response_body(fresh, self._clock()) or self.received == self._length:
            return self._hold_for_record(part)
        if self._stripper is not None:
            return self._pass_on(part)
        return self._agent.pass_on(part) or self._pass_on(part)

    def on_end(self) -> None:
        """Take that the response is complete."""
        self._complete()

    def on_failure(self, error: errors.UpstreamError) -> None:
        """Take that it will never be."""
        stripper, agent = self._stripper, self._agent
        if stripper is not None and self.state is RelayState.RESPONDING:
            if agent.paused and not agent.disconnected:
                self._wait_for_room(self._on_room)
                return
            if rest := stripper.flush():
                agent.pass_on(rest)
        self._fail(error)

    def _fail(self, error: errors.UpstreamError) -> None:
        if isinstance(error, errors.AmbiguousFraming):
            self._observer.on_refused_head(str(error))
        ending, refusal = failed(error, self._call.upstream, self._call.id)
        if ending is Ending.CUT_UPSTREAM and self.left:
            self._end(Ending.LEFT_BY_AGENT, None)
        else:
            self._end(ending, refusal)

    def _end_request(self) -> None:
        """Send nothing more of the request: its provider has answered it."""
        self._end_stall()
        if self.state in _ARRIVING:
            self.state = RelayState.WAITING
            self._agent.discard_body()

    def _look_for_silence(self) -> None:
        """End the call if its provider, which is waited for, was silent for too long.

        Looked at so often that a part of the response need not note when it came.
        """
        connection, limit_s = self.connection, self._context.limits.read_s or 0.0
        heard = self.received if self.status is None else self.received + 1
        waits = self.sent and self._stalled is None and not (self._begun and self.held)
        if connection is None or not waits or heard != self._heard:
            self._heard, self._heard_at = heard, self._clock()
        elif self._clock() - self._heard_at >= limit_s:
            connection.fail(errors.ReadTimeout("the provider was silent for too long"))
            return
        self._silence = self._loop.call_later(limit_s / _LOOKS, self._look_for_silence)

    def _hold_for_record(self, part: bytes) -> bool:
        self._observed = len(part)
        if self._observer.behind:
            self.held = True
            self._loop.call_soon(self._catch_up, False)
        else:
            self._record(Ending.COMPLETE, self.release)
        return False

    def _catch_up(self, whole: bool) -> None:
        """Have a part decoded further, a turn at a time, and go on with it once it is."""
        observer = self._observer
        if self.state in _ENDING:
            return
        ended = observer.catch_up(self._clock())
        if observer.behind:
            self._loop.call_soon(self._catch_up, whole)
        elif whole:
            self._complete()
        elif ended or self.received == self._length:
            self._record(Ending.COMPLETE, self.release)
        else:
            self.release()

    def _pass_on(self, part: bytes) -> bool:
        """Pass on what was observed, or hold it until there is room."""
        if self._stripper is not None:
            self._pieces = self._stripper.feed(part)
            self._pass_pieces()
        elif self.state is RelayState.DRAINING:
            self._drain()
        elif not self._agent.pass_on(part):
            self._observed = len(part)
            self._wait_for_room(self._on_room)
            return False
        return True

    def _drain(self) -> None:
        """Take a part that nobody gets; end the call if enough was read."""
        if self.recorded or self.received > self._drain_to:
            self._end(Ending.LEFT_BY_AGENT, None)

    # a stream without the usage that only the proxy asked for

    def _strip(self, status: int) -> None:
        if usage_injection.is_plain(status, self._head):
            return
        try:
            stripper = UsageStripper(self._head)
        except Unreadable:  # an encoding that nobody offered: the agent may know what to make of it
            return
        self._stripper, self._head = stripper, stripper.headers

    def _pass_pieces(self) -> None:
        """Pass on the pieces of a part; others have their turn between two that are decoded."""
        stripper, pieces, agent = self._stripper, self._pieces, self._agent
        if stripper is None or pieces is None or self.state in _ENDING:
            return
        was_held = self.held
        try:
            while True:
                piece = self._piece or next(pieces, None)
                self._piece = b""
                if piece is None:
                    break
                if piece and self.state is RelayState.DRAINING:
                    self._drain()
                    if self.state in _ENDING:
                        return
                elif piece and not agent.pass_on(piece):
                    self._piece = piece
                    self._wait_for_room(self._on_room_for_pieces)
                    return
                if stripper.decodes:
                    self.held = True
                    self._loop.call_soon(self._pass_pieces)
                    return
        except Unreadable as error:
            self._fail(errors.DecodingError(str(error)))
            return
        self._pieces = None
        if was_held:
            self.release()

    def _on_room_for_pieces(self) -> None:
        self._observer.await_provider(self._clock())
        self._pass_pieces()

    # --- the agent's side: the response --------------------------------------------------------

    def _start(self) -> None:
        """Send the head, and then what comes."""
        agent = self._agent
        if self.state is _WAITING:
            if agent.paused:
                self.held = True
                agent.on_writable(self._start)
                return
            agent.start(self.status or 0, self._head)
            self.state = RelayState.RESPONDING
        if self.held:
            self.release()

    def _wait_for_room(self, then: Callable[[], None]) -> None:
        """Hold what comes until the agent has read some of what it was sent."""
        self._observer.await_agent()
        self.held = True
        self._agent.on_writable(then)

    def _on_room(self) -> None:
        self._observer.await_provider(self._clock())
        self.release()

    @property
    def left(self) -> bool:
        """Return True if the agent hung up."""
        return self.state in _LEFT

    def _on_left(self) -> None:
        limits, observer = self._context.limits, self._observer
        self._agent.on_writable(None)
        if self.state in _ARRIVING:
            observer.await_agent()
            self._end(Ending.LEFT_BY_AGENT, None)
            return
        seconds, size = drain_limits(limits, is_error=observer.is_error)
        waited_for_room = self._begun and self.held and self._then is None
        if seconds and not self.recorded and not self._left_complete():
            self.state = RelayState.DRAINING
            self._drain_to = self.received + size
            self._enough = self._loop.call_later(seconds, self._give_up)
            if self._pieces is not None:
                if self._piece:
                    self._on_room_for_pieces()
            elif waited_for_room:
                self._on_room()
        else:
            self._end(Ending.LEFT_BY_AGENT, None)

    def _left_complete(self) -> bool:
        """Note what the agent had when it left; return True if that was the whole response.

        The exchange ends for its agent then, however much is read of it afterwards.
        """
        as_left = self._observer.finish(Ending.LEFT_BY_AGENT, self._clock())
        if as_left.ending is Ending.COMPLETE:
            return True
        self._as_left = as_left
        return False

    def _give_up(self) -> None:
        self._end(Ending.LEFT_BY_AGENT, None)

    # --- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """End the call, because its rollout has ended; what is being answered ends by itself."""
        if self.state in _ENDING:
            return
        if self.left:
            self._end(Ending.LEFT_BY_AGENT, None)
        else:
            self._end(
                Ending.CLOSED_AT_OUTCOME, with_exchange(refusals.rollout_ended(), self._call.id)
            )

    def cancel(self, msg: object = None) -> None:
        """End the call, because the server stops: as `asyncio.Task.cancel`, in its next turn."""
        if self.state is not _ENDED:
            self._lose()
            self._loop.call_soon(self._abandon)

    def on_internal_error(self, error: Exception) -> None:
        """Take an error of the service's own."""
        log.error("a call failed inside the service: %s", type(error).__name__)
        self._lose()
        self._abandon()

    def _on_opened(self) -> None:
        self._is_open = True
        if not self._committing:
            self._go_on()

    @property
    def recorded(self) -> bool:
        """Return True if every byte received so far has been recorded."""
        return self._committed_bytes == self.received

    def _exchange(self, ending: Ending) -> Exchange:
        if self.trailers:
            self._observer.on_trailers(self.trailers)
        exchange = self._observer.finish(ending, self._clock())
        if (
            exchange.model != self._plan.noted
            or exchange.selector_digest
            or not exchange.output_seen
        ):
            self._note_way(exchange)
        if self._cause is not None:
            exchange = replace(exchange, cause=self._cause)
        if self._as_left is not None:
            exchange = _ended_as(self._as_left, exchange)
        return exchange

    def _note_way(self, exchange: Exchange) -> None:
        """Note how the call asked, unless one with the same head and model did and was answered."""
        plan = self._plan
        plan.noted = exchange.model
        self._context.note_way(exchange, plan.target, plan.headers, *self._observer.chosen())

    def _record(self, ending: Ending, then: Callable[[], None]) -> None:
        """Record the exchange, unless that was done of as many bytes; then go on with ``then``."""
        self.held = True
        self._then = then
        if self._committed_bytes != self.received:
            self._committed_bytes = self.received
            self._committing = True
            self._context.recorder.record(self._exchange(ending), self._go_on)
        elif not self._committing:
            self._go_on()

    def _go_on(self) -> None:
        """Go on with what waited, now that it is durable, or was before."""
        self._committing = False
        then, self._then = self._then, None
        if then is not None:
            try:
                then()
            except Exception as error:
                self.on_internal_error(error)

    def _complete(self) -> None:
        self.state = _ANSWERING
        self._agent.on_disconnect = None
        self._record(_COMPLETE, self._answer)

    def _answer(self) -> None:
        """Send what is left of the response, now that it is on record; nothing where it left."""
        agent = self._agent
        if agent.paused and not agent.disconnected:
            agent.on_writable(self._answer)
            return
        self._leave()
        if self._whole:
            agent.send_now(self.status or 0, self._head, self._whole)
            return
        stripper = self._stripper
        if stripper is not None and (rest := stripper.flush()):
            agent.pass_on(rest)
        agent.finish()

    def _end(self, ending: Ending, refusal: Refusal | None) -> None:
        """End the call before its response is complete; ``refusal`` is None if its agent left."""
        if self.state in _ENDING:
            return
        self._refusal = refusal
        if refusal is None or self.left:
            self._stop(RelayState.LEFT)
        elif self.state is RelayState.RESPONDING:
            self._stop(RelayState.CUTTING)
        else:
            self._stop(RelayState.REFUSING)
        self._record(ending, self._refuse)

    def _refuse(self) -> None:
        """Tell the agent why it gets no response, or cut the one that was begun."""
        agent, refusal = self._agent, self._refusal
        if refusal is None or self.state is not RelayState.REFUSING:
            cuts = self.state is RelayState.CUTTING
            self._leave()
            if cuts:
                agent.abort()
        elif agent.paused and not agent.disconnected:
            agent.on_writable(self._refuse)
        else:
            self._context.refused.calls.note(refusal.code)
            api = routes.route(self._call.method, self._call.path).api
            headers, body = agents_problem(refusal, api)
            self._leave()
            if self._stand_in is not None and self._stand_in.resets:
                agent.reset()
            agent.send_now(refusal.status, headers, body)

    def _lose(self) -> None:
        """Record the call as one that the service did not bring to its end."""
        self._stop(RelayState.LOSING)
        self._record(Ending.LOST, _nothing)

    def _stop(self, end: RelayState) -> None:
        """Wait for nothing more but the commit; ``end``: how the call ends for its agent."""
        was = self.state
        if was is not _ENDED:
            self.state = end
        self._agent.on_disconnect = None
        self._agent.on_writable(None)
        self._end_stall()
        if was in _ARRIVING:
            self._agent.discard_body()
        signing, self._signing = self._signing, None
        if signing is not None:
            signing.cancel()
        self.stop()

    def _abandon(self) -> None:
        if self.state is not _ENDED:
            self._leave()
        if not self._agent.complete:
            self._agent.fail()

    def _leave(self) -> None:
        self.state = _ENDED
        if self._enough is not None:
            self._enough.cancel()
        if self._silence is not None:
            self._silence.cancel()
        self._tasks.discard(self)
        self._context.live.leave(self._call.rollout_id, self)


def _nothing() -> None:
    """Nobody waits."""


def _ended_as(as_left: Exchange, exchange: Exchange) -> Exchange:
    """Combine what was read after the agent left with the ending at that moment.

    An error's body says why the call failed, however much of it the agent had.
    """
    timing = replace(exchange.timing, duration_s=as_left.timing.duration_s)
    cause = exchange.cause if (exchange.status or 0) >= 400 else as_left.cause
    return replace(exchange, ending=as_left.ending, cause=cause, timing=timing)


def drain_limits(limits: CallLimits, *, is_error: bool) -> tuple[float, int]:
    """Return how much of a response is read on without its agent: seconds and bytes."""
    if limits.drain_s or not is_error:
        return limits.drain_s, limits.drain_bytes
    return _ERROR_DRAIN_S, _ERROR_DRAIN_BYTES


def stated_length(headers: http_headers.Pairs) -> int | None:
    """Return the body's length as its head states it, in bytes."""
    value = http_headers.named(headers).get(b"content-length")
    return int(value) if value is not None and value.isdigit() else None
