"""A server of bare sockets: it hears a request, then writes bytes that no library would.

It knows no HTTP beyond where a request ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Reset:
    """End the connection with a RST."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Say nothing, for so many seconds."""

    seconds: float = 0.02


@dataclass(frozen=True, slots=True)
class Stay:
    """Keep the connection for the next request."""


Step: TypeAlias = bytes | Reset | Silence | Stay
Handler: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Heard:
    """What a server was told, and by how many connections."""

    port: int = 0
    host: str = "127.0.0.1"
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connections: int = 0
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)

    def url(self, path: str = "/", scheme: str = "http") -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def serving(
    handler: Handler, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Run a handler for each connection; gives the port."""
    calls: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls.add(task := asyncio.current_task())  # type: ignore[arg-type]
        try:
            with contextlib.suppress(OSError, EOFError):
                await handler(reader, writer)
        finally:
            calls.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, host, 0, ssl=tls, limit=2**20)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tuple(calls):
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


@asynccontextmanager
async def playing(
    *scripts: Sequence[Step], host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Heard]:
    """Answer the first request with the first script, and so on; the last one over and over.

    A script closes the connection at its end, unless its last step is ``Stay``.
    """
    heard = Heard(host=host)
    left = list(scripts)

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.connections += 1
        try:
            while True:
                await hear(reader, heard)
                script = left.pop(0) if len(left) > 1 else left[0]
                if not await play(script, writer):
                    return
        except (OSError, EOFError):
            heard.hung_up.set()
            raise

    async with serving(handler, host=host, tls=tls) as heard.port:
        yield heard


async def hear(reader: asyncio.StreamReader, heard: Heard) -> None:
    """Read one request, as its head frames it."""
    head = await reader.readuntil(b"\r\n\r\n")
    lowered = head.lower()
    body = b""
    if b"\r\ntransfer-encoding: chunked\r\n" in lowered:
        while size := int((await reader.readline()).partition(b";")[0], 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    elif b"\r\ncontent-length:" in lowered:
        value = lowered.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
        body = await reader.readexactly(int(value))
    heard.heads.append(head)
    heard.bodies.append(body)


async def play(script: Sequence[Step], writer: asyncio.StreamWriter) -> bool:
    """Write a script; whether the connection stays."""
    for step in script:
        match step:
            case bytes():
                writer.write(step)
                await writer.drain()
            case Silence(seconds=seconds):
                await asyncio.sleep(seconds)
            case Reset():
                reset(writer)
                return False
            case Stay():
                return True
    return False


def reset(writer: asyncio.StreamWriter) -> None:
    """Cut a connection with a RST."""
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
