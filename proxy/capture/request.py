"""The request of a call as the observer sees it: route, headers, body, and its conversation."""

from __future__ import annotations

import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias
from urllib.parse import parse_qsl, unquote

from classifier.records import Attribution, KeySource, Kind
from proxy.routing import headers as http_headers
from proxy.wire import conversation, request, routes
from proxy.wire.dialect import Headers, Payload
from proxy.wire.request import FEW_BYTES, KEYS, RequestReader, output_limit, prompt_words
from proxy.wire.written_call import offered

# --- conversations of a rollout: which call continues which ------------------------------------
# Kept in memory are numbers: counts, places, and digests of sampled messages. A digest is the
# interpreter's own ``hash`` of a sample together with the rollout and a secret of this process
# that is never shown. Nobody outside sees a digest, so a cryptographic one would protect nothing
# more; an agent that could aim at one could only have its own conversation taken for another of
# its own; and 64 bits tell the few messages of a rollout apart.


_ROLLOUTS: Final = 4_096
_EACH: Final = 8  # conversations of a rollout
_NEW_MESSAGES: Final = 16  # of one request that are looked through, at most
_BEGINNING: Final = 4  # messages, at most
_MIDDLE: Final = 4  # times as far from the end as from the beginning, at most
_FAILED: Final = 128  # beginnings of a rollout that were not answered

_Secret = tuple[bytes, str]  # the process's, and the rollout


@dataclass(slots=True, eq=False)
class Conversation:
    """One conversation as of its newest call, whose exchange is ``exchange``.

    ``count`` is its number of messages; ``first``, ``last`` and ``middle`` (at ``middle_at``, where
    that is not 0) are digests of some, the first one with instructions, tools and model. ``begun``
    is a digest of its beginning, which came from ``address``; 0 where nobody saw that. ``plain``:
    nothing but text and tool calls in all of it. ``earlier``: the exchange that the newest one
    goes on with. ``failed``: the newest call was not answered.
    """

    exchange: str
    count: int
    first: int
    last: int
    plain: bool
    begun: int
    address: str | None
    middle_at: int = 0
    middle: int = 0
    earlier: str | None = None
    failed: bool = False


# What one request is to those before it: its conversation; the exchange whose whole conversation
# it repeats and goes on, all of it plain; whether the same conversation began before from another
# address, None if the request begins none; whether what was looked through is text and tool
# calls alone.
Turn = tuple[Conversation, str | None, bool | None, bool]


