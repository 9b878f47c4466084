"""Reference calls: the proxy's own plain questions to an upstream, with the operator's key.

`Questioner` asks one series. Who asks, about which failures and how often, is
`proxy.asking.asker`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from classifier.logical_calls import cuts, output_tokens, used_up
from classifier.records import (
    WRONG_SHAPE,
    AnswerState,
    Attribution,
    Ending,
    Exchange,
    KeySource,
)
from classifier.reference_rules import AskedName
from classifier.references import (
    CUT_SHORT,
    OTHER_WORDS,
    REFERENCE,
    WORDLESS,
    AskedBy,
    ReferenceCall,
)
from classifier.verdicts import Subcategory
from proxy.asking.questions import MORE_TOKENS, TOKENS, Question, lacks_word, question
from proxy.asking.ways import Way
from proxy.capture.observer import CallObserver
from proxy.capture.request import Call
from proxy.outbound import errors
from proxy.outbound.connection import Exchanger, Origin, ResponseHandler
from proxy.outbound.request import SerializedRequest, UpstreamRequest
from proxy.outbound.transport import NoOrigin
from proxy.relay.context import RelayContext, failed
from proxy.routing import headers as dress
from proxy.routing.errors import Refusal
from proxy.routing.target import Target
from proxy.routing.upstreams import Auth, Upstream
from proxy.wire.response import ReadLimits, ResponseReader
from proxy.wire.routes import route

log = logging.getLogger("truezero")

ROLE: Final = "reference"
"""The role under which reference calls are recorded: no agent's, judge's or user's."""

QUESTIONS: Final = 3
TOO_DEAR_USD: Final = 0.01  # of one question
Cost = Callable[[str, str, int], float | None]  # of an upstream, a model and tokens of output
_Shape = tuple[str, str, str]  # upstream, model and API
_APART_S: Final = 0.05
_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 15.0
_ANSWER_BYTES: Final = 256 * 1024  # no answer of 16 tokens is as long

# A cache in front of the provider answered: RFC 9111 §5.1; Varnish, Fastly and CloudFront;
# developers.cloudflare.com/ai-gateway/features/caching; docs.litellm.ai/docs/proxy/caching (the key
# of what was found); docs.helicone.ai/features/advanced-usage/caching; openrouter.ai/docs
# (response caching); portkey.ai/docs (cache).
_CACHE_STATUS: Final = (b"x-cache", b"cf-aig-cache-status", b"helicone-cache",
                        b"x-openrouter-cache-status", b"x-portkey-cache-status")  # fmt: skip
_WRONG_ENDPOINT: Final = frozenset((404, 405))
_WORDLESS: Final = (AnswerState.EMPTY, AnswerState.UNREAD, None)  # None: a redirect


def from_cache(headers: Mapping[bytes, bytes]) -> bool:
    """Return True if headers (names in lower case) say that a cache answered."""
    if headers.get(b"age", b"0").strip(b" 0") or headers.get(b"x-litellm-cache-key"):
        return True
    return any(b"hit" in headers.get(name, b"").lower() for name in _CACHE_STATUS)


class _OwnConnection:
    """An origin without idle connections: each request has a connection of its own."""

    def __init__(self, origin: Origin) -> None:
        self.compose = origin.compose
        self.connect = origin.connect

    def take(self) -> Exchanger | None:
        return None


