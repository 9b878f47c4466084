"""HTTP/1.1 request parser for agents' connections, on top of httptools.

A request whose upgrade is declined is read on as a plain one, with its body (RFC 9110 §7.8).
"""

from __future__ import annotations

import re
import urllib.parse
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import httptools

from proxy.inbound.response import CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING
from proxy.routing.headers import Pairs
from proxy.routing.target import CACHED_BYTES

# --- request heads -----------------------------------------------------------------------------


_END = b"\r\n\r\n"
_REMEMBERED_BYTES = 8192  # bytes of a head, as long as the connection lasts
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,15})\r\n", re.IGNORECASE)
# A head with one of these is framed otherwise, or asks for more than an answer.
_UNUSUAL = frozenset({b"transfer-encoding", b"upgrade", b"expect"})


class RequestHead(NamedTuple):
    """The head of a request.

    ``path`` is decoded; ``raw_path`` and ``query`` are as received. Names of headers are in lower
    case.
    """

    method: str
    path: str
    raw_path: bytes
    query: bytes
    version: str
    headers: Pairs


def request_head(method: bytes, url: bytes, version: str, headers: Pairs) -> RequestHead:
    """Return the head of a request as it was parsed."""
    split = split_target if len(url) < CACHED_BYTES else split_uncached
    path, raw_path, query = split(url)
    return RequestHead(method.decode("ascii"), path, raw_path, query, version, headers)


class RepeatedHead:
    """A head that came before: the same bytes, but for the body's length, say the same again.

    ``head`` and ``length`` are those of the request that came last.
    """

    __slots__ = ("_after", "_at", "_before", "_most", "_named", "_place", "_stated", "head",
                 "length")  # fmt: skip

    def __init__(self, head: RequestHead, place: int, written: bytes, at: int, end: int) -> None:
        self._before, self._stated, self._after = written[:at], written[at:end], written[end:]
        self._at = at
        self._most = at + 15 + len(self._after)
        self._place = place  # of the length among the headers
        self._named = head[:5]  # all but the headers
        self.head = head
        self.length = int(self._stated)

    def body_in(self, data: bytes) -> bytes | None:
        """Return what came of the body, where data begins with this head and has nothing behind.

        ``head`` and ``length`` are the request's then.
        """
        after, at = self._after, self._at
        end = data.find(after, at, self._most)
        if end < 0 or not data.startswith(self._before):
            return None
        stated = data[at:end]
        if stated != self._stated and not self._restate(stated):
            return None
        body = data[end + len(after) :]
        return body if len(body) <= self.length else None

    def _restate(self, stated: bytes) -> bool:
        """Take another length; False if it is not stated plainly."""
        length = int(stated) if stated.isdigit() else -1
        if b"%d" % length != stated:
            return False
        headers = self.head.headers.copy()  # those of the last request may still be looked at
        headers[self._place] = CONTENT_LENGTH, stated
        self.head = RequestHead(*self._named, headers)
        self._stated, self.length = stated, length
        return True


def repeated_head(head: RequestHead, data: bytes) -> RepeatedHead | None:
    """Return what knows a head again; None for one that is not plain.

    Arguments:
        data: bytes that begin where the head does.
    """
    names = [name for name, _ in head.headers]
    end = data.find(_END, 0, _REMEMBERED_BYTES)
    if end < 0 or names.count(CONTENT_LENGTH) != 1 or not _UNUSUAL.isdisjoint(names):
        return None
    place, written = names.index(CONTENT_LENGTH), data[: end + len(_END)]
    match = _LENGTH.search(written)
    if match is None or not written.startswith(head.method.encode() + b" "):
        return None
    # As it is written by all who send it on, so that one length has one way to be stated.
    if match[1] != head.headers[place][1] or match[1] != b"%d" % int(match[1]):
        return None
    return RepeatedHead(head, place, written, match.start(1), match.end(1))


def split_uncached(url: bytes) -> tuple[str, bytes, bytes]:
    """Path, decoded and raw, and query of a request's target."""
    parts: Any = httptools.parse_url(url)  # its types know no URL without a query
    path = parts.path.decode("ascii")
    return urllib.parse.unquote(path) if "%" in path else path, parts.path, parts.query or b""


split_target = lru_cache(maxsize=1024)(split_uncached)


# --- parser ------------------------------------------------------------------------------------


_FRAMING = frozenset({CONTENT_LENGTH, TRANSFER_ENCODING})
_ONE_READ = 256 * 1024  # the most bytes that an event loop hands over at once
# Heads of a connection that are remembered, one after the other. Not the first: many connections
# have one request. No more: who sends others each time gains nothing.
_REMEMBERED_HEADS = range(2, 6)


class RequestHandler(Protocol):
    """Takes what a parser finds in an agent's bytes."""

    def on_request(self, head: RequestHead, keep_alive: bool) -> None:
        """Take a request's head; ``keep_alive``: the connection outlives it."""
        ...

    def on_repeated(self, head: RepeatedHead, body: bytes, more_body: bool) -> None:
        """Take a request whose head came before, with what came of its body."""
        ...

    def on_body(self, body: bytes) -> None:
        """Take a part of a request's body."""
        ...

    def on_request_end(self) -> None:
        """Take a request's end."""
        ...


