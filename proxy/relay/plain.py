"""Relay plain calls by callbacks, without a task for each.

A call is plain if its whole request has arrived and it has nothing to wait for. Checking that
changes nothing, so any other call takes the general road of `proxy.relay.call`. A head is checked
once for all connections while agents send the same one; only the body's length differs then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from classifier.records import Ending, KeySource
from proxy.capture import usage_injection
from proxy.capture.request import Call, HeadFacts, head_facts
from proxy.capture.usage_injection import with_usage
from proxy.inbound.http import RequestCycle
from proxy.inbound.parser import RepeatedHead, RequestHead
from proxy.inbound.response import CONTENT_LENGTH, AgentResponse
from proxy.outbound import errors
from proxy.outbound.pushed import OriginLines, PushedResponse
from proxy.outbound.request import SerializedRequest, UpstreamRequest
from proxy.outbound.transport import Http1Transport
from proxy.relay.admission import rollout_ended
from proxy.relay.call import (
    NO_BODY,
    STATUSES,
    CallProgress,
    RelayState,
    drain_limits,
    shown_key,
    stated_length,
)
from proxy.relay.context import RelayContext, failed, strange_status, with_exchange
from proxy.relay.operator_access import OperatorAccess, dressed_as_operator
from proxy.routing import headers as dress
from proxy.routing.errors import Refusal, problem
from proxy.routing.keys import KeyUse
from proxy.routing.target import Target
from proxy.wire.dialect import Payload

# --- the end of a call -------------------------------------------------------------------------
# The call is recorded first; then its agent gets the rest.


log = logging.getLogger("truezero")


class PlainEnding(PushedResponse):
    """A response of which nothing but its ends is known here; its states are `RelayState`.

    Whatever ends it calls `_complete` or `_end`, once: the exchange is recorded, and when that is
    durable the agent gets what is left of the response, a refusal, or a connection that is cut.

    Arguments:
        head: what the head of the request says.
        agent: the response to its agent.
        tasks: what the server cancels when its grace is over; the call is among it until it ends.
        message: the request as it is sent, over one of ``lines``.
    """

    _whole = b""  # of a response that came at once: it is sent in one write
    _enough: asyncio.TimerHandle | None = None  # ends what is read on without its agent
    _refusal: Refusal | None = None
    _is_open = False  # that it began is on record
    _ending = False  # nothing but a commit stands between it and its end
    _ended = False
    _committing = False
    _then: Callable[[], None] | None = None  # what waits for that, or for its opening

    def __init__(
        self,
        context: RelayContext,
        call: Call,
        head: HeadFacts,
        agent: AgentResponse,
        tasks: set[Any],
        message: SerializedRequest,
        lines: OriginLines,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(message, lines, loop)
        self._context = context
        self._call = call
        self._agent = agent
        self._tasks = tasks
        self._progress = CallProgress(context, call, head)
        self._head: dress.Pairs = []

    def close(self) -> None:
        """End the call, because its rollout has ended; what is being answered ends by itself."""
        if self._ending or self._ended:
            return
        progress = self._progress
        progress.closed = True
        if progress.left:
            self._end(Ending.LEFT_BY_AGENT, None)
        else:
            self._end(Ending.CLOSED_AT_OUTCOME, with_exchange(rollout_ended(), self._call.id))

    def cancel(self, msg: object = None) -> None:
        """End the call, because the server stops: as `asyncio.Task.cancel`, in its next turn."""
        if not self._ended:
            self._lose()
            self._loop.call_soon(self._break_off)

    def on_broken(self, error: Exception) -> None:
        """Take an error of the service's own."""
        log.error("a call failed inside the service: %s", type(error).__name__)
        self._lose()
        self._break_off()

    # the recorder's

    def _on_opened(self) -> None:
        self._is_open = True
        if not self._committing:
            self._go_on()

    def _record(self, ending: Ending, then: Callable[[], None]) -> None:
        """Record the exchange as it stands; go on with ``then`` once that is durable."""
        self.held = True
        self._then = then
        exchange = self._progress.ended(ending)
        if exchange is not None:
            self._committing = True
            self._context.recorder.record(exchange, self._go_on)
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
                self.on_broken(error)

    # the end

    def _complete(self) -> None:
        self._ending = True
        self._agent.when_gone = None
        self._record(Ending.COMPLETE, self._answer)

    def _answer(self) -> None:
        """Send what is left of the response, now that it is on record; nothing where it left."""
        agent = self._agent
        if agent.paused and not agent.gone:
            agent.when_room(self._answer)
        else:
            self._leave()
            if self._whole:
                agent.send_now(self.status or 0, self._head, self._whole)
            else:
                agent.finish()

    def _end(self, ending: Ending, refusal: Refusal | None) -> None:
        """End the call before its response is complete."""
        if self._ending or self._ended:
            return
        self._ending = True
        self._refusal = refusal
        self._agent.when_gone = None
        self._agent.when_room(None)
        self.stop()
        self._record(ending, self._refuse)

    def _refuse(self) -> None:
        """Tell the agent why it gets no response, or cut the one that was begun."""
        agent, refusal, state = self._agent, self._refusal, self._progress.state
        if refusal is None or state is not RelayState.WAITING:
            self._leave()
            if state is RelayState.RESPONDING:
                agent.cut()
        elif agent.paused and not agent.gone:
            agent.when_room(self._refuse)
        else:
            self._context.notices.refusals.note(refusal.code)
            headers, body = problem(refusal)
            self._leave()
            agent.send_now(refusal.status, headers, body)

    def _lose(self) -> None:
        """Record the call as one that the service did not bring to its end."""
        self._ending = True
        self._agent.when_gone = None
        self._agent.when_room(None)
        self.stop()
        self._record(Ending.LOST, _nothing)

    def _break_off(self) -> None:
        if not self._ended:
            self._leave()
        if not self._agent.complete:
            self._agent.break_off()

    def _leave(self) -> None:
        self._ended = True
        if self._enough is not None:
            self._enough.cancel()
        self._tasks.discard(self)
        self._context.live.leave(self._call.rollout_id, self)