class Conversations:
    """The conversations that rollouts have at the moment; the least recently used are forgotten.

    Arguments:
        secret: drawn by this process for these conversations alone.
        rollouts: how many are known at once.
        each: how many conversations of each.

    Attributes:
        failed: the beginnings that were not answered, of each rollout whose requests are compared
            with those before them: the exchange by the digest of its last message.
    """

    def __init__(self, secret: bytes, *, rollouts: int = _ROLLOUTS, each: int = _EACH) -> None:
        self._secret = secret
        self._rollouts: OrderedDict[str, list[Conversation]] = OrderedDict()
        self._limit = rollouts
        self._each = each
        self.failed: OrderedDict[str, OrderedDict[int, str]] = OrderedDict()
        self.jobs = BegunJobs(secret)

    def follow(
        self,
        rollout: str,
        exchange: str,
        payload: Payload,
        messages: Sequence[object],
        *,
        model: object = None,
        address: str | None = None,
    ) -> Turn:
        """Take a request, and say what it is to those before it.

        Arguments:
            exchange: the request's own.
            payload: the request that has the messages, of which there is one at least.
            model: that is asked; conversations with different models have nothing in common.
            address: of the client; None is unknown.
        """
        known = self._of(rollout)
        count = len(messages)
        secret = (self._secret, rollout)
        sample = conversation.sample(messages[0])
        model = model if isinstance(model, str) else None
        first = hash((secret, model, sample, conversation.opening(payload)))
        before = _longest(known, first, messages, secret) if known else None
        start = 0 if before is None else before.count
        plain = _are_plain(messages, start)
        last = hash((secret, sample)) if count == 1 else _digest(secret, messages[-1])
        begun, elsewhere = 0, None
        begins = plain and start in (0, count) and _begins(messages)
        if begins and (conversation.HELD.isdisjoint(payload) or not conversation.goes_on(payload)):
            inner = [_digest(secret, message) for message in messages[1:-1]]
            begun = hash((first, *inner, last))
            if address is not None:
                elsewhere = any(_is_twin(each, begun, address) for each in known)
                if before is not None and before.address != address:
                    before = None  # its twin, which another client began
        plain = plain and not conversation.is_edited(payload)
        whole = plain and count - start <= _NEW_MESSAGES
        if before is None:
            now = Conversation(exchange, count, first, last, whole, begun, address)
            if len(known) >= self._each:
                del known[0]
        else:
            now = before
            known.remove(now)
            if count > start:
                now.earlier = now.earlier if now.failed else now.exchange
            now.exchange, now.count, now.last = exchange, count, last
            now.plain, now.failed = whole and now.plain, False
        if count >= _MIDDLE and count >= _MIDDLE * now.middle_at:
            now.middle_at = count // 2
            now.middle = _digest(secret, messages[now.middle_at])
        known.append(now)
        return now, now.earlier if now.plain else None, elsewhere, plain

    def compare(self, rollout: str) -> OrderedDict[int, str]:
        """Compare a rollout's requests from now on; return its beginnings that were not answered.

        It has a call that failed, or an agent that is not trusted.
        """
        failed = self.failed.setdefault(rollout, OrderedDict())
        self.failed.move_to_end(rollout)
        if len(self.failed) > self._limit:
            self.failed.popitem(last=False)
        return failed

    def fail(self, rollout: str, exchange: str, last: int) -> None:
        """Take a beginning that was not answered.

        Its last message tells it, whatever else of the request changes when it is sent again,
        unless another conversation ends in the same one: then it is a formula.
        """
        failed, known = self.compare(rollout), self._rollouts.get(rollout, ())
        if any(each.last == last and each.exchange != exchange for each in known):
            return
        failed[last] = exchange
        if len(failed) > _FAILED:
            failed.popitem(last=False)

    def digest(self, rollout: str, message: object) -> int:
        """Return the digest of a rollout's message."""
        return _digest((self._secret, rollout), message)

    def failed_before(self, rollout: str, messages: Sequence[object]) -> str | None:
        """Return the beginning that was not answered and that a request repeats or goes on."""
        failed = self.failed[rollout]
        for message in reversed(messages[-_NEW_MESSAGES:] if failed else ()):
            exchange = failed.get(self.digest(rollout, message))
            if exchange is not None:
                return exchange
        return None

    def _of(self, rollout: str) -> list[Conversation]:
        """Return the known conversations of a rollout, the latest used last."""
        known = self._rollouts.get(rollout)
        if known is None:
            known = self._rollouts[rollout] = []
            if len(self._rollouts) > self._limit:
                self._rollouts.popitem(last=False)
        else:
            self._rollouts.move_to_end(rollout)
        return known


def _digest(secret: _Secret, message: object) -> int:
    return hash((secret, conversation.sample(message)))


def _longest(
    known: Sequence[Conversation], first: int, messages: Sequence[object], secret: _Secret
) -> Conversation | None:
    """Return the longest of the conversations that the messages repeat, up to all of them."""
    longest = None
    for each in known:
        if each.first != first or each.count > len(messages):
            continue
        if longest is not None and each.count <= longest.count:
            continue
        if each.count > 1 and _digest(secret, messages[each.count - 1]) != each.last:
            continue
        if each.middle_at and _digest(secret, messages[each.middle_at]) != each.middle:
            continue
        longest = each
    return longest


def _are_plain(messages: Sequence[object], start: int) -> bool:
    """Return True if the messages from ``start`` on, or the last few, are text and tool calls."""
    for place in range(max(start, len(messages) - _NEW_MESSAGES), len(messages)):
        if not conversation.is_plain(messages[place]):
            return False
    return True


def _begins(messages: Sequence[object]) -> bool:
    return len(messages) <= _BEGINNING and conversation.is_unanswered(messages)


def _is_twin(other: Conversation, begun: int, address: str) -> bool:
    return other.begun == begun and other.address != address and not other.failed


