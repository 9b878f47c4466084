"""Decide when to request a stream's usage for the agent, and strip it from the response.

No request that is signed, encoded or of unknown length is changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import orjson

from proxy.routing import headers as http_headers
from proxy.routing.headers import Pairs
from proxy.routing.upstreams import Upstream
from proxy.wire.dialect import Headers, Payload, part
from proxy.wire.framing import Decoder, decoder

# --- OpenAI-compatible streams -----------------------------------------------------------------
# No other byte changes, and nothing is requested if the request itself says yes or no.


# platform.openai.com/docs/api-reference/chat/create#chat-create-stream_options: one more
# chunk before [DONE] with the usage and no choices; all others have "usage": null.
_INCLUDE = b'"include_usage":true'
_OPENING = re.compile(rb"\s*\{")
_OPTIONS = re.compile(rb'"stream_options"\s*:\s*(?:(\{)\s*(\})?|null)')

_EVENT_END = re.compile(rb"\r?\n\r?\n|\r\r")
_ENDS = (b"\n\n", b"\n\r\n", b"\r\r")
_END_BYTES = 4  # of the longest
_SCALAR = rb'(?:"[^"\\]*"|null|true|false|[-+.\deE]+)'
_MEMBER = rb'"[^"\\]*"\s*:\s*' + _SCALAR
_NULL = rb'"usage"\s*:\s*null'
_NO_CHOICES = re.compile(rb'"choices"\s*:\s*\[\s*\]')
# A null usage among the last members, or among the first: before it and the object's
# bracket stand only scalars, so that it is the chunk's own and not one inside a choice.
_NULL_LAST = re.compile(rb",\s*" + _NULL + rb"(?=(?:,\s*" + _MEMBER + rb")*\s*\}\s*$)")
_NULL_FIRST = re.compile(rb"(\s*\{\s*(?:" + _MEMBER + rb",\s*)*)" + _NULL + rb",\s*")
_NULL_BETWEEN = re.compile(rb",\s*" + _NULL)
# The common chunk: one event on one line, its null usage last or with scalars behind it, as
# OpenAI's "obfuscation".
_COMMON = b',"usage":null'
_COMMON_END = re.compile(rb"(?:," + _MEMBER + rb")*\}\n\n\Z")
_HELD_LIMIT = 1_048_576  # bytes of one event


def with_usage(body: bytes) -> bytes | None:
    """Add ``include_usage`` to a request body; None if the body has to stay as it is.

    Arguments:
        body: of a request to chat/completions or completions, complete and not encoded. The
            caller checks that the request is not signed.

    The body stays as it is when it requests no stream, when it has ``include_usage`` (an
    explicit false is respected), or when it is no JSON object.
    """
    request = _object(body)
    if request is None or request.get("stream") is not True:
        return None
    if "stream_options" not in request:
        return _OPENING.sub(lambda opening: opening[0] + _options() + b",", body, count=1)
    options = request["stream_options"]
    if options is not None and (not isinstance(options, dict) or "include_usage" in options):
        return None
    wanted = {**request, "stream_options": {**part(options), "include_usage": True}}
    return _spliced(body, wanted)


def _options() -> bytes:
    return b'"stream_options":{' + _INCLUDE + b"}"


def _spliced(body: bytes, wanted: Payload) -> bytes | None:
    """Splice ``include_usage`` into the body's own options.

    The key may also stand in an earlier tool call's arguments, so each place is tried and
    the result must parse to ``wanted``.
    """
    for place in _OPTIONS.finditer(body):
        if place[1] is None:
            spliced = body[: place.start()] + _options() + body[place.end() :]
        else:
            more = b"" if place[2] else b","
            spliced = body[: place.end(1)] + _INCLUDE + more + body[place.end(1) :]
        if _object(spliced) == wanted:
            return spliced
    return None


class UsageFilter:
    """Restore the stream that the agent would have got without ``include_usage``.

    Arguments:
        nulls: whether to remove ``"usage": null`` from the other chunks too.

    It holds back no more than one unfinished event; one over 1 MiB passes unchanged.
    """

    __slots__ = ("_held", "_nulls", "_passed")

    def __init__(self, *, nulls: bool = True) -> None:
        self._held = b""
        self._nulls = nulls
        self._passed: bytes | None = None  # the last bytes of an event too long to be held

    def feed(self, chunk: bytes) -> bytes:
        """Return the bytes to forward for this chunk; empty where there are none yet."""
        if self._passed is not None:
            return self._pass(self._passed, chunk)
        if not self._held and (common := _common(chunk)) is not None:
            return common if self._nulls else chunk
        unsearched = max(0, len(self._held) - _END_BYTES + 1)
        if self._held:
            chunk, self._held = self._held + chunk, b""
        if chunk.endswith(_ENDS) and b'"usage"' not in chunk:
            return chunk  # whole events without usage
        return b"".join(self._events(chunk, unsearched))

    def flush(self) -> bytes:
        """Return what is held when the stream ends."""
        held, self._held = self._held, b""
        return held

    def _events(self, chunk: bytes, unsearched: int) -> list[bytes]:
        events = []
        start = 0
        for end in _event_ends(chunk, unsearched):
            events.append(self._event(chunk[start:end]))
            start = end
        self._held = chunk[start:]
        if len(self._held) > _HELD_LIMIT:
            self._passed = self._held[1 - _END_BYTES :]
            events.append(self.flush())
        return events

    def _pass(self, before: bytes, chunk: bytes) -> bytes:
        """Forward an event too long to be held up to its end, and go on behind it."""
        joined = before + chunk
        end = next(_event_ends(joined, 0), None)
        if end is None:
            self._passed = joined[1 - _END_BYTES :]
            return chunk
        self._passed = None
        rest = len(joined) - end
        return chunk[: len(chunk) - rest] + self.feed(chunk[len(chunk) - rest :])

    def _event(self, event: bytes) -> bytes:
        """Change the event, leave it out (empty), or return it as it is."""
        if b'"usage"' not in event or not event.startswith(b"data:"):
            return event
        if (common := _common(event)) is not None:
            return common if self._nulls else event
        data = event[5:].strip()
        if b"\n" in data or b"\r" in data:
            return event
        if _NO_CHOICES.search(data) and _only_usage(_object(data) or {}):
            return b""
        return event.replace(data, _without_null(data)) if self._nulls else event


def _event_ends(chunk: bytes, start: int) -> Iterator[int]:
    """Yield where events end, from ``start`` on; ``find`` is cheaper than a regex."""
    if b"\r" in chunk:
        yield from (end.end() for end in _EVENT_END.finditer(chunk, start))
        return
    while (at := chunk.find(b"\n\n", start)) >= 0:
        yield (start := at + 2)


def _common(event: bytes) -> bytes | None:
    """Remove the null usage of a common chunk; None for any other chunk."""
    at = event.rfind(_COMMON)
    if at < 0 or not event.startswith(b"data:") or event.count(b"\n") != 2:
        return None
    end = at + len(_COMMON)
    return event[:at] + event[end:] if _COMMON_END.match(event, end) else None


def _only_usage(payload: Payload) -> bool:
    return payload.get("choices") == [] and isinstance(payload.get("usage"), dict)


def _without_null(data: bytes) -> bytes:
    """Remove a chunk's own null usage from its JSON; one inside a choice stays."""
    if (match := _NULL_LAST.search(data)) is not None:
        return data[: match.start()] + data[match.end() :]
    if (match := _NULL_FIRST.match(data)) is not None:
        return match[1] + data[match.end() :]
    return _without_null_between(data)


