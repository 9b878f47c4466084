"""A client over the service's own connections: it asks, and reads the response when it wants to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from proxy.outbound import errors
from proxy.outbound.connection import ResponseHandler
from proxy.outbound.request import UpstreamRequest
from proxy.outbound.transport import Http1Transport


@dataclass
class Asked:
    """A request, and what yields its body where that arrives in parts."""

    request: UpstreamRequest
    parts: AsyncIterable[bytes] | None = None
    connect_s: float | None = None


async def send(transport: Http1Transport, asked: Asked) -> Any:
    """Send a request, and return its response once its head has arrived.

    It has ``status``, ``headers`` and, once, its body as an asynchronous iterator; ``aclose`` stops
    reading. Raises an UpstreamError as long as there is no head.
    """
    response: Any = _response()(transport.origin(asked.request.origin))
    await response.ask(asked)
    return response


@cache
def _response() -> Callable[[Any], ResponseHandler]:
    """Return the class, late: from a class that is compiled nothing can be derived."""

    class Response(ResponseHandler):
        """A response that is read: what comes is held until somebody reads."""

        def __init__(self, origin: Any) -> None:
            super().__init__(origin, asyncio.get_running_loop())
            self._news = asyncio.Event()
            self._read: list[bytes] = []
            self._is_read = False
            self._over = False
            self._failure: errors.UpstreamError | None = None
            self._room = asyncio.Event()
            self._room.set()

        async def ask(self, asked: Asked) -> None:
            message = self._origin.compose(asked.request)
            if asked.parts is None:
                self.send(message, asked.connect_s)
                await self._head()
                return
            sending = asyncio.create_task(self._upload(asked))
            head = asyncio.create_task(self._head())
            try:
                await asyncio.wait({sending, head}, return_when=asyncio.FIRST_COMPLETED)
                if sending.done():
                    sending.result()
                await head
            except BaseException:
                self.stop()
                raise
            finally:
                for task in (sending, head):
                    task.cancel()

        async def _upload(self, asked: Asked) -> None:
            assert asked.parts is not None
            self.send(self._origin.compose(asked.request), asked.connect_s)
            async for part in asked.parts:
                while self.connection is None and self.error is None:
                    await asyncio.sleep(0.001)
                await self._room.wait()
                self.send_part(part, True)
            self.send_part(b"", False)

        async def _head(self) -> None:
            try:
                while self.status is None:
                    if self._failure is not None:
                        raise self._failure
                    await self._wait()
            except asyncio.CancelledError:
                self.stop()
                raise

        async def _wait(self) -> None:
            self._news.clear()
            await self._news.wait()

        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                self._is_read = True
                self.release()
                while not (self._read or self._over or self._failure):
                    await self._wait()
                self._is_read, self.held = False, True
                read, self._read = b"".join(self._read), []
                if read:
                    yield read
                elif self._failure is not None:
                    raise self._failure
                else:
                    return

        @property
        def body(self) -> AsyncIterator[bytes]:
            return aiter(self)

        async def aclose(self) -> None:
            self.stop()

        def on_unwritable(self) -> None:
            self._room.clear()

        def on_writable(self) -> None:
            self._room.set()

        def on_head(self) -> None:
            if self.bodiless:
                self.take_parts()
            self.held = True
            self._news.set()

        def on_part(self, part: bytes) -> bool:
            if not self._is_read:
                self.held = True
                return False
            self._read.append(part)
            self._news.set()
            return True

        def on_end(self) -> None:
            self._over = True
            self._news.set()

        def on_failure(self, error: errors.UpstreamError) -> None:
            self._failure = error
            self._news.set()

        def on_internal_error(self, error: Exception) -> None:
            raise error

    return Response


async def read(response: Any) -> bytes:
    """Read a body to its end."""
    return b"".join([chunk async for chunk in response.body])