# --- what answers began: jobs that are fetched later -------------------------------------------


_JOBS: Final = 128  # ids of a rollout
_SEGMENTS: Final = 16  # of a path, the last, of which any may be an id


_QUERY = 2048  # bytes of a query in which an id is looked for
_Begun: TypeAlias = tuple[str, Kind, str | None]  # the id, and the call that began it


class BegunJobs:
    """The jobs that answers of a rollout began, by id; the least recently begun are forgotten.

    Arguments:
        secret: drawn by this process: ids are kept as numbers that nobody can aim at.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._rollouts: OrderedDict[str, OrderedDict[int, _Begun]] = OrderedDict()

    def note(
        self, rollout: str, began: str, kind: Kind, model: str | None, also: str | None = None
    ) -> None:
        """Take the id that an answer gave, what its call was for, and the model that it asked.

        Arguments:
            also: another id that it gave.
        """
        known = self._rollouts.setdefault(rollout, OrderedDict())
        self._rollouts.move_to_end(rollout)
        known[hash((self._secret, rollout, also or began))] = (began, kind, model)
        if len(known) > _JOBS:
            known.popitem(last=False)
        if len(self._rollouts) > _ROLLOUTS:
            self._rollouts.popitem(last=False)

    def route(self, rollout: str, path: bytes, query: bytes, usual: routes.Route) -> routes.Route:
        """Return the route of a GET, which may fetch what was begun; else the usual one."""
        known = self._rollouts.get(rollout)
        if known is None:
            return usual
        segments = unquote(path.decode("latin-1")).rsplit("/", _SEGMENTS)
        stated = parse_qsl(query[:_QUERY].decode("latin-1")) if query else ()
        for named in (*reversed(segments), *(value for _, value in stated)):
            job = known.get(hash((self._secret, rollout, named)))
            if job is not None:
                return _fetching(usual, *job)
        return usual


def _fetching(usual: routes.Route, began: str, kind: Kind, model: str | None) -> routes.Route:
    if usual.kind is Kind.CONTINUATION:
        return replace(usual, continues=began)
    if usual is _UNKNOWN_GET or (kind is Kind.INFERENCE and usual.kind is Kind.ACTIVITY):
        return routes.fetching(began, kind=kind, model=model)
    return usual


# --- facts that only the body shows, for validity checks ---------------------------------------
# The body is read once, when it has been parsed, and nothing of it is kept but numbers, flags and
# the id of an earlier exchange.


# A body of a few words, with neither instructions nor tools, is no agent's conversation: it is
# not followed.
_OPENS = conversation.OPENING | {conversation.WRAPPER}
_LOOKED_AT = KEYS | _OPENS
_RETRY = b"x-stainless-retry-count"


class Caller(Protocol):
    """The facts about a call that are needed here; a `Call` has them."""

    id: str
    rollout_id: str
    role: str
    method: str
    path: bytes
    request_headers: Headers
    client: tuple[str, int] | None


class RequestFacts:
    """The facts in the body of one request; None means unknown.

    ``output_limit``: tokens that it allows for its answer. ``prompt_words``: words of plain text
    in it, at least. ``continues``: the earlier exchange whose conversation it repeats and goes on.
    ``begun_elsewhere``: the same conversation began before from another address.
    ``tools``: the names of the tools that it offers; None if it offers none.
    ``compared``: with the beginnings of its rollout that were not answered.

    Arguments:
        conversations: those that are known; None: they are not followed.
    """

    output_limit: int | None = None
    prompt_words: int | None = None
    continues: str | None = None
    begun_elsewhere: bool | None = None
    tools: frozenset[str] | None = None
    compared: bool = False
    _conversation: Conversation | None = None

    def __init__(self, call: Caller, conversations: Conversations | None) -> None:
        self._call = call
        self.conversations = conversations

    def take(self, payload: Payload, body: bytes) -> None:
        """Look at a body, parsed and as it is, decoded."""
        if len(body) >= FEW_BYTES or not _LOOKED_AT.isdisjoint(payload):
            self._look(payload, body)
        known = self.conversations
        if known is not None and self._call.rollout_id in known.failed:
            self._compare(payload, known)

    def _look(self, payload: Payload, body: bytes) -> None:
        if not KEYS.isdisjoint(payload):
            self.output_limit = output_limit(payload)
        opens = not _OPENS.isdisjoint(payload)
        if opens:
            self.tools = offered(payload) or None
        if opens or len(body) >= FEW_BYTES:
            self._follow(payload, body)

    def _follow(self, payload: Payload, body: bytes) -> None:
        conversations, call = self.conversations, self._call
        request = conversation.unwrapped(payload)
        messages = conversation.messages_of(request)
        if conversations is None or messages is None:
            return
        route = routes.route(call.method, call.path)
        if route.kind is not Kind.INFERENCE:
            return
        self._conversation, self.continues, elsewhere, plain = conversations.follow(
            call.rollout_id if call.role == "agent" else f"{call.rollout_id} {call.role}",
            call.id,
            request,
            messages,
            model=route.model or payload.get("model"),
            address=call.client[0] if call.client else None,
        )
        self.begun_elsewhere = None if elsewhere and self._is_resent() else elsewhere
        words = prompt_words(body) if plain else None
        if words is not None and not conversation.defers_tools(request):
            self.prompt_words = words

    def _compare(self, payload: Payload, known: Conversations) -> None:
        """Look whether the request is one that failed before, sent again in other words."""
        messages = self._messages(payload)
        if messages is None:
            return
        self.compared = True
        if self.continues is None:
            self.continues = known.failed_before(self._call.rollout_id, messages)

    def _messages(self, payload: Payload) -> Sequence[object] | None:
        """Return the messages of an agent's inference call, and note if they begin something."""
        call, request = self._call, conversation.unwrapped(payload)
        messages = conversation.messages_of(request)
        if messages is None or call.role != "agent":
            return None
        if routes.route(call.method, call.path).kind is not Kind.INFERENCE:
            return None
        begins = self.continues is None and _begins(messages)
        if self.begun_elsewhere is None and begins and not conversation.goes_on(request):
            self.begun_elsewhere = False
        return messages

    def _is_resent(self) -> bool:
        """Return True if an SDK says that it sends this request again."""
        headers = self._call.request_headers
        return any(name == _RETRY and value != b"0" for name, value in headers)

    def fail(self, payload: Payload) -> None:
        """Take that the call was not answered: what repeats it is no second beginning.

        Arguments:
            payload: of its body; empty where that was freed.
        """
        known, call, conversations = self._conversation, self._call, self.conversations
        last = None
        if known is not None and known.exchange == call.id:
            known.failed, last = True, known.last
            if known.begun and self.continues is None and self.begun_elsewhere is None:
                self.begun_elsewhere = False
        if conversations is None or call.role != "agent":
            return
        conversations.compare(call.rollout_id)
        messages = self._messages(payload)
        if messages is not None:
            last = conversations.digest(call.rollout_id, messages[-1])
        if last is not None and self.begun_elsewhere is not None and self.continues is None:
            conversations.fail(call.rollout_id, call.id, last)


