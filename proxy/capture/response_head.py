"""The head of a response: its status, and what its headers state about the call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from proxy.wire import dialect, usage
from proxy.wire.dialect import Headers, word

# Where providers put the id of their response, the provider's own before a gateway's.
_REQUEST_IDS = (b"x-request-id", b"request-id", b"x-amzn-requestid", b"x-generation-id",
                b"apim-request-id", b"x-goog-request-id", b"x-ds-trace-id",
                b"x-litellm-call-id")  # fmt: skip
_NAMING = frozenset(_REQUEST_IDS)

_STATING = usage.HEADERS | dialect.HEADERS  # headers of which any states something of the call


@dataclass(slots=True)
class ResponseHead:
    """The head of one response.

    ``headers`` have lower-case names; ``first_byte_s`` is in seconds since the call began;
    ``stated_usage`` are the counts that headers state, ``served_by`` and ``fallback`` who
    answered, as they say.
    """

    status: int | None = None  # None: no response came
    headers: Headers = ()
    first_byte_s: float | None = None
    request_id: str | None = None
    stated_usage: Mapping[str, float] | None = None
    served_by: str | None = None
    fallback: bool | None = None

    def take(self, by_name: Mapping[bytes, bytes]) -> None:
        """Take what the headers say, by name."""
        if not _NAMING.isdisjoint(by_name):
            self.request_id = request_id(by_name)
        if not _STATING.isdisjoint(by_name):
            self.stated_usage = usage.in_headers(by_name)
            self.served_by = dialect.served_by(by_name)
            self.fallback = dialect.fallback(by_name)


NO_HEAD = ResponseHead()


def request_id(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the provider's own id of the response, from its headers by name."""
    if _NAMING.isdisjoint(headers):
        return None
    name = next(name for name in _REQUEST_IDS if name in headers)
    return word(headers[name].decode("latin-1"))
