"""What the relay sends requests through: an interface, and its requests and responses.

`proxy.outbound.http1.transport.Http1Transport` implements it for the service.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol

from proxy.routing.headers import Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Limits of one request in seconds; None is unlimited.

    ``connect_s``: for name resolution, TCP and TLS together. ``read_s``: the longest silence of
    the provider. ``write_s``: the longest time in which it accepts no byte.
    """

    connect_s: float | None = None
    read_s: float | None = None
    write_s: float | None = None


NO_TIMEOUTS = Timeouts()


@dataclass(slots=True)  # mutable: freezing doubles the cost of making one
class UpstreamRequest:
    """A request as it is sent.

    ``origin``: scheme, host and port, as ``https://api.example.com``. ``target``: path and
    query, raw. ``headers``: in order, host included. ``body``: in memory, or still arriving.
    """

    method: str
    origin: str
    target: bytes
    headers: Pairs
    body: bytes | AsyncIterable[bytes]
    timeouts: Timeouts


class ResponseBody(Protocol):
    """A response body as it arrives, still encoded; it is read once."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Iterate over the body; raise UpstreamError where it will never be complete."""
        ...

    def through(self, pass_on: Callable[[bytes], bool]) -> None:
        """Hand each part that arrives while its reader waits to a callback at once.

        A transport may ignore this; every part is then read by iteration.

        Arguments:
            pass_on: returns False for a part that it cannot take now; it is then read by
                iteration.
        """
        ...

    async def aclose(self) -> None:
        """Stop reading; a connection with an unfinished response is closed."""
        ...


@dataclass(slots=True)
class UpstreamResponse:
    """A response whose head has arrived.

    ``headers``: in order, as received. ``whole``: the body, where all of it arrived together
    with the head; ``body`` has it as well.
    """

    status: int
    headers: Pairs
    body: ResponseBody
    whole: bytes | None = None

    async def aclose(self) -> None:
        """Stop reading; a connection with an unfinished response is closed."""
        await self.body.aclose()


class UpstreamTransport(Protocol):
    """Sends requests to providers."""

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        """Send a request and return once the head of its response has arrived.

        Raises:
            UnreachableError: no byte was sent.
            UpstreamError: the request failed afterwards.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection; requests in flight fail."""
        ...
