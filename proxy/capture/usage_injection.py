"""When a stream is asked for its usage on the agent's behalf, and how it becomes the agent's again.

It changes no request that is signed, encoded or of unknown length, and keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from proxy.routing import headers as dress
from proxy.routing.headers import Pairs
from proxy.routing.upstreams import Upstream
from proxy.wire.framing.encoding import Decoder, decoder
from proxy.wire.usage_request import UsageStripper

# Above this a body is not held in memory to be looked at, and passes as it comes.
BODY_LIMIT = 8 * 1024 * 1024

_NO_LIMIT = 1 << 62  # what is decoded flows on and is not held
_PIECE = 1024  # bytes of an encoded answer undone at once: a megabyte at most
_PATH = b"/completions"  # and /chat/completions
_CODINGS = frozenset({b"", b"identity", b"gzip", b"x-gzip", b"deflate", b"br", b"zstd"})


def may_ask(upstream: Upstream, method: str, path: bytes, headers: Pairs) -> bool:
    """Whether a call's head allows its usage to be asked for; its body may still forbid it.

    Arguments:
        path: raw, after the upstream, without the query.
        headers: as dressed for the upstream, before the service's own credentials.
    """
    if not (upstream.include_usage and method == "POST" and path.endswith(_PATH)):
        return False
    seen = dress.named(headers)
    length = seen.get(b"content-length")
    if length is None or not length.isdigit() or int(length) > BODY_LIMIT:
        return False
    if b"content-encoding" in seen or dress.is_signature(seen.get(b"authorization", b"")):
        return False
    return b"accept-encoding" not in seen or _all_known(headers)


class UsageRemover:
    """An answer without what only the asking added.

    ``headers`` are those of the answer as the agent gets it. One that comes encoded is
    decoded: whoever offers an encoding takes an answer without one (RFC 9110 §12.5.3).
    """

    __slots__ = ("_decoder", "_stripper", "headers")

    def __init__(self, headers: Pairs) -> None:
        """Raises Deaf: the answer has an encoding that nobody offered."""
        codings = [value for name, value in headers if name == b"content-encoding"]
        self._decoder = decoder(codings, _NO_LIMIT)
        self._stripper = UsageStripper()
        gone = {b"content-length"} | ({b"content-encoding"} if self._decoder else set())
        self.headers = [pair for pair in headers if pair[0] not in gone]

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """What the agent gets for this chunk, piece by piece, perhaps nothing yet.

        However much an encoded chunk inflates to, only a piece of it is in memory at a time.

        Raises:
            Deaf: the bytes are not in the encoding that the answer states.
        """
        for plain in (chunk,) if self._decoder is None else self._decoded(self._decoder, chunk):
            if plain and (part := self._stripper.feed(plain)):
                yield part

    @staticmethod
    def _decoded(undo: Decoder, chunk: bytes) -> Iterator[bytes]:
        for start in range(0, len(chunk), _PIECE):
            yield undo.feed(chunk[start : start + _PIECE])

    def flush(self) -> bytes:
        """What is still held when the answer ends."""
        return self._stripper.flush()


def is_plain(status: int, headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether an answer is none that the asking could have added to: an error, or no stream."""
    kind = dress.first(headers, b"content-type") or b""
    return status != 200 or b"json" in kind.lower()


def _all_known(headers: Pairs) -> bool:
    """Whether every encoding that the agent offers could be undone, if it were used."""
    return all(_known(value) for name, value in headers if name == b"accept-encoding")


@lru_cache(maxsize=256)
def _known(offer: bytes) -> bool:
    return all(_coding(part) in _CODINGS for part in offer.split(b","))


def _coding(part: bytes) -> bytes:
    return part.partition(b";")[0].strip().lower()
