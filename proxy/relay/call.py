"""Relays one call: bytes pass unchanged, and one ending is recorded whatever happens.

The finished exchange goes to the recorder; only then does the agent get its last byte.
"""

from __future__ import annotations

import asyncio

from classifier.records import Cause, Ending, KeySource
from classifier.verdicts import Subcategory
from proxy.capture import usage_injection
from proxy.capture.request import Call
from proxy.capture.usage_injection import with_usage
from proxy.inbound.asgi import AgentConnection, Receive, Scope, Send, send_refusal
from proxy.outbound import errors
from proxy.outbound.request import UpstreamRequest, UpstreamResponse
from proxy.relay.admission import rollout_ended
from proxy.relay.agent_watch import AgentWatch
from proxy.relay.context import AgentLeft, BodyTooLarge, CallLimits, RelayContext
from proxy.relay.download import Download
from proxy.relay.dressing import dressed_as_operator
from proxy.relay.failures import failed, strange_status, with_exchange
from proxy.relay.progress import CallProgress, RelayState
from proxy.relay.upload import Upload
from proxy.routing import headers as dress
from proxy.routing.errors import Refusal
from proxy.routing.keys import KeyUse
from proxy.routing.target import Target
from proxy.wire.framing import Unreadable

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