class _Asking(ResponseHandler):
    """One question under way; ``done`` has its exchange once that is on record.

    ``said`` is the text of its answer; None where that is not known.
    """

    def __init__(self, context: RelayContext, call: Call, origin: Origin, body: bytes) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(_OwnConnection(origin), loop)
        self.done: asyncio.Future[Exchange] = loop.create_future()
        self.cached = False
        self.said: str | None = None
        self._told: list[bytes] = []
        self._context = context
        self._call = call
        self._observer = CallObserver(call, salt=context.salt, causes=context.causes)
        self._observer.on_request_body(body)
        self._received = 0
        self._finished = False
        self._limit: asyncio.TimerHandle | None = None
        context.recorder.begin(call.id, self._observer.in_flight, _nothing)

    def ask(self, message: SerializedRequest) -> None:
        """Send it; it ends by itself, within the time that connecting and answering may take."""
        self.send(message, _CONNECT_S)

    def on_connected(self) -> None:
        """Begin the time that an answer may take."""
        self._limit = self._loop.call_later(_ANSWER_S, self._time_out)

    def on_head(self) -> None:
        """Take the head."""
        headers = dress.for_agent(self.headers, self._call.id)
        self.cached = from_cache(dress.named(headers))
        self._observer.on_response_head(self.status or 0, headers, self._context.clock())

    def on_part(self, part: bytes) -> bool:
        """Take a part of the body."""
        self._received += len(part)
        if self._received > _ANSWER_BYTES:
            self.on_failure(
                errors.RemoteProtocolError("the answer to a reference call is too long")
            )
            return True
        self._observer.on_response_body(part, self._context.clock())
        self._told.append(part)
        return True

    def on_end(self) -> None:
        """Note that the answer is complete."""
        with contextlib.suppress(Exception):  # of an answer that nobody can read
            self.said = self._text()
        self._finish(Ending.COMPLETE)

    def _text(self) -> str | None:
        """Return what the answer says; an observer skims streams, and leaves that out."""
        reader = ResponseReader(route(self._call.method, self._call.path), ReadLimits())
        headers = dress.for_agent(self.headers, self._call.id)
        reader.head(self.status or 0, headers, dress.named(headers))
        behind = reader.feed(b"".join(self._told))
        while behind:
            behind = reader.decode_more()
        reader.end()
        said = reader.whole_payloads(self._received)
        return "".join(reader.payloads.dialect.text(*each) for each in said) if said else None

    def on_failure(self, error: errors.UpstreamError) -> None:
        """Note that no answer will come."""
        ending, _ = failed(error, self._call.upstream, self._call.id)
        self._finish(ending)

    def on_internal_error(self, error: Exception) -> None:
        """Take an error of the service's own."""
        log.error("a reference call failed inside the service: %s", type(error).__name__)
        self.end()

    def end(self) -> None:
        """End it before its time: it is recorded as lost."""
        self._finish(Ending.LOST)

    def _time_out(self) -> None:
        self.on_failure(errors.ReadTimeout("the provider was silent for too long"))

    def _finish(self, ending: Ending) -> None:
        if self._finished:
            return
        self._finished = True
        if self._limit is not None:
            self._limit.cancel()
        self.stop()
        exchange = self._observer.finish(ending, self._context.clock())
        self._context.recorder.record(exchange, lambda: self._settle(exchange))

    def _settle(self, exchange: Exchange) -> None:
        if not self.done.done():
            self.done.set_result(exchange)


def _nothing() -> None:
    """Nobody waits."""


def result_of(
    exchange: Exchange,
    *,
    cached: bool = False,
    said: str | None = None,
    answered_as: Iterable[str] = (),
) -> ReferenceCall:
    """Return what an exchange says as a reference call.

    Arguments:
        cached: a cache answered it.
        said: its text; None where that is not known.
        answered_as: names under which the asked model answered before; none known: any will do.
    """
    cause, timing = exchange.cause, exchange.timing
    reason = _reason(exchange, said)
    answered = _answered(exchange, cached=cached, answered_as=answered_as)
    return ReferenceCall(
        exchange_id=exchange.id,
        started_at=timing.started_at,
        ended_at=timing.started_at + (timing.duration_s or 0.0),
        answered=answered if cause is not None or reason is None else None,
        subcategory=None if cause is None else cause.subcategory,
        reason=reason,
        explained=_refused_itself(exchange),
        timed_out=cause is not None and exchange.timed_out,
        retry_after_s=None if cause is None else cause.retry_after_s,
    )


def _reason(exchange: Exchange, said: str | None) -> str | None:
    """Return the cause's reason; without a cause, why an answer that came whole is none."""
    if exchange.cause is not None:
        return exchange.cause.reason
    if exchange.ending is not Ending.COMPLETE:
        return None
    if exchange.answer_state in _WORDLESS:
        return WORDLESS
    if not lacks_word(exchange.api, said):
        return None
    made = output_tokens(exchange)
    cut = cuts(exchange.finish_reason) or used_up(exchange.output_limit, made)
    return CUT_SHORT if cut else OTHER_WORDS


