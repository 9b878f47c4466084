"""A provider that plays scripts over a real socket: heads, chunks, pauses, cuts and lies.

It never judges what it is asked; what it should answer is said beforehand.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Self, TypeAlias, assert_never


@dataclass(frozen=True, slots=True)
class Pause:
    """Say nothing for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Say nothing until the test sets the event."""

    until: threading.Event


@dataclass(frozen=True, slots=True)
class Cut:
    """End the connection here: with a FIN, or with a RST."""

    reset: bool = False


@dataclass(frozen=True, slots=True)
class Hang:
    """Say nothing more until the caller leaves."""


Step: TypeAlias = bytes | Pause | Wait | Cut | Hang


class Framing(StrEnum):
    """How the caller learns where the body ends."""

    LENGTH = "content-length"
    CHUNKED = "chunked"
    EOF = "eof"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it arrived: the target raw, header names as spelled, in order."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""
    at: float = field(default_factory=time.monotonic)

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def header(self, name: str) -> str | None:
        """The first header of that name, in any case."""
        return next((v for n, v in self.headers if n.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One HTTP answer: a head, and a body whose steps are written one by one.

    ``interim`` are 1xx answers before it. ``length`` lies about the content-length.
    ``early`` answers before the request's body has been read.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)
    body: tuple[Step, ...] = ()
    framing: Framing = Framing.LENGTH
    interim: tuple[tuple[int, tuple[tuple[str, str], ...]], ...] = ()
    length: int | None = None
    early: bool = False

    @property
    def content(self) -> bytes:
        """All the bytes of the body, as if nothing cut it."""
        return b"".join(step for step in self.body if isinstance(step, bytes))

    def with_headers(self, *more: tuple[str, str]) -> Answer:
        return replace(self, headers=self.headers + more)

    def paced(self, seconds: float) -> Answer:
        """The same with a pause before every chunk but the first."""
        spaced: list[Step] = []
        for step in self.body:
            spaced += [Pause(seconds), step] if spaced else [step]
        return replace(self, body=tuple(spaced))

    def stopping_after(self, chunks: int, *steps: Step) -> Answer:
        """The same with ``steps`` put in after so many chunks (a cut, a hang, a wait)."""
        return replace(self, body=self.body[:chunks] + steps + self.body[chunks:])

    def in_pieces(self, size: int) -> Answer:
        """The same bytes, written so many at a time."""
        whole = self.content
        pieces = tuple(whole[i : i + size] for i in range(0, len(whole), size))
        return replace(self, body=pieces)

    def steps(self, method: str) -> Iterator[Step]:
        """What goes over the wire, in order."""
        for status, headers in self.interim:
            yield _head(status, headers)
        yield _head(self.status, self.headers + self._framing_headers())
        if method == "HEAD":
            return
        for step in self.body:
            if isinstance(step, bytes) and self.framing is Framing.CHUNKED:
                yield b"%x\r\n%b\r\n" % (len(step), step)
            else:
                yield step
        if self.framing is Framing.CHUNKED:
            yield b"0\r\n\r\n"
        if self.framing is Framing.EOF:
            yield Cut()

    def _framing_headers(self) -> tuple[tuple[str, str], ...]:
        match self.framing:
            case Framing.LENGTH:
                length = len(self.content) if self.length is None else self.length
                return (("content-length", str(length)),)
            case Framing.CHUNKED:
                return (("transfer-encoding", "chunked"),)
            case Framing.EOF:
                return (("connection", "close"),)
            case never:
                assert_never(never)


Played: TypeAlias = Answer | tuple[Step, ...]
Script: TypeAlias = Played | Callable[[Request], Played]

_NOT_FOUND = Answer(status=404, body=(b'{"error":{"message":"no script for this path"}}',))


class Provider:
    """A server on a loopback port with a thread of its own, from ``with`` to its end.

    ``requests`` fills as calls come in; ``left`` counts the calls whose caller hung up
    before the script was over; ``connections`` those that were opened.
    """

    def __init__(
        self,
        *everywhere: Script,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self.left = 0
        self.connections = 0
        self.url = ""
        self.says_continue = True
        self._address = (host, port)
        self._tls = tls
        self._scripts: dict[str | None, list[Script]] = {}
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fake provider", daemon=True)
        if everywhere:
            self.plays(*everywhere)

    def plays(self, *scripts: Script, path: str | None = None) -> None:
        """Answer with these in turn, the last one again and again; on any path, or on one."""
        self._scripts[path] = list(scripts)

    def wait_for(self, requests: int, timeout_s: float = 300) -> list[Request]:
        """Return the requests once so many have come, or fail."""
        with self._changed:
            came = self._changed.wait_for(lambda: len(self.requests) >= requests, timeout_s)
        assert came, f"{len(self.requests)} requests came, not {requests}"
        return self.requests

    def wait_until_left(self, times: int = 1, timeout_s: float = 300) -> None:
        """Return once so many callers have hung up early, or fail."""
        with self._changed:
            came = self._changed.wait_for(lambda: self.left >= times, timeout_s)
        assert came, f"{self.left} callers left, not {times}"

    def __enter__(self) -> Self:
        self._listener = socket.create_server(self._address, backlog=1024)
        host, port = self._listener.getsockname()[:2]
        self.url = f"{'https' if self._tls else 'http'}://{host}:{port}"
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Listen no more, and close what is open; nothing where it has ended."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._main.cancel)
            self._thread.join(60)

    def _run(self) -> None:
        self._main = self._loop.create_task(self._serve())
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._main)
        self._loop.close()

    async def _serve(self) -> None:
        calls: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._converse(reader, writer))
            calls.add(task)
            task.add_done_callback(calls.discard)

        server = await asyncio.start_server(accept, sock=self._listener, limit=2**20, ssl=self._tls)
        try:
            await asyncio.Event().wait()
        finally:
            server.close()
            for task in calls:
                task.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until either side ends it."""
        self.connections += 1
        # asyncio does so only for sockets that name their protocol; 40 ms a call without.
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        gone = (ConnectionError, asyncio.IncompleteReadError)
        try:
            with contextlib.suppress(*gone):
                while await self._exchange(reader, writer):
                    pass
        finally:
            writer.close()
            with contextlib.suppress(*gone):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Hear one request and play its script; whether the connection goes on."""
        request = _parsed(await reader.readuntil(b"\r\n\r\n"))
        script = self._next(request.path)
        if isinstance(script, Answer) and script.early:
            return await self._play(script.steps(request.method), request, reader, writer)
        if self.says_continue and (request.header("expect") or "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request = replace(request, body=await _read_body(request, reader))
        self._hear(request)
        goes_on = await self._play(_steps(script, request), None, reader, writer)
        return goes_on and (request.header("connection") or "").lower() != "close"

    def _hear(self, request: Request) -> None:
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()

    def _next(self, path: str) -> Script:
        scripts = self._scripts.get(path) or self._scripts.get(None) or [_NOT_FOUND]
        return scripts.pop(0) if len(scripts) > 1 else scripts[0]

    async def _play(
        self,
        steps: Iterator[Step],
        unheard: Request | None,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        if unheard:
            self._hear(unheard)
        for step in steps:
            try:
                if not await _take(step, reader, writer):
                    return False
            except ConnectionError:
                with self._changed:
                    self.left += 1
                    self._changed.notify_all()
                raise
        return unheard is None  # an unread body cannot be told from a next request


def _steps(script: Script, request: Request) -> Iterator[Step]:
    played = script if isinstance(script, Answer | tuple) else script(request)
    return iter(played) if isinstance(played, tuple) else played.steps(request.method)


async def _take(step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Do one step; False where it ends the connection."""
    match step:
        case bytes():
            writer.write(step)
            await writer.drain()
        case Pause(seconds=seconds):
            await _while_here(reader, asyncio.sleep(seconds))
        case Wait(until=event):
            await _while_here(reader, _set(event))
        case Hang():
            await _while_here(reader, asyncio.Event().wait())
        case Cut(reset=reset):
            if reset:
                await _until_read(writer)
                _linger_zero(writer)
                writer.transport.abort()
            return False
        case never:
            assert_never(never)
    return True


