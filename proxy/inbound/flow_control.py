"""Flow control of an agent's connection: when to read from it, and when to write to it."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

_NO_LINGER = struct.pack("ii", 1, 0)  # close with a RST and discard what was not yet sent


class FlowControl:
    """A transport and the pauses of its two directions.

    ``held``: the agent is not read from. ``write_paused``: the transport's buffer is full.
    ``when_room``: called once, when there is room in it again or the connection is lost.
    """

    __slots__ = ("_writers", "held", "loop", "transport", "when_room", "write_paused")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.transport = transport
        self.loop = loop
        self.write_paused = False
        self.when_room: Callable[[], None] | None = None
        self.held = False
        self._writers: list[asyncio.Future[None]] = []

    def hold(self) -> None:
        """Stop reading."""
        if not self.held:
            self.held = True
            self.transport.pause_reading()

    def go_on(self) -> None:
        """Read again."""
        if self.held:
            self.held = False
            self.transport.resume_reading()

    def resume_writing(self) -> None:
        """Wake everyone who waits for room."""
        self.write_paused = False
        wake_all(self._writers)
        then, self.when_room = self.when_room, None
        if then is not None:
            then()

    async def drain(self) -> None:
        """Wait until there is room in the buffer, or the connection is lost."""
        await wait_for_wake(self._writers, self.loop)

    def reset(self) -> None:
        """End the connection with a RST, as a crashed peer or an impatient firewall does."""
        connection = self.transport.get_extra_info("socket")
        with socket.socket(fileno=socket.dup(connection.fileno())) as same:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()


def wake_all(waiting: list[asyncio.Future[None]]) -> None:
    """Wake everyone who waits."""
    for waiter in waiting:
        if not waiter.done():
            waiter.set_result(None)


async def wait_for_wake(
    waiting: list[asyncio.Future[None]], loop: asyncio.AbstractEventLoop
) -> None:
    """Wait until `wake_all` is called."""
    waiter = loop.create_future()
    waiting.append(waiter)
    try:
        await waiter
    finally:
        waiting.remove(waiter)
