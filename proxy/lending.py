"""The server's side of an agent's connection, which lends its transport to the application.

It changes nothing of how uvicorn serves, but that a request which asks for a protocol that is not
spoken here keeps its body, and that calls learn at once that their agent is gone. A drill alone
takes what is lent, to reset it.
"""

from __future__ import annotations

import asyncio

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


class LendingProtocol(HttpToolsProtocol):
    """uvicorn's own protocol; each request's ``scope["state"]["transport"]`` is its connection.

    The parser ends where another protocol would begin, before the body. Java's client offers
    HTTP/2 with every first request (RFC 7540 §3.2), which is then a plain one (RFC 9110 §7.8): its
    body must neither be lost nor be read as a request of its own.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}
        self._cycles: list[RequestResponseCycle] = []

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        except httptools.HttpParserUpgrade as upgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            else:
                self._read_on(data[upgrade.args[0] :])

    def on_headers_complete(self) -> None:
        """Take a request; one that came before its predecessor's answer waits."""
        super().on_headers_complete()
        self._cycles = [one for one in self._cycles if not one.response_complete]
        if self.cycle is not None:
            self._cycles.append(self.cycle)

    def on_message_complete(self) -> None:
        """Take a request's end, unless its body is still to be read."""
        if not self.parser.should_upgrade() or self._should_upgrade():
            super().on_message_complete()

    def eof_received(self) -> None:
        """Take the agent's leaving; its connection closes on our return."""
        self._left()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the connection's end."""
        self._left()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are no HTTP, but not in the middle of an answer."""
        answering = any(one.response_started and not one.response_complete for one in self._cycles)
        self._left()
        if answering:
            self.transport.close()
        else:
            super().send_400_response(msg)

    def _left(self) -> None:
        """Tell every call under way at once: until the connection's end is told to uvicorn, and
        for all but the newest call after that, it would write where nothing can be written."""
        for cycle in self._cycles:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

    def _read_on(self, data: bytes) -> None:
        framing = [b": ".join(pair) for pair in self.headers if pair[0] in _FRAMING]
        self.parser = httptools.HttpRequestParser(_AfterHead(self))
        self.data_received(b"\r\n".join((b"POST / HTTP/1.1", *framing, b"", b"")) + data)


class _AfterHead:
    """Hands on what a parser finds, but for the first head, which was handed on before."""

    def __init__(self, protocol: LendingProtocol) -> None:
        self._to = protocol
        self._known = True
        self.on_body = protocol.on_body

    def on_message_begin(self) -> None:
        if not self._known:
            self._to.on_message_begin()

    def on_url(self, url: bytes) -> None:
        if not self._known:
            self._to.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._known:
            self._to.on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self._known:
            self._to.on_headers_complete()

    def on_message_complete(self) -> None:
        self._known = False
        self._to.on_message_complete()
