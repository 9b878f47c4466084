"""The data plane over HTTP as an ASGI application: admit a call, then relay it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from proxy.inbound.asgi import Receive, Scope, Send, send_refusal
from proxy.inbound.http import TakePlain
from proxy.relay.admission import Access
from proxy.relay.call import ProxiedCall, agent_connection, body_too_large
from proxy.relay.context import RelayContext, RequestNotices
from proxy.relay.faults import FaultInjector, resetting
from proxy.relay.operator_access import OperatorAccess
from proxy.relay.plain import PlainConnection, plain_calls
from proxy.routing import headers as dress
from proxy.routing.errors import Refusal
from proxy.routing.keys import KeyUse
from proxy.routing.target import Target, is_data_plane
from proxy.wire import routes

if TYPE_CHECKING:
    from truezero.models import Fault


class Relay:
    """The data plane as an ASGI callable.

    Arguments:
        plainly: whether plain calls are relayed without a task, where the server can do that.
    """

    def __init__(self, context: RelayContext, *, plainly: bool = True) -> None:
        self._context = context
        self._addresses = context.addresses
        self._operator_access = OperatorAccess(context)
        self._plain = plain_calls(context, self._operator_access) if plainly else None

    @property
    def notices(self) -> RequestNotices:
        """What it counts and logs of requests beside exchanges."""
        return self._context.notices

    def plain_calls(self) -> TakePlain | None:
        """Return what relays the plain calls of one connection without a task, if anything does."""
        return None if self._plain is None else PlainConnection(self._plain).take

    def claims(self, scope: Scope) -> bool:
        """Whether this request is an agent's."""
        return is_data_plane(scope["raw_path"], self._context.upstreams)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Relay one request, or answer why not."""
        context = self._context
        try:
            target, access = await self._acceptable(scope)
            fault = None
            if access is not None:
                fault = await access.next_fault(target, scope["method"])
                await access.admit(target)
            # Nothing is awaited from here to `enter`: a rollout that ends finds the call there.
            if fault is None:
                agent = agent_connection(scope, receive, send)
                call = ProxiedCall(context, target, scope, receive, send, agent)
            else:
                call = self._drill(fault, target, scope, receive, send)
            context.live.enter(target.rollout_id, call)
            try:
                await call.run()
            finally:
                context.live.leave(target.rollout_id, call)
        except Refusal as refusal:
            context.notices.refusals.note(refusal.code)
            await send_refusal(refusal, send)

    def _drill(
        self, fault: Fault, target: Target, scope: Scope, receive: Receive, send: Send
    ) -> ProxiedCall:
        """Build the call with a failure in its provider's place; all else stays the same."""
        injector = FaultInjector(
            fault, method=scope["method"], path=target.path, query=target.query
        )
        context = replace(self._context, transport=injector, signers={})
        agent = agent_connection(scope, receive, send)
        if fault.kind == "reset":
            send = resetting(agent, send)
        return ProxiedCall(context, target, scope, receive, send, agent, injected=True)

    async def _acceptable(
        self, scope: Scope, *, shows_own_key: bool = False
    ) -> tuple[Target, Access | None]:
        """Where a call goes, and what is to admit it, if its rollout's access is to be looked up.

        It is admitted last: what it is told stands until the next time something is awaited.

        Arguments:
            shows_own_key: the caller shows one elsewhere than in a header.
        """
        context, headers, access = self._context, scope["headers"], self._context.access
        target = self._addresses.read(scope["raw_path"], scope["query_string"], headers)
        if self._addresses.proof_required and not target.proven:
            raise Refusal(
                403,
                "unproven_rollout",
                "this call does not prove its rollout: use the base_url or the key that "
                "registration returned",
            )
        if access is not None and not access.concerns(target):
            access = None
        if context.admits is not None:
            await context.admits(target.rollout_id)
        if target.keys is not KeyUse.CALLERS:
            method = scope.get("method", routes.UPGRADE)
            target = await self._operator_access.settled(
                target, method, headers, shows_own_key=shows_own_key
            )
        length = dress.named(headers).get(b"content-length")
        if length is not None and int(length) > context.limits.body_bytes:
            raise body_too_large(context.limits)
        return target, access
