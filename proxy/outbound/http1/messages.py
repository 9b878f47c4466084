"""httpx's request and response for one who hands them on: nothing is made before it is asked for.

It checks nothing: what is put in goes out, and what came in is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import httpx

Pairs = list[tuple[bytes, bytes]]


class RawHeaders(httpx.Headers):
    """Headers as they are; httpx's index of them is made once somebody looks in.

    A relay hands the raw pairs on and never does: the index is most of what a response costs.
    """

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        self._encoding = None

    @cached_property
    def _list(self) -> list[tuple[bytes, bytes, bytes]]:  # type: ignore[override]
        return [(name, name.lower(), value) for name, value in self._pairs]

    @property
    def raw(self) -> Pairs:
        """Names and values, as received and in order."""
        return super().raw if "_list" in self.__dict__ else self._pairs


class UpstreamRequest(httpx.Request):
    """A request in the parts it is sent from; what httpx has beside them is made when asked for.

    Arguments:
        origin: scheme, host and port, as ``https://api.example.com``.
        target: path and query, raw.
        pairs: the headers.
        body: in memory, or still arriving.
        timeout: httpx's dict: connect, read and write, seconds.
    """

    def __init__(
        self,
        method: str,
        origin: str,
        target: bytes,
        pairs: Pairs,
        body: bytes | httpx.AsyncByteStream,
        timeout: Mapping[str, float | None],
    ) -> None:
        self.method = method
        self.origin = origin
        self.target = target
        self.pairs = pairs
        self.body = body
        self.timeout = timeout

    @cached_property
    def url(self) -> httpx.URL:  # type: ignore[override]
        """Where it goes."""
        return httpx.URL(self.origin + self.target.decode("ascii"))

    @cached_property
    def headers(self) -> RawHeaders:  # type: ignore[override]
        """What it says."""
        return RawHeaders(self.pairs)

    @cached_property
    def stream(self) -> httpx.ByteStream | httpx.AsyncByteStream:  # type: ignore[override]
        """What follows the headers."""
        body = self.body
        return httpx.ByteStream(body) if isinstance(body, bytes) else body

    @cached_property
    def extensions(self) -> dict[str, Any]:  # type: ignore[override]
        """What httpx's transports look for."""
        return {"timeout": self.timeout, "target": self.target}


class ResponseBody(httpx.AsyncByteStream):
    """An answer's body as it arrives."""

    def through(self, pass_on: Callable[[bytes], bool]) -> None:
        """Have each part that comes while its reader waits handed over at once.

        Arguments:
            pass_on: returns False for a part that it cannot take now: it is read as ever.
        """
        raise NotImplementedError

    def leave(self) -> None:
        """Stop listening; a provider that is not done is cut off at once."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Stop listening."""
        self.leave()


class UpstreamResponse(httpx.Response):
    """A response whose head is here, and whose stream is read once.

    The attributes below are what httpx's own begins with.
    """

    is_closed = False
    is_stream_consumed = False
    next_request = None
    default_encoding = "utf-8"
    history = ()  # type: ignore[assignment]
    _request = None
    _num_bytes_downloaded = 0

    def __init__(
        self, status_code: int, pairs: Pairs, stream: ResponseBody, extensions: dict[str, Any]
    ) -> None:
        self.status_code = status_code
        self.pairs = pairs
        self.stream = stream
        self.extensions = extensions

    @cached_property
    def headers(self) -> RawHeaders:  # type: ignore[override]
        """What it says."""
        return RawHeaders(self.pairs)

    async def aclose(self) -> None:
        """Stop listening; without httpx's book-keeping about which request this answers."""
        self.is_closed = True
        stream: httpx.SyncByteStream | httpx.AsyncByteStream = self.stream
        if isinstance(stream, ResponseBody):
            stream.leave()
        elif isinstance(stream, httpx.AsyncByteStream):  # put in its place by httpx's client
            await stream.aclose()


_LEAN = (UpstreamRequest, UpstreamResponse)


def pairs(message: httpx.Request | httpx.Response) -> Pairs:
    """The headers of a request or an answer as they are, whoever made it."""
    if isinstance(message, _LEAN):
        return message.pairs
    return message.headers.raw