def _without_null_between(data: bytes) -> bytes:
    """Try each place where arrays stand on both sides; the result must parse."""
    payload = _object(data) if _NULL_BETWEEN.search(data) else None
    if payload is None or "usage" not in payload or payload["usage"] is not None:
        return data
    wanted = {key: value for key, value in payload.items() if key != "usage"}
    for place in _NULL_BETWEEN.finditer(data):
        stripped = data[: place.start()] + data[place.end() :]
        if _object(stripped) == wanted:
            return stripped
    return data


def _object(data: bytes) -> dict[str, object] | None:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


# --- decision, and the response ----------------------------------------------------------------


# A longer body is not buffered, and passes unchanged.
BODY_LIMIT = 8 * 1024 * 1024

_NO_LIMIT = 1 << 62  # what is decoded flows on and is not held
_PATH = b"/completions"  # and /chat/completions
_CODINGS = frozenset({b"", b"identity", b"gzip", b"x-gzip", b"deflate", b"br", b"zstd"})


def may_inject(upstream: Upstream, method: str, path: bytes, headers: Pairs) -> bool:
    """Return True if a request's head allows ``include_usage``; its body may still forbid it.

    Arguments:
        path: raw, after the upstream, without the query.
        headers: as sent to the upstream, before the service's own credentials.
    """
    if not (upstream.include_usage and method == "POST" and path.rstrip(b"/").endswith(_PATH)):
        return False
    by_name = http_headers.named(headers)
    length = by_name.get(b"content-length")
    if length is None or not length.isdigit() or int(length) > BODY_LIMIT:
        return False
    if b"content-encoding" in by_name or http_headers.is_signature(
        by_name.get(b"authorization", b"")
    ):
        return False
    return b"accept-encoding" not in by_name or _all_known(headers)