def _nothing() -> None:
    """Nobody waits."""


# --- one call ----------------------------------------------------------------------------------
# `PlainCall` does what `ProxiedCall` does for a request that is complete and asks for nothing
# unusual: the same bytes, the same record, the agent's last byte after the commit. Anything that
# may happen meanwhile has a method: an agent that leaves or does not read, a provider that fails,
# a rollout that ends, a server that stops.


class PlainCall(PlainEnding):
    """One call in flight, from the request to what ends it."""

    _length: int | None = None  # of the body as the head states it
    _observed = 0  # bytes of the part that comes next that were observed already
    _drain_to = 0  # bytes of the response, where it is read on without its agent

    def begin(self, body: bytes, parsed: Payload | None) -> None:
        """Send the request; ``body`` is its agent's, which may be parsed already."""
        context, progress = self._context, self._progress
        if body:
            progress.observer.on_request_body(body, parsed)
            if parsed is None:
                progress.observer.asked_to_stream()  # as it is read before any other call's
        self._tasks.add(self)
        self._agent.watch(self._on_left)
        context.recorder.begin(self._call.id, progress.observer.opened, self._on_opened)
        self.send(context.limits.connect_s)

    # the provider's side

    def on_head(self) -> None:
        """Take the response's head."""
        status, progress, call_id = self.status or 0, self._progress, self._call.id
        if status not in STATUSES:
            self._end(Ending.CUT_UPSTREAM, strange_status(status, call_id))
            return
        headers = self._head = dress.for_agent(self.headers, call_id)
        at = progress.clock()
        progress.observer.on_response_head(status, headers, at)
        bodiless = status in NO_BODY
        if self.ended and not bodiless:
            self._whole = whole = self.take_parts()
            if whole:
                progress.received = len(whole)
                if progress.observer.on_response_body(whole, at) and progress.observer.behind:
                    self.held = True
                    self._loop.call_soon(self._catch_up, True)
                else:
                    self._complete()
                return
        length = self._length = None if bodiless else stated_length(headers)
        if bodiless:
            self._head = [pair for pair in headers if pair[0] != b"content-length"]
        if bodiless or length == 0:  # the head is all the agent waits for
            self._record(Ending.COMPLETE, self._start)
        elif self._is_open:
            self._start()
        else:
            self.held = True
            self._then = self._start
            self._context.recorder.hurry()

    def on_part(self, part: bytes) -> bool:
        """Pass a part on, or hold it: until it is on record, or until there is room."""
        fresh = part
        if self._observed:  # the part came before, and was held
            fresh, self._observed = part[self._observed :], 0
            if not fresh:
                return self._pass_on(part)
        progress = self._progress
        progress.received += len(fresh)
        if (
            progress.observer.on_response_body(fresh, progress.clock())
            or progress.received == self._length
        ):
            return self._hold_for_record(part)
        return self._agent.pass_on(part) or self._pass_on(part)

    def _hold_for_record(self, part: bytes) -> bool:
        self._observed = len(part)
        if self._progress.observer.behind:
            self.held = True
            self._loop.call_soon(self._catch_up, False)
        else:
            self._record(Ending.COMPLETE, self.release)
        return False

    def _catch_up(self, whole: bool) -> None:
        """Have a part decoded further, a turn at a time, and go on with it once it is."""
        progress, observer = self._progress, self._progress.observer
        if self._ending or self._ended:
            return
        ended = observer.catch_up(progress.clock())
        if observer.behind:
            self._loop.call_soon(self._catch_up, whole)
        elif whole:
            self._complete()
        elif ended or progress.received == self._length:
            self._record(Ending.COMPLETE, self.release)
        else:
            self.release()

    def _pass_on(self, part: bytes) -> bool:
        """Pass on what was observed, or hold it until there is room."""
        progress = self._progress
        if progress.state is RelayState.DRAINING:
            if progress.recorded or progress.received > self._drain_to:
                self._end(Ending.LEFT_BY_AGENT, None)
        elif not self._agent.pass_on(part):
            self._observed = len(part)
            progress.observer.hold()
            self.held = True
            self._agent.when_room(self._on_room)
            return False
        return True

    def on_end(self) -> None:
        """Take that the response is complete."""
        self._complete()

    def on_failure(self, error: errors.UpstreamError) -> None:
        """Take that it will never be."""
        ending, refusal = failed(error, self._call.upstream, self._call.id)
        if ending is Ending.CUT_UPSTREAM and self._progress.left:
            self._end(Ending.LEFT_BY_AGENT, None)
        else:
            self._end(ending, refusal)

    # the agent's side

    def _start(self) -> None:
        """Send the head, and then what comes."""
        progress, agent = self._progress, self._agent
        if progress.state is RelayState.WAITING:
            if agent.paused:
                self.held = True
                agent.when_room(self._start)
                return
            agent.start(self.status or 0, self._head)
            progress.state = RelayState.RESPONDING
        if self.held:
            self.release()

    def _on_room(self) -> None:
        progress = self._progress
        progress.observer.await_provider(progress.clock())
        self.release()

    def _on_left(self) -> None:
        progress, limits = self._progress, self._context.limits
        seconds, size = drain_limits(limits, is_error=progress.observer.is_error)
        waited_for_room = self.held and self._then is None
        self._agent.when_room(None)
        if seconds and not progress.recorded and not progress.left_complete():
            progress.state = RelayState.DRAINING
            self._drain_to = progress.received + size
            self._enough = self._loop.call_later(seconds, self._give_up)
            if waited_for_room:
                self._on_room()
        else:
            progress.state = RelayState.LEFT
            self._end(Ending.LEFT_BY_AGENT, None)

    def _give_up(self) -> None:
        self._end(Ending.LEFT_BY_AGENT, None)


