"""The data plane over HTTP: admit a call, plan what its head says, and relay it."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

import orjson

from classifier.records import UNATTRIBUTED, KeySource, check_order
from proxy.capture import usage_injection
from proxy.capture.request import Call, head_facts
from proxy.capture.usage_injection import with_usage
from proxy.inbound.http import RequestCycle
from proxy.inbound.parser import RepeatedHead, RequestHead
from proxy.inbound.response import CONTENT_LENGTH
from proxy.outbound import errors
from proxy.outbound.connection import Origin
from proxy.outbound.request import SerializedRequest, UpstreamRequest
from proxy.outbound.transport import NoOrigin
from proxy.relay.admission import Access, StandIn
from proxy.relay.call import PlannedHead, RelayedCall
from proxy.relay.context import RefusedRequests, RelayContext
from proxy.relay.held_call import HeldCall
from proxy.relay.hold import Hold
from proxy.relay.operator_access import OperatorAccess, operator_headers, shown_key
from proxy.routing import headers as http_headers
from proxy.routing import refusals
from proxy.routing.errors import Refusal, agents_problem
from proxy.routing.keys import KeyUse
from proxy.routing.target import Target, is_data_plane
from proxy.wire import routes
from proxy.wire.dialect import Payload

log = logging.getLogger("truezero")

_TAIL = 512  # bytes of a path that say which API it is of
_PLANS = 1024  # kept, of the heads that were planned last
_PLAN_BYTES = 8192  # of a head at most, for its plan to be kept

CALL_ORDER = (
    "id", "rollout_id", "upstream", "method",
    "path", "started_at", "began", "request_headers", "query",
    "role", "attribution", "key_digest", "injected", "key_source",
    "client",
)  # fmt: skip
"""The order in which `AgentConnection` states the values of a call: they stand in these rows."""
check_order(Call, CALL_ORDER)


class Relay:
    """The data plane: calls that are admitted, planned and relayed.

    Most calls wait for nothing: what decides is known, and they begin at once. Others are admitted
    in a task, and then begin the same way.
    """

    def __init__(self, context: RelayContext) -> None:
        self.context = context
        self._operator_access = OperatorAccess(context)
        # The one that was put in first is let go first.
        self._plans: dict[tuple[str, str, bytes, bytes], PlannedHead] = {}

    @property
    def refused(self) -> RefusedRequests:
        """Counts and log lines about requests, kept beside the exchanges."""
        return self.context.refused

    def agent_calls(self) -> AgentConnection:
        """Return what relays the calls of one agent's connection."""
        return AgentConnection(self)

    def claims(self, raw_path: bytes) -> bool:
        """Return True if a request is an agent's."""
        return is_data_plane(raw_path, self.context.upstreams)

    # admission

    def read(self, raw_path: bytes, query: bytes, headers: http_headers.Pairs) -> Target:
        """Return where a call goes.

        Raises:
            Refusal: it goes nowhere, or does not prove its rollout where that is required.
        """
        addresses = self.context.addresses
        target = addresses.read(raw_path, query, headers)
        if addresses.proof_required and not target.proven:
            raise refusals.unproven_rollout()
        return target

    def admitted_at_once(self, target: Target, head: RequestHead) -> Target | None:
        """Return a call's target with the key that it takes; None if that is to be asked."""
        if self.context.admits is not None:
            return None
        if target.keys is not KeyUse.CALLERS:
            settled = self._operator_access.resolve_cached(target, head.method, head.headers)
            if settled is None:
                return None
            target = settled
        self._check_length(head.headers)
        return target if self.knows_open(target) else None

    def knows_open(self, target: Target) -> bool:
        """Return True if it is known that a rollout's key opens a call, and no rule meets it."""
        access = self.context.access
        return access is None or not access.concerns(target) or access.admit_cached(target)

    async def admit(
        self,
        target: Target,
        method: str,
        headers: http_headers.Pairs,
        *,
        shows_own_key: bool = False,
    ) -> tuple[Target, Access | None]:
        """Return a call's target with the key that it takes, and what is to admit it last.

        What that is told stands until the next time something is awaited.

        Arguments:
            method: as on the request line, or `routes.UPGRADE`.
            shows_own_key: the caller shows one elsewhere than in a header.

        Raises:
            Refusal: it is not let in.
        """
        context, access = self.context, self.context.access
        if access is not None and not access.concerns(target):
            access = None
        if context.admits is not None:
            await context.admits(target.rollout_id)
        if target.keys is not KeyUse.CALLERS:
            target = await self._operator_access.resolve(
                target, method, headers, shows_own_key=shows_own_key
            )
        self._check_length(headers)
        return target, access

    def _check_length(self, headers: http_headers.Pairs) -> None:
        length = http_headers.named(headers).get(CONTENT_LENGTH)
        if length is not None and int(length) > self.context.limits.body_bytes:
            raise refusals.body_too_large(self.context.limits.body_bytes)

    async def begin_admitted(self, request: RequestCycle, target: Target, tasks: set[Any]) -> None:
        """Relay a call once it is admitted, or answer why not."""
        head, stand_in = request.head, None
        holds: tuple[Hold, ...] = ()
        try:
            target, access = await self.admit(target, head.method, head.headers)
            if access is not None:
                stand_in, holds = await _ruled(access, target, head.method)
                await access.admit(target)
            # Nothing is awaited from here on: a rollout that ends finds the call.
            self.begin(request, self.plan(head, target, keep=False), tasks, stand_in, holds)
        except Refusal as refusal:
            self.refuse(request, refusal)

    # what a head says

    def planned(self, head: RequestHead, length: bytes) -> PlannedHead | None:
        """Return the plan of a head that came before, with a body of whatever length."""
        plan = self._plans.get(head[:4])
        if plan is None or plan.before is None:
            return None
        headers, before = head.headers, plan.before
        at = len(before)
        fits = (
            headers[at : at + 1] == [(CONTENT_LENGTH, length)]
            and headers[:at] == before
            and headers[at + 1 :] == plan.after
        )
        return plan if fits else None

    def plan(self, head: RequestHead, target: Target, *, keep: bool = True) -> PlannedHead:
        """Return what a request's head says.

        Arguments:
            keep: for whatever call sends the same; False if each is to be admitted anew.
        """
        context, upstream, signer = self.context, target.upstream, None
        if target.keys is KeyUse.OPERATORS:
            headers, signer = operator_headers(context, target, head.headers)
        else:
            headers = http_headers.for_upstream(
                head.headers, host=upstream.host, auth=upstream.auth, real_key=None
            )
        digest, source = shown_key(context, target, head.headers)
        try:
            origin: Origin = context.transport.origin(upstream.origin)
        except errors.UpstreamError as error:
            origin = NoOrigin(error)
        plan = PlannedHead(
            line=head[:4],
            before=None,
            after=[],
            head=b"",
            rest=b"",
            target=target,
            headers=headers,
            signer=signer,
            may_ask=usage_injection.may_inject(
                upstream, head.method, target.path, http_headers.with_length(headers, 0)
            ),
            facts=head_facts(
                head.method, target.path, target.query, head.headers,
                operators_key=source is KeySource.OPERATOR,
            ),
            key_digest=digest,
            key_source=source,
            origin=origin,
        )  # fmt: skip
        plan.holds = tuple(
            hold
            for hold in context.holds
            if hold.claims(upstream.name, head.method, plan.facts.route)
        )
        keep = keep and signer is None and head.method != "HEAD" and not plan.holds
        if keep and target.rollout_id != UNATTRIBUTED:  # each of those is counted as it is read
            self._split(plan, head)
        return plan

    def _split(self, plan: PlannedHead, head: RequestHead) -> None:
        """Split a head, and what is sent of it, at the length of its body; keep the plan then.

        One that states it otherwise than once and plainly is not split.
        """
        stated = [pair for pair in head.headers if pair[0] == CONTENT_LENGTH]
        if len(stated) != 1 or stated[0][1] != b"%d" % int(stated[0][1]):
            return
        target = plan.target
        request = UpstreamRequest(
            head.method, target.upstream.origin, target.forwarded, plan.headers, None,
        )  # fmt: skip
        try:
            sent = plan.origin.compose(request).head
        except errors.UpstreamError:  # the call is recorded as one that cannot be sent
            return
        line = b"\r\n%b: %b\r\n" % stated[0]
        before, separator, after = sent.partition(line)
        if not separator:
            return
        at = head.headers.index(stated[0])
        plan.before, plan.after = head.headers[:at], head.headers[at + 1 :]
        plan.head, plan.rest = before + line[: -len(stated[0][1]) - 2], b"\r\n" + after
        if len(plan.head) + len(plan.rest) < _PLAN_BYTES:
            if len(self._plans) >= _PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[plan.line] = plan

    # the call

    def begin(
        self,
        request: RequestCycle,
        plan: PlannedHead,
        tasks: set[Any],
        stand_in: StandIn | None = None,
        holds: tuple[Hold, ...] = (),
    ) -> None:
        """Begin a call that is admitted, whose request may be arriving.

        Arguments:
            stand_in: answers it, in its provider's place.
            holds: of its rollout's rules; those of its head come after them.

        Raises:
            Refusal: there are as many calls as there may be.
        """
        context, target = self.context, plan.target
        origin: Origin = plan.origin
        if stand_in is None:
            holds += plan.holds
        else:
            plan.signer, origin = None, stand_in
        call = Call(
            id=context.new_id(),
            rollout_id=target.rollout_id,
            upstream=target.upstream.name,
            method=request.head.method,
            path=target.path,
            started_at=context.wall(),
            began=context.clock(),
            request_headers=request.head.headers,
            query=target.query,
            role=target.role,
            attribution=target.attribution,
            key_digest=plan.key_digest,
            injected=stand_in is not None,
            key_source=plan.key_source,
            client=request.client,
        )
        of_kind = HeldCall if holds else RelayedCall
        loop = asyncio.get_running_loop()
        relayed = of_kind(context, call, plan, request, tasks, origin, loop, stand_in)
        context.live.enter(target.rollout_id, relayed)
        if isinstance(relayed, HeldCall):
            relayed.begin_held(holds)
        else:
            relayed.begin()

    def refuse(self, request: RequestCycle, refusal: Refusal) -> None:
        """Answer why a call is not let in, as soon as its agent reads."""
        if request.paused and not request.disconnected:
            request.on_writable(partial(self.refuse, request, refusal))
            return
        self.refused.calls.note(refusal.code)
        head = request.head
        api = routes.route(head.method, head.raw_path[-_TAIL:]).api
        headers, body = agents_problem(refusal, api)
        request.send_now(refusal.status, headers, body)