def _answered(exchange: Exchange, *, cached: bool, answered_as: Iterable[str]) -> bool | None:
    """Return True if the asked model itself answered; None where that is not known."""
    if exchange.cause is not None:
        return False
    if exchange.ending is not Ending.COMPLETE or exchange.answer_state is not AnswerState.READ:
        return None
    if cached or exchange.fallback:
        return None
    before = {name.lower() for name in answered_as}
    named = exchange.answered_model
    if before and named is not None and named.lower() not in before:
        return True if named.lower() == (exchange.model or "").lower() else None
    return True


def _refused_itself(exchange: Exchange) -> bool:
    """Return True if the question was refused: by a stated reason, or as a wrong endpoint."""
    cause = exchange.cause
    if cause is None or cause.subcategory is not Subcategory.REJECTED_REQUEST:
        return False
    if cause.reason == WRONG_SHAPE:
        return False
    return cause.reason is not None or exchange.status in _WRONG_ENDPOINT


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedLane:
    """The subject of a series, and the request forms of its questions.

    ``way``: the failed call's own form; None if it has no plain question. ``usual``: the usual
    form, tried if that one is not answered, and who uses it; None if the own form is the usual one.
    ``answered_as``: names under which the model answered before.
    """

    upstream: str
    name: AskedName
    way: Way | None
    usual: tuple[Way, AskedBy] | None = None
    answered_as: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        """The model's name as it is asked."""
        return self.name.model or ""

    @property
    def api(self) -> str:
        """The API that is asked first; empty if none is."""
        way = self.way or (self.usual and self.usual[0])
        return way.api if way else ""

    @property
    def digest(self) -> str | None:
        """A digest of the ways, for whoever shares a series; None for the plain form."""
        if self.usual is None and self.way == Way(self.api):
            return None
        both = repr((self.way, self.usual, self.name.spelled))
        return hashlib.blake2b(both.encode(), digest_size=8).hexdigest()