class RequestParser:
    """HTTP/1.1 requests out of bytes, through httptools, whose callbacks its methods are.

    A client writes the same head again and again, but for the length of the body: the same bytes
    at the same place say the same, so that httptools need not read them, nor count that body.

    httptools stops where another protocol would begin, before the body. Java's client offers
    HTTP/2 with every first request (RFC 7540 §3.2), which is then a plain one (RFC 9110 §7.8): its
    body must neither be lost nor be read as a request of its own.

    ``head_bytes``: how much of an unfinished head was read; None between heads. In a chunked
    body: how much came since the last part of the body, so that a trailer is bounded as a head is
    (httptools keeps a line until it ends); below zero for the read that the last part came with.
    """

    __slots__ = (
        "_between", "_from_head", "_handler", "_headers", "_heads", "_lacking", "_parser",
        "_repeated", "_resumed", "_upgrades", "_url", "head_bytes",
    )  # fmt: skip

    def __init__(self, handler: RequestHandler) -> None:
        self._handler = handler
        self._url = b""
        self._headers: Pairs | None = None  # None behind the head: a trailer is dropped
        self.head_bytes: int | None = None
        self._upgrades = False
        self._resumed = False  # a body is read behind a head that was handed on before
        self._between = True  # nothing of the next request came
        self._from_head = b""  # what is being read, where a request begins with it
        self._heads = 0
        self._repeated: RepeatedHead | None = None
        self._lacking = 0  # bytes of the body behind a repeated head
        self._parser: Any = self._new_parser()

    def feed(self, data: bytes) -> bool:
        """Parse bytes; True if a WebSocket's upgrade request is complete.

        Raises:
            httptools.HttpParserError: they are no HTTP/1.1.
        """
        if self._between:
            known = self._repeated
            if known is not None and (body := known.body_in(data)) is not None:
                lacking = self._lacking = known.length - len(body)
                self._between = lacking == 0
                self._handler.on_repeated(known, body, lacking > 0)
                return False
            self._from_head = data
        elif self._lacking:
            return self._feed_body(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._from_head = b""
            if self._wants_websocket():
                return True
            return self._resume(data[upgrade.args[0] :])
        if self.head_bytes is not None:
            self.head_bytes += len(data)
        return False

    def _feed_body(self, data: bytes) -> bool:
        """Take what follows a repeated head, and then what follows its body."""
        body, rest = data[: self._lacking], data[self._lacking :]
        self._lacking -= len(body)
        self._handler.on_body(body)
        if self._lacking:
            return False
        self._between = True
        self._handler.on_request_end()
        return bool(rest) and self.feed(rest)

    def upgrade_request(self) -> bytes:
        """Serialize the head of the WebSocket's upgrade request."""
        first = b"%b %b HTTP/1.1" % (self._parser.get_method(), self._url)
        return b"\r\n".join((first, *map(b": ".join, self._headers or ()), b"", b""))

    def close(self) -> None:
        """Let go of httptools' parser, which refers back to this one."""
        self._parser = None

    # httptools' callbacks

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._between = False
        if not self._resumed:
            self._url = b""
            self._headers = []
            self.head_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        if not self._resumed:
            self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; behind the body it is a trailer, and dropped (RFC 9110 §6.5.1)."""
        if self._headers is not None:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Hand on a head."""
        self.head_bytes = None
        parser, headers = self._parser, self._headers
        if headers is None:  # resumed: this head was handed on before
            return
        self._upgrades = parser.should_upgrade()
        if not self._upgrades:
            self._headers = None
        elif self._wants_websocket():
            return
        version = parser.get_http_version()
        keep_alive = version != "1.0" and parser.should_keep_alive()
        head = request_head(parser.get_method(), self._url, version, headers)
        self._remember(head, keep_alive)
        self._handler.on_request(head, keep_alive)

    def on_chunk_header(self) -> None:
        """Count from here what is no body: the last chunk has none, and a trailer behind it."""
        self.head_bytes = -_ONE_READ

    def on_body(self, body: bytes) -> None:
        """Hand on a part of a body."""
        self.head_bytes = None
        self._handler.on_body(body)

    def on_message_complete(self) -> None:
        """Hand on a request's end, unless its body is still to be read."""
        if not self._upgrades:
            self._resumed = False
            self._between = True
            self.head_bytes = None
            self._handler.on_request_end()

    def _remember(self, head: RequestHead, keep_alive: bool) -> None:
        data, self._from_head = self._from_head, b""  # no other head begins with it
        self._heads += 1
        if data and keep_alive and not self._upgrades and self._heads in _REMEMBERED_HEADS:
            self._repeated = repeated_head(head, data)

    # upgrades

    def _wants_websocket(self) -> bool:
        named = dict(self._headers or ())
        tokens = [token.strip().lower() for token in named.get(CONNECTION, b"").split(b",")]
        wanted = named[b"upgrade"].lower() if b"upgrade" in tokens and b"upgrade" in named else b""
        return wanted == b"websocket"

    def _resume(self, body: bytes) -> bool:
        """Parse on behind a head whose upgrade is declined.

        httptools reads nothing behind an upgrade, so that a new parser is told how the body is
        framed: by a head of which only the framing is the agent's, and which is not handed on.
        """
        framing = [b": ".join(pair) for pair in self._headers or () if pair[0] in _FRAMING]
        self._upgrades = False
        self._headers = None
        self._resumed = True
        self._parser = self._new_parser()
        return self.feed(b"\r\n".join((b"POST / HTTP/1.1", *framing, b"", b"")) + body)

    def _new_parser(self) -> Any:
        parser: Any = httptools.HttpRequestParser(self)
        # What follows a request that asked to close does not harm its response.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser
