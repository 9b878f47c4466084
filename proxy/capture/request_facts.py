"""The facts of a request that only its body shows, for the checks of a measurement.

The body is looked at once, when it has been parsed, and nothing of it is kept: what stays are
numbers, flags and the id of an earlier exchange.
"""

from __future__ import annotations

from typing import Protocol

from classifier.records import Kind
from proxy.capture.conversations import Conversation, Conversations
from proxy.wire import conversation, routes
from proxy.wire.dialect import Headers, Payload
from proxy.wire.request import KEYS, output_limit, prompt_words
from proxy.wire.written_call import offered

# A body of a few words, with neither instructions nor tools, is no agent's conversation: it is
# not followed.
_FEW_BYTES = 512
_OPENS = conversation.OPENING | {conversation.WRAPPER}
_LOOKED_AT = KEYS | _OPENS
_RETRY = b"x-stainless-retry-count"


class Caller(Protocol):
    """What is to be known of the call: a `Call`."""

    id: str
    rollout_id: str
    role: str
    method: str
    path: bytes
    request_headers: Headers
    client: tuple[str, int] | None


class RequestFacts:
    """What the body of one request says; None is unknown.

    ``output_limit``: tokens that it allows for its answer. ``prompt_words``: words of plain text
    in it, at least. ``continues``: the earlier exchange whose conversation it repeats and goes on.
    ``begun_elsewhere``: whether the same conversation began before from another address.
    ``tools``: the names of the tools that it offers; None where it offers none.

    Arguments:
        conversations: those that are known; None: they are not followed.
    """

    output_limit: int | None = None
    prompt_words: int | None = None
    continues: str | None = None
    begun_elsewhere: bool | None = None
    tools: frozenset[str] | None = None
    _conversation: Conversation | None = None

    def __init__(self, call: Caller, conversations: Conversations | None) -> None:
        self._call = call
        self._conversations = conversations

    def take(self, payload: Payload, body: bytes) -> None:
        """Look at a body, parsed and as it is, decoded."""
        if len(body) < _FEW_BYTES and _LOOKED_AT.isdisjoint(payload):
            return
        if not KEYS.isdisjoint(payload):
            self.output_limit = output_limit(payload)
        opens = not _OPENS.isdisjoint(payload)
        if opens:
            self.tools = offered(payload) or None
        if opens or len(body) >= _FEW_BYTES:
            self._follow(payload, body)

    def _follow(self, payload: Payload, body: bytes) -> None:
        conversations, call = self._conversations, self._call
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

    def _is_resent(self) -> bool:
        """Whether an SDK says that it sends this request again."""
        headers = self._call.request_headers
        return any(name == _RETRY and value != b"0" for name, value in headers)

    def fail(self) -> None:
        """Take that the call was not answered: what repeats it is no second beginning."""
        known = self._conversation
        if known is not None and known.exchange == self._call.id:
            known.failed = True
