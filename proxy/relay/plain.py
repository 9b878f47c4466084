"""Which calls need no task: their request is all there, and nothing is to be waited for.

What is looked at here changes nothing, so that any other call takes the general way as if it had
not been looked at.
"""

from __future__ import annotations

import asyncio
from typing import Any

from proxy.capture import usage_injection
from proxy.inbound.request_cycle import RequestCycle
from proxy.outbound import errors
from proxy.outbound.http1 import Http1Transport
from proxy.outbound.transport import UpstreamRequest
from proxy.relay.call import begun_call
from proxy.relay.context import RelayContext
from proxy.relay.dressing import dressed_as_operator
from proxy.relay.operator_access import OperatorAccess
from proxy.relay.plain_call import PlainCall
from proxy.routing import headers as dress
from proxy.routing.errors import Refusal
from proxy.routing.operator_keys import KeyUse
from proxy.routing.target import Target
from proxy.wire.usage_request import with_usage

# Without either, a body has no key ``stream``, so that no usage is to be asked for.
_STREAM, _ESCAPE = b"stream", b"\\u"


class PlainCalls:
    """Relays calls by callbacks, where that does all that `ProxiedCall` would do.

    Arguments:
        transport: the context's own.
    """

    def __init__(
        self, context: RelayContext, transport: Http1Transport, operator_access: OperatorAccess
    ) -> None:
        self._context = context
        self._transport = transport
        self._operator_access = operator_access

    def take(self, request: RequestCycle, tasks: set[Any]) -> bool:
        """Relay a request that is all there; False, with nothing done, if it is not plain.

        Arguments:
            tasks: what the server cancels when its grace is over.
        """
        context, head = self._context, request.head
        body = request.peek()
        if head.method == "HEAD" or len(body) > context.limits.body_bytes:
            return False
        target = self._target(request)
        if target is None:
            return False
        upstream, signer = target.upstream, None
        if target.keys is KeyUse.OPERATORS:
            headers, signer = dressed_as_operator(context, target, head.headers)
        else:
            headers = dress.for_upstream(
                head.headers, host=upstream.host, auth=upstream.auth, real_key=None
            )
        if signer is not None or (
            (_STREAM in body or _ESCAPE in body)
            and usage_injection.may_inject(upstream, head.method, target.path, headers)
            and with_usage(body) is not None
        ):
            return False
        upward = UpstreamRequest(
            head.method, upstream.origin, target.forwarded, headers, body, context.limits.timeouts
        )
        try:
            message, lines = self._transport.prepare(upward)
            loop = asyncio.get_running_loop()
            call = begun_call(context, target, head.method, head.headers, request.client)
            plain = PlainCall(context, call, request, tasks, message, lines, loop)
            context.live.enter(target.rollout_id, plain)
        except (errors.UpstreamError, Refusal):
            return False
        plain.begin(body)
        return True

    def _target(self, request: RequestCycle) -> Target | None:
        """Return where a call goes that is admitted at once; None for any other."""
        context, head = self._context, request.head
        addresses, access = context.addresses, context.access
        try:
            target = addresses.read(head.raw_path, head.query, head.headers)
        except Refusal:
            return None
        if addresses.proof_required and not target.proven:
            return None
        if access is not None and access.concerns(target) and not access.known_open(target):
            return None
        if target.keys is KeyUse.CALLERS:
            return target
        return self._operator_access.settled_at_once(target, head.method, head.headers)


def plain_calls(context: RelayContext, operator_access: OperatorAccess) -> PlainCalls | None:
    """Return what relays plain calls; None where no call of this service can be one.

    A time limit of the provider's silence is kept by who waits for it, and whether a rollout is
    registered is asked of the database.
    """
    limits, transport = context.limits, context.transport
    timed = limits.read_s is not None or limits.write_s is not None
    if timed or context.admits is not None or not isinstance(transport, Http1Transport):
        return None
    return PlainCalls(context, transport, operator_access)
