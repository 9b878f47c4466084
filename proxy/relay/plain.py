"""Which calls need no task: their request is all there, and nothing is to be waited for.

What is looked at here changes nothing, so that any other call takes the general way as if it had
not been looked at. What a head alone says is looked at once, for all connections, as long as agents
send the same one: then it is the length of the body that differs.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import orjson

from classifier.records import KeySource
from proxy.capture import usage_injection
from proxy.capture.request import Call, HeadFacts, head_facts
from proxy.capture.usage_injection import with_usage
from proxy.inbound.http import RequestCycle
from proxy.inbound.parser import RepeatedHead, RequestHead
from proxy.inbound.response import CONTENT_LENGTH
from proxy.outbound import errors
from proxy.outbound.pushed import OriginLines
from proxy.outbound.request import SerializedRequest, UpstreamRequest
from proxy.outbound.transport import Http1Transport
from proxy.relay.call import shown_key
from proxy.relay.context import RelayContext
from proxy.relay.dressing import dressed_as_operator
from proxy.relay.operator_access import OperatorAccess
from proxy.relay.plain_call import PlainCall
from proxy.routing import headers as dress
from proxy.routing.errors import Refusal
from proxy.routing.keys import KeyUse
from proxy.routing.target import Target
from proxy.wire.dialect import Payload

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