# --- which calls are plain ---------------------------------------------------------------------


_PLANS = 1024  # kept, of the lines that were planned last
_PLAN_BYTES = 8192  # of a head at most, for its plan to be kept

_Line = tuple[str, str, bytes, bytes]


@dataclass(slots=True)
class PlannedCall:
    """What the head of a plain request says, for as many calls as send the same.

    ``line``: method, path and query. ``before`` and ``after``: its headers around the length of
    the body, ``head`` and ``rest`` the same of the request as it is sent; None where it states no
    length, so that it is the plan of one call. ``may_ask``: usage may have to be asked for.
    """

    line: _Line
    before: dress.Pairs | None
    after: dress.Pairs
    head: bytes
    rest: bytes
    target: Target
    may_ask: bool
    facts: HeadFacts
    key_digest: str | None
    key_source: KeySource | None
    lines: OriginLines

    def fits(self, headers: dress.Pairs, length: bytes) -> bool:
        """Whether a request of the same line has the same headers but for its body's length."""
        before = self.before
        if before is None:
            return False
        at = len(before)
        return (
            headers[at : at + 1] == [(CONTENT_LENGTH, length)]
            and headers[:at] == before
            and headers[at + 1 :] == self.after
        )


class PlainCalls:
    """Plans calls that callbacks can relay, where they do all that `ProxiedCall` would do.

    Arguments:
        transport: the context's own.
    """

    def __init__(
        self, context: RelayContext, transport: Http1Transport, operator_access: OperatorAccess
    ) -> None:
        self.context = context
        self._transport = transport
        self._operator_access = operator_access
        self._plans: dict[_Line, PlannedCall] = {}  # the one that was put in first is let go first

    def planned(self, head: RequestHead, body: bytes, length: bytes) -> PlannedCall | None:
        """Return what `plan` does, made before where the head came before.

        Arguments:
            length: of the body, as a head states it.
        """
        plan = self._plans.get(head[:4])
        if plan is not None and plan.fits(head.headers, length):
            return plan
        plan = self.plan(head, body)
        if (
            plan is not None
            and plan.before is not None
            and len(plan.head) + len(plan.rest) < _PLAN_BYTES
        ):
            if len(self._plans) >= _PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[plan.line] = plan
        return plan

    def plan(self, head: RequestHead, body: bytes) -> PlannedCall | None:
        """Return what a request's head says; None where the call is not plain.

        Raises:
            errors.UpstreamError, Refusal: nor is it then; nothing was sent.
        """
        context = self.context
        target = self._target(head)
        if head.method == "HEAD" or target is None:
            return None
        upstream, signer = target.upstream, None
        if target.keys is KeyUse.OPERATORS:
            headers, signer = dressed_as_operator(context, target, head.headers)
        else:
            headers = dress.for_upstream(
                head.headers, host=upstream.host, auth=upstream.auth, real_key=None
            )
        if signer is not None:
            return None
        message, lines = self._transport.prepare(
            UpstreamRequest(
                head.method, upstream.origin, target.forwarded, headers, body,
                context.limits.timeouts,
            )
        )  # fmt: skip
        if message.body is not body:
            return None
        digest, source = shown_key(context, target, head.headers)
        before, after, sent, rest = _around_length(head.headers, message, len(body))
        return PlannedCall(
            line=head[:4],
            before=before,
            after=after,
            head=sent,
            rest=rest,
            target=target,
            may_ask=usage_injection.may_inject(
                upstream, head.method, target.path, dress.with_length(headers, 0)
            ),
            facts=head_facts(
                head.method, target.path, target.query, head.headers,
                operators_key=source is KeySource.OPERATOR,
            ),
            key_digest=digest,
            key_source=source,
            lines=lines,
        )  # fmt: skip

    def _target(self, head: RequestHead) -> Target | None:
        """Return where a call goes, with the key that it takes; None where that is to be asked."""
        addresses = self.context.addresses
        target = addresses.read(head.raw_path, head.query, head.headers)
        if addresses.proof_required and not target.proven:
            return None
        if target.keys is KeyUse.CALLERS:
            return target
        return self._operator_access.settled_at_once(target, head.method, head.headers)


