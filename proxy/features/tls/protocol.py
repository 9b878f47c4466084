"""TLS on an agent's connection, below `HttpProtocol` and the WebSocket's protocol class.

Unlike the event loop's own it has unfinished handshakes in the table of connections, where they end
and make room as unfinished heads do; it keeps no buffer while a connection rests; it waits for
nobody's close_notify (RFC 8446 §6.1 asks it of neither side); and it tells an agent that speaks
plain HTTP what is the matter.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Iterable
from typing import Any, Final, cast

from uvicorn.config import Config
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.server import ServerState

from proxy.features.tls.certificate import Certificate
from proxy.inbound.connections import Waiting, descriptor_of, table_of
from proxy.inbound.http import HttpProtocol
from proxy.routing.errors import Refusal

_HANDSHAKE_BYTES: Final = 64 * 1024  # of one handshake, of which a sound one takes 2 kB
_READ_BYTES: Final = 16 * 1024  # a TLS record holds no more (RFC 8446 §5.1)
_UNREAD_BYTES: Final = 1024 * 1024  # sent to an agent that reads none of it and asks for new keys
_HANDSHAKE: Final = 0x16  # the first byte of a record that begins one
_ASKED_PLAINLY = Refusal(400, "tls_required", "this port speaks TLS only: use https://")


class TlsTransport(asyncio.Transport):
    """A transport that speaks TLS for a protocol, on top of a connection's own transport."""

    def __init__(
        self, line: asyncio.Transport, tls: ssl.SSLObject, received: ssl.MemoryBIO,
        sent: ssl.MemoryBIO,
    ) -> None:  # fmt: skip
        super().__init__()
        self._line = line
        self._tls = tls
        self._received, self._sent = received, sent
        self._protocol: asyncio.BaseProtocol | None = None
        self._over = False  # nothing is written any more

    # the connection's

    def take(self, data: bytes) -> None:
        """Decrypt bytes of the connection, and hand on what they say."""
        received, tls = self._received, self._tls
        received.write(data)
        parts, left = [], False
        try:
            while received.pending or tls.pending():
                part = tls.read(_READ_BYTES)
                if not part:
                    left = True
                    break
                parts.append(part)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            left = True
        except ssl.SSLError:
            self._over = True
            self._flush()  # the alert
            self._line.close()
            return
        if self._sent.pending:  # an answer to a KeyUpdate
            if self._line.get_write_buffer_size() > _UNREAD_BYTES:
                self.abort()
                return
            self._flush()
        protocol = cast("asyncio.Protocol | None", self._protocol)
        if parts and protocol is not None and not self._over:
            protocol.data_received(parts[0] if len(parts) == 1 else b"".join(parts))
        if left:
            self.take_end()
            self.close()

    def take_end(self) -> None:
        """Note that the agent will send nothing more."""
        protocol = cast("asyncio.Protocol | None", self._protocol)
        if protocol is not None and not self._over:
            protocol.eof_received()

    def lost(self, exc: Exception | None) -> None:
        """Note that the connection is closed."""
        self._over = True
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(exc)

    def full(self) -> None:
        """Take that the connection's buffer is full."""
        if self._protocol is not None:
            cast(asyncio.Protocol, self._protocol).pause_writing()

    def emptied(self) -> None:
        """Take that there is room in it again."""
        if self._protocol is not None:
            cast(asyncio.Protocol, self._protocol).resume_writing()

    # the protocol's: asyncio.Transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes."""
        if self._over or not data:
            return
        try:
            self._tls.write(data)  # whole: memory is never full
        except ssl.SSLError:
            self.abort()
            return
        self._line.write(self._sent.read())

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send parts as one."""
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        """Send what was written, and that it was all; then close the connection."""
        if self._over:
            return
        self._over = True
        with contextlib.suppress(ssl.SSLError):  # it would wait for the agent's own
            self._tls.unwrap()
        self._flush()
        self._line.close()

    def abort(self) -> None:
        """Close the connection, and discard what was not yet sent."""
        self._over = True
        self._line.abort()

    def is_closing(self) -> bool:
        """Return True if nothing is written any more."""
        return self._over or self._line.is_closing()

    def pause_reading(self) -> None:
        """Read nothing from the connection."""
        self._line.pause_reading()

    def resume_reading(self) -> None:
        """Read from it again."""
        self._line.resume_reading()

    def is_reading(self) -> bool:
        """Return True if the connection is being read from."""
        return self._line.is_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Have another protocol go on."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol that is fed."""
        return cast(asyncio.BaseProtocol, self._protocol)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return a fact about TLS, else about the connection."""
        if name == "sslcontext":
            return self._tls.context
        return self._tls if name == "ssl_object" else self._line.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        """Return how many bytes were not yet sent."""
        return self._line.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when the protocol is told to pause, and to go on."""
        self._line.set_write_buffer_limits(high, low)

    def can_write_eof(self) -> bool:
        """TLS has no half-closed connections."""
        return False

    def _flush(self) -> None:
        if self._sent.pending:
            self._line.write(self._sent.read())