class Questioner:
    """Asks series of questions with the operator's key.

    Arguments:
        cost: returns what a question of so many tokens costs in US dollars; None is unknown.
    """

    def __init__(
        self, context: RelayContext, *, cost: Cost = lambda _upstream, _model, _tokens: None
    ) -> None:
        self._context = context
        self._cost = cost
        self._large: set[_Shape] = set()  # that refuse sixteen tokens
        self._served: dict[_Shape, str] = {}  # by another spelling than the registered name

    def tokens(self, lane: AskedLane) -> int:
        """Return the limit of the answers that a lane is asked for."""
        large = (lane.upstream, lane.model, lane.api) in self._large
        return MORE_TOKENS if large else TOKENS

    async def holds_key(self, upstream: Upstream) -> bool:
        """Return True if the operator has a key or credentials for an upstream."""
        keys = self._context.operator_keys
        if upstream.name in keys.static and upstream.auth is not Auth.NONE:
            return True
        signer = self._context.signers.get(upstream.auth)
        return signer is not None and await signer.available()

    async def series(self, lane: AskedLane, *, side_by_side: bool) -> list[ReferenceCall]:
        """Ask up to three questions; the first that is not answered ends the series.

        If none was answered, as many in the usual form follow, if that is another one.
        """
        calls: list[ReferenceCall] = []
        if lane.way is not None:
            calls = await self._in_turn(lane, lane.way, AskedBy.OWN, side_by_side=side_by_side)
        if lane.usual is not None and not any(call.answered for call in calls):
            calls += await self._in_turn(lane, *lane.usual, side_by_side=side_by_side)
        return calls

    async def _in_turn(
        self, lane: AskedLane, way: Way, asked_by: AskedBy, *, side_by_side: bool
    ) -> list[ReferenceCall]:
        asked: list[asyncio.Task[ReferenceCall]] = []
        found: list[ReferenceCall] = []
        try:
            for number in range(QUESTIONS):
                if number:
                    await asyncio.sleep(_APART_S)
                asked.append(asyncio.create_task(self._ask(lane, way)))
                if not side_by_side:
                    found.append(await asked[-1])
                    if not found[-1].answered:
                        break
            if side_by_side:
                for answer in asyncio.as_completed(asked):
                    found.append(await answer)
                    if not found[-1].answered:
                        break
            ordered = sorted(found, key=lambda call: call.started_at)
            return [replace(call, asked_by=asked_by) for call in ordered]
        finally:
            for each in asked:
                each.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    async def _ask(self, lane: AskedLane, way: Way) -> ReferenceCall:
        """Ask one question; again with more tokens, or another spelling, where it needs that.

        A model that is not found by the registered name is asked for by the name that answered.
        """
        shape = lane.upstream, lane.model, way.api
        model, large = self._served.get(shape, lane.model), shape in self._large
        call = await self._ask_once(lane, way, model, large=large)
        spelled = lane.name.spelled
        if spelled not in (None, model) and call.subcategory is Subcategory.MODEL_NOT_FOUND:
            again = await self._ask_once(lane, way, spelled or model, large=large)
            if again.subcategory is not Subcategory.MODEL_NOT_FOUND:
                self._served[shape] = model = spelled or model
            call = again
        too_few = call.explained or call.reason == CUT_SHORT
        if too_few and not large and self._affordable(lane.upstream, model):
            again = await self._ask_once(lane, way, model, large=True)
            if not again.explained:
                self._large.add(shape)
                call = again
        return call if model == lane.model else replace(call, model=model)

    async def _ask_once(
        self, lane: AskedLane, way: Way, model: str, *, large: bool
    ) -> ReferenceCall:
        context, upstream = self._context, self._context.upstreams[lane.upstream]
        asked = question(
            way,
            model=model,
            number=random.randrange(10**12),  # noqa: S311
            base_path=upstream.base_path,
            tokens=MORE_TOKENS if large else TOKENS,
            completion_limit=large and way.api == "openai.chat",
        )
        target = Target(
            rollout_id=REFERENCE, upstream=upstream, role=ROLE, path=asked.path,
            query=asked.query, attribution=Attribution.REFERENCE, proven=False,
        )  # fmt: skip
        key = context.operator_keys.identity(upstream)
        call = Call(
            context.new_id(), REFERENCE, upstream.name, "POST", asked.path, context.wall(),
            context.clock(), asked.headers, asked.query, ROLE, Attribution.REFERENCE,
            dress.key_digest(key, context.salt), False, KeySource.OPERATOR, None,
        )  # fmt: skip
        try:
            origin: Origin = context.transport.origin(upstream.origin)
        except errors.UpstreamError as error:
            origin = NoOrigin(error)
        asking = _Asking(context, call, origin, asked.body)
        try:
            headers = await self._headers(upstream, target, asked)
            message = origin.compose(
                UpstreamRequest("POST", upstream.origin, target.forwarded, headers, asked.body)
            )
            asking.ask(message)
            exchange = await asyncio.shield(asking.done)
        except errors.UpstreamError as error:
            asking.on_failure(error)
            exchange = await asking.done
        except Refusal:  # the credentials cannot be used: nothing was asked
            asking.end()
            exchange = await asking.done
        except BaseException:
            asking.end()
            raise
        return result_of(
            exchange, cached=asking.cached, said=asking.said, answered_as=lane.answered_as
        )

    def _affordable(self, upstream: str, model: str) -> bool:
        cost = self._cost(upstream, model, MORE_TOKENS)
        return cost is None or cost <= TOO_DEAR_USD

    async def _headers(self, upstream: Upstream, target: Target, asked: Question) -> dress.Pairs:
        context = self._context
        real_key = context.operator_keys.static.get(upstream.name)
        headers = dress.for_upstream_as_operator(
            asked.headers, host=upstream.host, auth=upstream.auth, real_key=real_key
        )
        if upstream.auth is Auth.NONE and real_key is not None:
            headers = [pair for pair in headers if pair[0] not in dress.KEY_HEADERS]
        signer = context.signers.get(upstream.auth) if real_key is None else None
        if signer is None:
            return headers
        return await signer.sign(
            upstream=upstream, method="POST", target=target.forwarded, headers=headers,
            body=asked.body,
        )  # fmt: skip
