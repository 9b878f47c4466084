"""Decide when to request a stream's usage for the agent, and strip it from the response.

No request that is signed, encoded or of unknown length is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from proxy.routing import headers as dress
from proxy.routing.headers import Pairs
from proxy.routing.upstreams import Upstream
from proxy.wire.dialect import Headers
from proxy.wire.framing import Decoder, decoder
from proxy.wire.usage_request import UsageFilter

# A longer body is not buffered, and passes unchanged.
BODY_LIMIT = 8 * 1024 * 1024

_NO_LIMIT = 1 << 62  # what is decoded flows on and is not held
_PATH = b"/completions"  # and /chat/completions
_CODINGS = frozenset({b"", b"identity", b"gzip", b"x-gzip", b"deflate", b"br", b"zstd"})


def may_inject(upstream: Upstream, method: str, path: bytes, headers: Pairs) -> bool:
    """Whether a request's head allows ``include_usage``; its body may still forbid it.

    Arguments:
        path: raw, after the upstream, without the query.
        headers: as sent to the upstream, before the service's own credentials.
    """
    if not (upstream.include_usage and method == "POST" and path.endswith(_PATH)):
        return False
    by_name = dress.named(headers)
    length = by_name.get(b"content-length")
    if length is None or not length.isdigit() or int(length) > BODY_LIMIT:
        return False
    if b"content-encoding" in by_name or dress.is_signature(by_name.get(b"authorization", b"")):
        return False
    return b"accept-encoding" not in by_name or _all_known(headers)


class UsageStripper:
    """Strip from a response what only ``include_usage`` added.

    ``headers`` are the response's as the agent gets it. An encoded response is decoded: a
    client that offers an encoding takes a response without one (RFC 9110 §12.5.3).
    """

    __slots__ = ("_decoder", "_filter", "headers")

    def __init__(self, headers: Pairs) -> None:
        """Raise Unreadable where the response has an encoding that nobody offered."""
        codings = [value for name, value in headers if name == b"content-encoding"]
        self._decoder = decoder(codings, _NO_LIMIT)
        self._filter = UsageFilter()
        dropped = {b"content-length"} | ({b"content-encoding"} if self._decoder else set())
        self.headers = [pair for pair in headers if pair[0] not in dropped]

    @property
    def decodes(self) -> bool:
        """Whether the response is encoded, and a chunk of it may be many pieces."""
        return self._decoder is not None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield what the agent gets for this chunk, piece by piece, perhaps empty ones.

        However much an encoded chunk inflates to, only a piece of it is in memory at a time.

        Raises:
            Unreadable: the bytes are not in the encoding that the response states.
        """
        for plain in (chunk,) if self._decoder is None else self._decoded(self._decoder, chunk):
            yield self._filter.feed(plain) if plain else plain

    @staticmethod
    def _decoded(undo: Decoder, chunk: bytes) -> Iterator[bytes]:
        yield undo.start(chunk)
        while undo.behind:
            yield undo.go_on()

    def flush(self) -> bytes:
        """Return what is still held when the response ends."""
        return self._filter.flush()


def is_plain(status: int, headers: Headers) -> bool:
    """Whether a response needs no stripping: it is an error, or no stream."""
    kind = dress.first(headers, b"content-type") or b""
    return status != 200 or b"json" in kind.lower()


def _all_known(headers: Pairs) -> bool:
    """Whether every encoding that the agent offers can be decoded."""
    return all(_known(value) for name, value in headers if name == b"accept-encoding")


@lru_cache(maxsize=256)
def _known(offer: bytes) -> bool:
    return all(_coding(part) in _CODINGS for part in offer.split(b","))


def _coding(part: bytes) -> bytes:
    return part.partition(b";")[0].strip().lower()
