"""The failures of a request to a provider: one class for each kind, all `UpstreamError`."""

from __future__ import annotations


class UpstreamError(Exception):
    """A request to a provider failed; the message is safe to show to the agent."""


class UnreachableError(UpstreamError):
    """No connection was established, so no byte of the request was sent."""


class OwnFault(UpstreamError):
    """The service could not connect: it has no descriptor or memory left, or was held up itself.

    It says nothing about the provider.
    """


class ConnectError(UnreachableError):
    """The host name, the TCP connection or the TLS handshake failed."""


class ConnectTimeout(UnreachableError):
    """The connection was not established within the connect timeout."""


class ForwardProxyError(UnreachableError):
    """The operator's forward proxy is misconfigured or refused the tunnel."""


class UpstreamTimeout(UpstreamError):
    """An established connection was silent or stalled for longer than allowed."""


class ReadTimeout(UpstreamTimeout):
    """No byte arrived within the read timeout."""


class WriteTimeout(UpstreamTimeout):
    """No byte could be sent within the write timeout."""


class ReadError(UpstreamError):
    """The connection failed after the request was sent."""


class WriteError(UpstreamError):
    """The connection failed while the request was being sent."""


class RemoteProtocolError(UpstreamError):
    """The provider violated HTTP, or closed the connection before its response was complete."""


class AmbiguousFraming(RemoteProtocolError):
    """The provider states several lengths of one response (RFC 9112 §6.3)."""


class LocalProtocolError(UpstreamError):
    """The request cannot be framed unambiguously (RFC 9112 §11.2), so it was not sent."""


class UnsupportedProtocol(UpstreamError):
    """The origin is neither http:// nor https://."""


class DecodingError(UpstreamError):
    """The response body does not match its content-encoding."""