async def _while_here(reader: asyncio.StreamReader, waiting: object) -> None:
    """Await something, unless the caller hangs up first.

    Raises:
        ConnectionResetError: the caller left.
    """
    ends = asyncio.ensure_future(waiting)  # type: ignore[call-overload]
    leaves = asyncio.ensure_future(_end(reader))
    try:
        await asyncio.wait({ends, leaves}, return_when=asyncio.FIRST_COMPLETED)
        if leaves.done() and not ends.done():
            raise ConnectionResetError("the caller left")
    finally:
        ends.cancel()
        leaves.cancel()
        await asyncio.gather(ends, leaves, return_exceptions=True)


async def _end(reader: asyncio.StreamReader) -> None:
    """Return when the caller has sent its FIN or RST; looks without taking anything."""
    while not reader.at_eof() and reader.exception() is None:
        await asyncio.sleep(0.005)


async def _set(event: threading.Event) -> None:
    while not event.is_set():
        await asyncio.sleep(0.002)


async def _until_read(writer: asyncio.StreamWriter, patience_s: float = 5.0) -> None:
    """Return when the caller has taken all that reached it: a RST throws the rest away.

    One that reads nothing is waited for so long at most.
    """
    here, there = (writer.get_extra_info(name)[1] for name in ("sockname", "peername"))
    deadline = time.monotonic() + patience_s
    while _unread(at=there, of=here) and time.monotonic() < deadline:
        await asyncio.sleep(0.002)


def _unread(*, at: int, of: int) -> int:
    """How many bytes wait at the port ``at`` that came from ``of``; 0 where Linux does not say."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            _, local, remote, _, queues, *_ = line.split()
            if (int(local.partition(":")[2], 16), int(remote.partition(":")[2], 16)) == (at, of):
                return int(queues.partition(":")[2], 16)
    return 0


def _linger_zero(writer: asyncio.StreamWriter) -> None:
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _head(status: int, headers: tuple[tuple[str, str], ...]) -> bytes:
    known = {s.value: s.phrase for s in HTTPStatus}
    lines = [f"HTTP/1.1 {status} {known.get(status, 'Status')}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _parsed(head: bytes) -> Request:
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    method, target, _ = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    return Request(
        method=method,
        target=target,
        headers=tuple((name, value.strip()) for name, _, value in pairs),
    )


async def _read_body(request: Request, reader: asyncio.StreamReader) -> bytes:
    if (request.header("transfer-encoding") or "").lower() == "chunked":
        return b"".join([chunk async for chunk in _chunks(reader)])
    return await reader.readexactly(int(request.header("content-length") or 0))


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int((await reader.readline()).partition(b";")[0], 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)
    while (await reader.readline()).strip():
        pass  # trailers


_closed: list[socket.socket] = []  # which hold their ports


def closed_port() -> int:
    """A loopback port on which nobody listens, held: no socket and no other caller is given it.

    Who sets SO_REUSEADDR, as servers do, may listen on it, and come back to it.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _closed.append(holder)
    return int(holder.getsockname()[1])


def main() -> None:
    """Serve healthy answers of every dialect until interrupted."""
    from tests.fakes import answers

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9100)
    options = parser.parse_args()
    with Provider(answers.healthy, host=options.host, port=options.port) as provider:
        print(f"a fake provider on {provider.url}", flush=True)  # noqa: T201
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
