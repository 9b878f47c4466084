"""One JSON document a line: bytes in, whole lines out, however the bytes are cut.

It reads no JSON, and holds no more than one unfinished line.
"""

from __future__ import annotations

from proxy.wire.unreadable import Unreadable


class NdjsonFeeder:
    """Cuts a stream into its non-blank lines; CR at their ends and blanks are taken off."""

    __slots__ = ("_line", "_pieces", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._pieces: list[bytes] = []
        self._line = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes.

        Raises:
            Deaf: a line is longer than the limit in bytes.
        """
        lines = chunk.split(b"\n")
        if len(lines) > 1 and self._pieces:
            lines[0] = b"".join((*self._pieces, lines[0]))
            self._pieces = []
            self._line = 0
        self._keep(lines.pop())
        return [line for line in map(bytes.strip, lines) if line]

    def remains(self) -> list[bytes]:
        """The last line where it has no end; it changes nothing."""
        line = b"".join(self._pieces).strip()
        return [line] if line else []

    def _keep(self, piece: bytes) -> None:
        if not piece:
            return
        self._pieces.append(piece)
        self._line += len(piece)
        if self._line > self.limit:
            raise Unreadable(f"a line of JSON is over {self.limit} bytes")
