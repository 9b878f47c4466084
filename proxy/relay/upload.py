"""The request's body on its way to the provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from proxy.inbound.asgi import Receive
from proxy.relay.agent_watch import AgentWatch
from proxy.relay.context import AgentLeft, BodyTooLarge
from proxy.relay.progress import CallProgress, RelayState


class Upload:
    """A request's body as it arrives; once its last part is here the agent is watched.

    ``arriving``: its last part is not here yet.

    Arguments:
        limit: of its size, in bytes.
    """

    arriving = True
    _parted = False  # it came in more than one part
    _size = 0
    _first = b""  # received, but not handed on

    def __init__(
        self, receive: Receive, progress: CallProgress, watch: AgentWatch, limit: int
    ) -> None:
        self._receive = receive
        self._progress = progress
        self._watch = watch
        self._limit = limit

    async def receive(self) -> bytes:
        """Receive the next part, of which the first mostly is the whole body.

        Raises:
            AgentLeft: nothing more will come.
            BodyTooLarge: the body is over its limit.
        """
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._progress.observer.hold()
            self._progress.state = RelayState.LEFT
            raise AgentLeft
        part: bytes = message.get("body", b"")
        if part:
            self._progress.observer.on_request_body(part)
            self._size += len(part)
            if self._size > self._limit:
                self._progress.state = RelayState.TOO_LARGE
                raise BodyTooLarge
        if message.get("more_body", False):
            self._parted = True
            self._progress.observer.hold()
            return part
        self.arriving = False
        if self._parted:
            self._progress.observer.await_provider(self._progress.clock())
        self._watch.start()
        return part

    async def whole(self, first: bytes) -> bytes:
        """Receive all of the body behind its first part; raises as `receive` does."""
        return b"".join([part async for part in self.after(first)])

    def after(self, first: bytes) -> Upload:
        """Return the body part by part, beginning with what was received of it."""
        self._first = first
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        part, self._first = self._first, b""
        while not part:
            if not self.arriving:
                raise StopAsyncIteration
            try:
                part = await self.receive()
            except asyncio.CancelledError:
                self._watch.start()  # the provider answered already; the agent may still leave
                raise
        return part