class TlsProtocol(asyncio.Protocol):
    """An agent's connection: its handshake here, all else by `HttpProtocol` through a transport.

    Arguments:
        certificate: what an agent is shown before it may speak.
    """

    __slots__ = ("_address", "_bytes", "_config", "_line", "_loop", "_received", "_sent", "_server",
                 "_state", "_table", "_tls", "_transport", "quiet", "waiting")  # fmt: skip

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        certificate: Certificate,
    ) -> None:
        self._config, self._server, self._state = config, server_state, app_state
        self._loop = _loop
        app: Any = config.loaded_app
        app = app.app if isinstance(app, ProxyHeadersMiddleware) else app
        self._table = table_of(server_state, app)
        self._received, self._sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = certificate.context()
        self._tls = context.wrap_bio(self._received, self._sent, server_side=True)
        self._transport: TlsTransport | None = None  # once hands are shaken
        self._bytes = 0
        self._address = ""
        self.quiet = 0
        self.waiting: Waiting | None = None

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection; where there is no room its handshake is too much already."""
        line = self._line = cast(asyncio.Transport, transport)
        peer = line.get_extra_info("peername")
        self._address = peer[0] if isinstance(peer, tuple) else ""
        self._server.connections.add(self)  # type: ignore[arg-type]  # its own kinds only
        connections = len(self._server.connections)
        refusal = self._table.enter(self, self._address, descriptor_of(line), connections)
        if refusal is not None:
            self._table.refusals.note(refusal.code)
            line.abort()

    def data_received(self, data: bytes) -> None:
        """Take bytes: of the handshake first, then of what it protects."""
        if self._transport is not None:
            self._transport.take(data)
            return
        if not self._bytes and data[0] != _HANDSHAKE:
            self._answer_plainly(data)
            return
        self._bytes += len(data)
        self._received.write(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            if self._bytes > _HANDSHAKE_BYTES:
                self._fail()
        except ssl.SSLError:
            self._flush()  # the alert
            self._fail()
        else:
            self._flush()
            self._begin()

    def eof_received(self) -> None:
        """Note that the agent is gone; asyncio closes the connection on return."""
        if self._transport is not None:
            self._transport.take_end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the connection's end."""
        if self._transport is not None:
            self._transport.lost(exc)
        else:
            self._depart()

    def pause_writing(self) -> None:
        """Take that the connection's buffer is full."""
        if self._transport is not None:
            self._transport.full()

    def resume_writing(self) -> None:
        """Take that there is room in it again."""
        if self._transport is not None:
            self._transport.emptied()

    # uvicorn's, and the table's, until hands are shaken

    def shutdown(self) -> None:
        """End a handshake that the service will not live to see."""
        self._line.abort()

    def waits_for(self) -> Waiting | None:
        """Return what is waited for: a handshake takes no longer than a head."""
        return None if self._line.is_closing() else Waiting.HEAD

    def end(self, refusal: Refusal | None) -> None:
        """Close the connection; there is no saying why before hands are shaken."""
        if refusal is not None and self._bytes:
            self._table.refusals.note(refusal.code)
        self._line.abort()

    def _begin(self) -> None:
        """Let `HttpProtocol` have the connection, and what came with the handshake's end."""
        self._depart()
        transport = self._transport = TlsTransport(
            self._line, self._tls, self._received, self._sent
        )
        http = HttpProtocol(self._config, self._server, self._state, self._loop)
        transport.set_protocol(http)
        http.connection_made(transport)
        transport.take(b"")

    def _depart(self) -> None:
        self._server.connections.discard(self)
        self._table.leave(self._address, self)

    def _fail(self) -> None:
        self._table.refusals.note("tls_handshake")
        self._line.close()

    def _answer_plainly(self, data: bytes) -> None:
        """Tell an agent that speaks HTTP why it is not heard; anybody else, nothing."""
        if data[:1].isalpha():
            headers, body = self._table.problem(_ASKED_PLAINLY)
            lines = [*map(b": ".join, headers), b"connection: close", b"", body]
            self._line.write(STATUS_LINE[_ASKED_PLAINLY.status] + b"\r\n".join(lines))
            self._line.close()
        else:
            self._fail()

    def _flush(self) -> None:
        if self._sent.pending:
            self._line.write(self._sent.read())
