"""Read the model, the stream flag and the tools of a request body."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

import orjson

from proxy.wire.dialect import Payload, model_name, part
from proxy.wire.framing.encoding import decoder
from proxy.wire.selection import (
    ESCAPE,
    MODEL,
    UNUSUAL,
    Selected,
    in_body,
    writes_model_twice,
)
from proxy.wire.unreadable import Unreadable

# The model, whether the response is to be streamed, and whether tools are offered; None is
# unknown, for a body that is no JSON object.
RequestFields = tuple[str | None, bool | None, bool | None]
UNKNOWN: RequestFields = (None, None, None)


class BodyFacts(Protocol):
    """Who else looks at a request body once it is parsed, and keeps nothing of it."""

    def take(self, payload: Payload, body: bytes) -> None:
        """Look at a JSON object, and at the bytes that it was read from."""
        ...


class RequestReader:
    """Buffer a request body, up to a limit, until it has been read.

    Arguments:
        encodings: the values of its ``Content-Encoding`` headers.
        limit: most bytes held, encoded and decoded.
        facts: looks at the whole body too; whatever goes wrong there stays there.
    """

    __slots__ = ("_encodings", "_facts", "_fields", "_limit", "_pieces", "ambiguous",
                 "selected", "size")  # fmt: skip

    def __init__(
        self, encodings: Sequence[bytes], limit: int, facts: BodyFacts | None = None
    ) -> None:
        self._encodings = encodings
        self._limit = limit
        self._facts = facts
        self._pieces: list[bytes] | None = []
        self._fields: RequestFields | None = None
        self.ambiguous = False  # the model is written twice, or the body cannot be read
        self.selected: Selected = ()
        self.size = 0

    def feed(self, chunk: bytes, parsed: Payload | None = None) -> None:
        """Take a piece of the body as it was sent.

        Arguments:
            parsed: a whole body's object, where it is not encoded and somebody has parsed it.
        """
        self.size += len(chunk)
        if self._pieces is not None:
            self._fields = None  # a response may begin before its request's end
            self._pieces.append(chunk)
            if self.size > self._limit:
                self._pieces = None
            elif parsed is not None:
                self._fields = self._of_object(parsed, chunk)

    def discard(self) -> None:
        """Free the body; the fields that were read stay."""
        self._pieces = None

    def fields(self) -> RequestFields:
        """Return the fields of the body so far; unknown for one over its limit."""
        if self._fields is None:
            self._fields = self._read() if self._pieces else UNKNOWN
        return self._fields

    def digest(self, salt: bytes, line: bytes) -> str | None:
        """Return a salted 8-byte digest of request line and body; None once discarded."""
        if self._pieces is None:
            return None
        digest = hashlib.blake2b(line, key=salt[:64], digest_size=8)
        for piece in self._pieces:
            digest.update(piece)
        return digest.hexdigest()

    def _read(self) -> RequestFields:
        pieces = self._pieces or [b""]
        if not self._encodings:
            # An incomplete body, or one that is no object, is not worth parsing.
            whole = pieces[-1].rstrip().endswith(b"}")
            return self._of_whole(b"".join(pieces)) if whole else UNKNOWN
        body = b"".join(pieces)
        try:
            undo = decoder(self._encodings, self._limit)
            return self._of_whole(undo.feed(body) if undo else body)
        except Unreadable:
            self.ambiguous = True
            return UNKNOWN

    def _of_whole(self, body: bytes) -> RequestFields:
        """Read a whole JSON body, decoded.

        It is parsed once, whole: one pass of orjson costs what two searches for a key cost
        (61 µs against 2 × 36 for 123 kB), and a search cannot tell a key of the request from
        the same key in an earlier tool call's arguments.
        """
        self.ambiguous = True
        try:
            payload = orjson.loads(body)
        except orjson.JSONDecodeError:
            return UNKNOWN
        return self._of_object(payload, body) if isinstance(payload, dict) else UNKNOWN

    def _of_object(self, payload: Payload, body: bytes) -> RequestFields:
        self.ambiguous = False
        # Backwards, since CPython's search skips then: over 100 kB it takes a third of the time.
        escaped = b"\\" in body and body.rfind(ESCAPE) >= 0
        at = body.rfind(MODEL)
        once = at >= 0 and body.rfind(MODEL, 0, at) < 0
        if escaped or not once or not UNUSUAL.isdisjoint(payload):
            self.ambiguous = writes_model_twice(body, payload)
            self.selected = in_body(payload)
        if self._facts is not None:
            try:
                self._facts.take(payload, body)
            except Exception:  # observing must not break relaying, nor what follows here
                self._facts = None
        tools = not _TOOL_KEYS.isdisjoint(payload) and _has_tools(payload)
        return model_name(payload.get("model")), payload.get("stream") is True, tools


# ``functions`` is OpenAI's before tools; ``toolConfig`` holds them at Converse; Code Assist
# wraps the whole request (gemini-cli).
_TOOL_KEYS = frozenset(("tools", "functions", "toolConfig", "request"))


def _has_tools(payload: Payload) -> bool:
    return _tools(payload) or _tools(part(payload.get("request")))


def _tools(payload: Payload) -> bool:
    configured = part(payload.get("toolConfig")).get("tools")
    return any((payload.get("tools"), payload.get("functions"), configured))