# --- the call and its head ---------------------------------------------------------------------


class HeadFacts(NamedTuple):
    """The facts in a request's head: its route, and the values of its headers."""

    route: routes.Route
    encodings: Sequence[bytes]
    sdk_retry: int | None
    traceparent: bytes | None
    selected: request.Selected


@dataclass(slots=True)
class Call:
    """One call as the relay sends it.

    ``path`` is raw, after the upstream, without the query. ``started_at`` is in seconds
    since the epoch, ``began`` the same moment on the monotonic clock of every ``at``.
    ``request_headers`` have lower-case names. ``client`` is the address and the port
    of the connection that it came by.
    """

    id: str
    rollout_id: str
    upstream: str
    method: str
    path: bytes
    started_at: float
    began: float
    request_headers: Headers = ()
    query: bytes = b""
    role: str = "agent"
    attribution: Attribution = Attribution.PATH
    key_digest: str | None = None
    injected: bool = False
    key_source: KeySource | None = None
    client: tuple[str, int] | None = None


def head_facts(
    method: str, path: bytes, query: bytes, request_headers: Headers, *, operators_key: bool
) -> HeadFacts:
    """Return what a request's head says of it; the other arguments are as in `Call`.

    Arguments:
        operators_key: the call takes the operator's key, in place of its caller's.
    """
    headers = http_headers.named(request_headers)
    encodings: Sequence[bytes] = ()
    if b"content-encoding" in headers:
        encodings = [v for name, v in request_headers if name == b"content-encoding"]
    selected: request.Selected = ()
    if query or request.may_select(headers):
        selected = request.in_head(headers, query, operators_key=operators_key)
    return HeadFacts(
        routes.route(method, path),
        encodings,
        _retry_count(headers.get(b"x-stainless-retry-count")),
        headers.get(b"traceparent"),
        selected,
    )


