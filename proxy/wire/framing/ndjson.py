"""Split newline-delimited JSON: bytes in, whole lines out, however the bytes are cut."""

from __future__ import annotations

from proxy.wire.unreadable import Unreadable


class NdjsonFeeder:
    """Split a stream into its non-blank lines, stripped of CR and blanks."""

    __slots__ = ("_line", "_pieces", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._pieces: list[bytes] = []
        self._line = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes.

        Raises:
            Unreadable: a line is longer than the limit in bytes.
        """
        lines = chunk.split(b"\n")
        if len(lines) > 1 and self._pieces:
            lines[0] = b"".join((*self._pieces, lines[0]))
            self._pieces = []
            self._line = 0
        self._keep(lines.pop())
        return [line for line in map(bytes.strip, lines) if line]

    def remains(self) -> list[bytes]:
        """Return the last line where it has no line break yet; more may be fed."""
        line = b"".join(self._pieces).strip()
        return [line] if line else []

    def _keep(self, piece: bytes) -> None:
        if not piece:
            return
        self._pieces.append(piece)
        self._line += len(piece)
        if self._line > self.limit:
            raise Unreadable(f"a line of JSON is over {self.limit} bytes")