class PlainConnection:
    """Relays the plain calls of one agent's connection."""

    __slots__ = ("_calls", "_loop", "_plan", "_repeated")

    def __init__(self, calls: PlainCalls) -> None:
        self._calls = calls
        self._loop = asyncio.get_running_loop()
        self._plan: PlannedCall | None = None
        self._repeated: RepeatedHead | None = None  # what knows the plan's head again

    def take(self, request: RequestCycle, tasks: set[Any]) -> bool:
        """Relay a request that is all there; False, with nothing done, if it is not plain.

        Arguments:
            tasks: what the server cancels when its grace is over.
        """
        context, head, body = self._calls.context, request.head, request.peek()
        size = len(body)
        if size > context.limits.body_bytes:
            return False
        length, plan, repeated = b"%d" % size, self._plan, request.repeated
        try:
            if plan is None or repeated is None or repeated is not self._repeated:
                plan = self._calls.planned(head, body, length)
                if plan is None:
                    return False
                self._plan = plan
                self._repeated = None if plan.before is None else repeated
            target, access = plan.target, context.access
            if access is not None and access.concerns(target) and not access.known_open(target):
                return False
            parsed = _parsed(body) if plan.may_ask else None
            if parsed is not None and parsed.get("stream") is True and with_usage(body):
                return False
            call = Call(  # by position: a third of the time
                context.new_id(), target.rollout_id, target.upstream.name, head.method,
                target.path, context.wall(), context.clock(), head.headers, target.query,
                target.role, target.attribution, plan.key_digest, False, plan.key_source,
                request.client,
            )  # fmt: skip
            sent = plan.head if plan.before is None else plan.head + length + plan.rest
            message = SerializedRequest(sent, body, None, False)
            plain = PlainCall(
                context, call, plan.facts, request, tasks, message, plan.lines, self._loop
            )
            context.live.enter(target.rollout_id, plain)
        except (errors.UpstreamError, Refusal):
            return False
        plain.begin(body, parsed)
        return True


