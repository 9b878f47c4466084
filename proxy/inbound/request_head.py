"""Heads of requests: what they say, and those that a connection sends again and again."""

from __future__ import annotations

import re
import urllib.parse
from functools import lru_cache
from typing import Any, NamedTuple

import httptools

from proxy.inbound.response_framing import CONTENT_LENGTH
from proxy.routing.headers import Pairs
from proxy.routing.target import CACHED_BYTES

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
        """Take another length; False where it is not stated plainly."""
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
    found = _LENGTH.search(written)
    if found is None or not written.startswith(head.method.encode() + b" "):
        return None
    # As it is written by all who send it on, so that one length has one way to be stated.
    if found[1] != head.headers[place][1] or found[1] != b"%d" % int(found[1]):
        return None
    return RepeatedHead(head, place, written, found.start(1), found.end(1))


def split_uncached(url: bytes) -> tuple[str, bytes, bytes]:
    """Path, decoded and raw, and query of a request's target."""
    parts: Any = httptools.parse_url(url)  # its types know no URL without a query
    path = parts.path.decode("ascii")
    return urllib.parse.unquote(path) if "%" in path else path, parts.path, parts.query or b""


split_target = lru_cache(maxsize=1024)(split_uncached)