class AgentConnection:
    """Relays the calls of one agent's connection."""

    __slots__ = ("_loop", "_plan", "_relay", "_repeated")

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._loop = asyncio.get_running_loop()
        self._plan: PlannedHead | None = None
        self._repeated: RepeatedHead | None = None  # what knows the plan's head again

    def claims(self, raw_path: bytes) -> bool:
        """Return True if a request is an agent's."""
        return self._relay.claims(raw_path)

    def take(self, request: RequestCycle, tasks: set[Any]) -> None:
        """Relay a request, of whose body there may be more to come.

        One that is all there, and whose head is known, is sent as that is planned.

        Arguments:
            tasks: what the server cancels when its grace is over.
        """
        relay, plan, repeated = self._relay, self._plan, request.repeated
        context, head, body = relay.context, request.head, request.peek()
        size = len(body)
        length = b"%d" % size
        try:
            if request.more_body or request.expects or request.disconnected:
                self._take_anew(request, tasks)
                return
            if plan is None or repeated is None or repeated is not self._repeated:
                plan = relay.planned(head, length)
                if plan is None:
                    self._take_anew(request, tasks)
                    return
                self._plan, self._repeated = plan, repeated
            target, access = plan.target, context.access
            if size > context.limits.body_bytes:
                raise refusals.body_too_large(context.limits.body_bytes)
            if access is not None and access.concerns(target) and not access.admit_cached(target):
                self._admit(request, target, tasks)
                return
            sent, parsed = body, None
            if plan.may_ask:
                parsed = _parsed(body)
                if parsed is not None and parsed.get("stream") is True:
                    sent = with_usage(body) or body
                    length = b"%d" % len(sent)
            call = Call(  # by position, as CALL_ORDER: a third of the time
                context.new_id(), target.rollout_id, target.upstream.name, head.method,
                target.path, context.wall(), context.clock(), head.headers, target.query,
                target.role, target.attribution, plan.key_digest, False, plan.key_source,
                request.client,
            )  # fmt: skip
            relayed = RelayedCall(context, call, plan, request, tasks, plan.origin, self._loop)
            context.live.enter(target.rollout_id, relayed)
        except Refusal as refusal:
            relay.refuse(request, refusal)
            return
        relayed.begin_whole(SerializedRequest(plan.head + length + plan.rest, sent), body, parsed)

    def _take_anew(self, request: RequestCycle, tasks: set[Any]) -> None:
        """Relay a request by what its head says, once it is admitted."""
        relay, head = self._relay, request.head
        target = relay.read(head.raw_path, head.query, head.headers)
        ready = relay.admitted_at_once(target, head)
        if ready is None:
            self._admit(request, target, tasks)
            return
        plan = relay.plan(head, ready)
        if plan.before is not None:
            self._plan, self._repeated = plan, request.repeated
        relay.begin(request, plan, tasks)

    def _admit(self, request: RequestCycle, target: Target, tasks: set[Any]) -> None:
        def admitted(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            failure = None if task.cancelled() else task.exception()
            if failure is not None:
                log.error("a call failed inside the service: %s", type(failure).__name__)
            if (failure is not None or task.cancelled()) and not request.complete:
                request.fail()

        task = self._loop.create_task(self._relay.begin_admitted(request, target, tasks))
        tasks.add(task)
        task.add_done_callback(admitted)


async def _ruled(
    access: Access, target: Target, method: str
) -> tuple[StandIn | None, tuple[Hold, ...]]:
    """Return what a rollout's rules have answer its call, and what has that wait."""
    stand_in: StandIn | None = None
    holds: list[Hold] = []
    for rule, known in (await access.rules(target)).items():
        stand_in = stand_in or await rule.stand_in(known, target, method)
        if (hold := rule.hold(known, target, method)) is not None:
            holds.append(hold)
    return stand_in, tuple(holds)


def _parsed(body: bytes) -> Payload | None:
    """Return a body's JSON object; None if it is none, or too long for usage to be asked for."""
    if len(body) > usage_injection.BODY_LIMIT:
        return None
    try:
        payload = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return payload if isinstance(payload, dict) else None