_UNKNOWN_GET: Final = routes.UNKNOWN_GET


class CapturedRequest:
    """The request of one call: its route, what its headers state, and a reader of its body.

    Arguments:
        conversations: those that the call may go on with; None: they are not followed.
        salt: key of the request's digest; the same in every process of a service.
        limit: most bytes held of the body.
        head: what `head_facts` returns of the call; None: it is read here.
    """

    __slots__ = ("body", "call", "facts", "route", "salt", "sdk_retry", "selected",
                 "traceparent")  # fmt: skip

    def __init__(
        self,
        call: Call,
        conversations: Conversations | None = None,
        *,
        salt: bytes,
        limit: int,
        head: HeadFacts | None = None,
    ) -> None:
        self.call = call
        self.salt = salt
        head = head or head_facts(
            call.method, call.path, call.query, call.request_headers,
            operators_key=call.key_source is KeySource.OPERATOR,
        )  # fmt: skip
        self.route, encodings, self.sdk_retry, self.traceparent, self.selected = head
        if call.method == "GET" and conversations is not None:
            jobs = conversations.jobs
            self.route = jobs.route(call.rollout_id, call.path, call.query, self.route)
        self.facts = RequestFacts(call, conversations)
        self.body = RequestReader(encodings, limit, self.facts)

    def selector_digest(self) -> str | None:
        """Return a salted digest of what the request chooses beside its model; None: nothing."""
        return request.digest(self.selected + self.body.selected, self.salt)

    def fail(self) -> None:
        """Take that the call was not answered."""
        self.body.fields()  # lest it be looked at only after this
        with contextlib.suppress(Exception):  # as everywhere here
            self.facts.fail(self.body.payload())

    def ambiguous(self) -> bool:
        """Return True if the body must name the model and does not."""
        return self.route.kind is Kind.INFERENCE and not self.route.model

    def digest(self) -> str | None:
        """Return a salted digest by which a repeated request is known again."""
        line = self.call.method.encode() + b" " + self.call.path + b"\n"
        return self.body.digest(self.salt, line)

    def begun(self, response_id: str, kind: Kind, model: str | None) -> str:
        """Take the id of a response that can be fetched later; return its digest.

        Arguments:
            kind: what the call is on record as, and the model that it asked.
        """
        conversations = self.facts.conversations
        if conversations is not None and self.call.method == "POST":
            conversations.jobs.note(self.call.rollout_id, response_id, kind, model)
        return response_digest(response_id, self.salt)

    def offers(self, ids: Sequence[str], response_id: str, kind: Kind, model: str | None) -> None:
        """Take more ids by which a response may be asked for; the others are those of `begun`."""
        conversations = self.facts.conversations
        if conversations is not None:
            for each in ids:
                conversations.jobs.note(self.call.rollout_id, response_id, kind, model, each)


@lru_cache(maxsize=8)
def id_hash(salt: bytes) -> Callable[[bytes], Any]:
    """Return the function of the digests of response ids under a service's secret.

    REST answers with such digests of whatever it is given: no other digest is made alike.
    """
    return partial(hashlib.blake2b, digest_size=8, key=salt[:64], person=b"response id")


def response_digest(response_id: str, salt: bytes) -> str:
    """Return the salted 8-byte digest of a response's id, as exchanges are stored with it."""
    digest: str = id_hash(salt)(response_id.encode("utf-8", "replace")).hexdigest()
    return digest


def _retry_count(value: bytes | None) -> int | None:
    return int(value) if value is not None and value.isdigit() and len(value) < 5 else None