def plain_calls(context: RelayContext, operator_access: OperatorAccess) -> PlainCalls | None:
    """Return what plans plain calls; None where no call of this service can be one.

    A time limit of the provider's silence is kept by who waits for it, and whether a rollout is
    registered is asked of the database.
    """
    limits, transport = context.limits, context.transport
    timed = limits.read_s is not None or limits.write_s is not None
    if timed or context.admits is not None or not isinstance(transport, Http1Transport):
        return None
    return PlainCalls(context, transport, operator_access)


def _parsed(body: bytes) -> Payload | None:
    """Return a body's JSON object; None where it is none, or too long for usage to be asked for."""
    if len(body) > usage_injection.BODY_LIMIT:
        return None
    try:
        payload = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return payload if isinstance(payload, dict) else None


def _around_length(
    headers: dress.Pairs, message: SerializedRequest, size: int
) -> tuple[dress.Pairs | None, dress.Pairs, bytes, bytes]:
    """Split headers, and the head that is sent, at the length of a body of so many bytes.

    A head that states it otherwise than once and plainly is not split.
    """
    stated = CONTENT_LENGTH, b"%d" % size
    line = b"\r\n%b: %b\r\n" % stated
    if [pair for pair in headers if pair[0] == CONTENT_LENGTH] != [stated]:
        return None, [], message.head, b""
    before, found, after = message.head.partition(line)
    if not found:
        return None, [], message.head, b""
    at = headers.index(stated)
    return headers[:at], headers[at + 1 :], before + line[: -len(stated[1]) - 2], b"\r\n" + after