class UsageStripper:
    """Strip from a response what only ``include_usage`` added.

    ``headers`` are the response's as the agent gets it. An encoded response is decoded: a
    client that offers an encoding takes a response without one (RFC 9110 §12.5.3).
    """

    __slots__ = ("_decoder", "_filter", "headers")

    def __init__(self, headers: Pairs) -> None:
        """Raise Unreadable where the response has an encoding that nobody offered."""
        codings = [value for name, value in headers if name == b"content-encoding"]
        self._decoder = decoder(codings, _NO_LIMIT)
        self._filter = UsageFilter()
        dropped = {b"content-length"} | ({b"content-encoding"} if self._decoder else set())
        self.headers = [pair for pair in headers if pair[0] not in dropped]

    @property
    def decodes(self) -> bool:
        """True if the response is encoded, so that one chunk of it may be many pieces."""
        return self._decoder is not None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield what the agent gets for this chunk, piece by piece, perhaps empty ones.

        However much an encoded chunk inflates to, only a piece of it is in memory at a time.

        Raises:
            Unreadable: the bytes are not in the encoding that the response states.
        """
        for plain in (chunk,) if self._decoder is None else self._decoded(self._decoder, chunk):
            yield self._filter.feed(plain) if plain else plain

    @staticmethod
    def _decoded(undo: Decoder, chunk: bytes) -> Iterator[bytes]:
        yield undo.start(chunk)
        while undo.behind:
            yield undo.decode_more()

    def flush(self) -> bytes:
        """Return what is still held when the response ends."""
        return self._filter.flush()


def is_plain(status: int, headers: Headers) -> bool:
    """Return True if a response needs no stripping: it is an error, or no stream."""
    kind = http_headers.first(headers, b"content-type") or b""
    return status != 200 or b"json" in kind.lower()


def _all_known(headers: Pairs) -> bool:
    """Return True if every encoding that the agent offers can be decoded."""
    return all(_known(value) for name, value in headers if name == b"accept-encoding")


@lru_cache(maxsize=256)
def _known(offer: bytes) -> bool:
    return all(_coding(part) in _CODINGS for part in offer.split(b","))


def _coding(part: bytes) -> bytes:
    return part.partition(b";")[0].strip().lower()
