"""Split a streamed JSON array: bytes in, elements out, however the bytes are cut."""

from __future__ import annotations

import re

from proxy.wire.unreadable import Unreadable

_OUTSIDE = re.compile(rb'["{}\[\]]')
_INSIDE = re.compile(rb'["\\]')


class JsonArrayFeeder:
    """Split an array of objects (or arrays) into its elements; scalars in it are left out.

    Gemini streams this way without ``alt=sse``.
    """

    __slots__ = ("_depth", "_escaped", "_inside", "_opened", "_pieces", "_size", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._depth = 0
        self._opened = False
        self._inside = False  # a string
        self._escaped = False
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the elements that this chunk completes.

        Raises:
            Unreadable: an element is longer than the limit in bytes.
        """
        elements: list[bytes] = []
        start = 0 if self._depth > 1 else len(chunk)
        at = 0
        while (at := self._next(chunk, at)) < len(chunk):
            mark = chunk[at]
            at += 1
            if mark == 0x22:
                self._inside = not self._inside
            elif mark in b"{[":
                self._depth += 1
                self._opened = True
                if self._depth == 2:
                    start = at - 1
            else:
                self._depth -= 1
                if self._depth == 1:
                    elements.append(b"".join((*self._pieces, chunk[start:at])))
                    self._pieces, self._size, start = [], 0, len(chunk)
        self._keep(chunk[start:])
        return elements

    @property
    def closed(self) -> bool:
        """Whether the array's own closing bracket came."""
        return self._opened and self._depth == 0

    def remains(self) -> list[bytes]:
        """Return nothing: an unfinished element is no JSON."""
        return []

    def _next(self, chunk: bytes, at: int) -> int:
        """Return where the next bracket or quote is, outside of strings."""
        if self._escaped and at < len(chunk):
            self._escaped = False
            at += 1
        while match := (_INSIDE if self._inside else _OUTSIDE).search(chunk, at):
            if chunk[match.start()] != 0x5C:
                return match.start()
            at = match.start() + 2
        self._escaped = at > len(chunk)
        return len(chunk)

    def _keep(self, piece: bytes) -> None:
        if not piece:
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self.limit:
            raise Unreadable(f"an element of a JSON array is over {self.limit} bytes")
