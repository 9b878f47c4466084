"""Files, lines and answers of other programs, read within bounds: regular files, size and depth.

Whoever wrote them may be hostile. A pipe never blocks a reader, and no nesting exhausts the stack.
"""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

MOST = 2**30  # bytes of one JSON document, or of one member of an archive, unpacked
MOST_OF_LINE = 2**28  # bytes, or characters of a text
MOST_OF_ANSWER = 2**28  # bytes of a service's answer, unpacked
DEPTH: Final = 200  # levels of a JSON value; the service reads as many (pydantic's jiter)


class ForeignError(ValueError):
    """Content that is not read; the message says why, and names no file."""


# --- JSON ---


def parse(text: str | bytes, *, object_hook: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """Parse JSON; NaN and infinities are read as Python writes them.

    Arguments:
        object_hook: as of ``json.loads``.

    Raises:
        ForeignError: it is no JSON, no UTF-8, or nested deeper than ``DEPTH`` levels.
    """
    try:
        value = json.loads(
            text if isinstance(text, str) else text.decode(), object_hook=object_hook
        )
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise ForeignError(str(error)) from None
    if len(text) > DEPTH and _is_deep(value):
        raise _too_deep()
    return value


def _is_deep(value: object) -> bool:
    """Return True for a value of more than ``DEPTH`` levels, level by level and not by recursion.

    The parser refuses what would exhaust the stack. Readers that recurse need more of it a level.
    """
    level = [value]
    for _ in range(DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _too_deep() -> ForeignError:
    return ForeignError(f"nested deeper than {DEPTH} levels")


# --- files ---


def open_file(path: Path, *, links: bool = True) -> BinaryIO:
    """Open a regular file; a pipe or a device is refused and never waited for.

    Arguments:
        links: follow a symbolic link. False for a file that was found in a folder of others.

    Raises:
        OSError: it cannot be opened; ``strerror`` says why.
    """
    return path.open("rb") if os.name == "nt" else open(path, "rb", opener=partial(_open, links))


def _open(links: bool, path: str, flags: int) -> int:
    try:
        opened = os.open(path, flags | os.O_NONBLOCK | (0 if links else os.O_NOFOLLOW))
    except OSError as error:
        if error.errno == errno.ELOOP and not links:
            raise OSError(errno.ELOOP, LINK, path) from None
        if error.errno == errno.ENXIO:  # a socket
            raise OSError(errno.ENXIO, SPECIAL, path) from None
        raise
    mode = os.fstat(opened).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        os.close(opened)
        raise OSError(errno.EINVAL, SPECIAL, path)
    return opened  # a folder is refused by open()


LINK: Final = "a symbolic link, which is not followed in a folder of others"
SPECIAL: Final = "not a regular file but a pipe, a socket or a device"


def is_regular(path: Path) -> bool:
    """Return True for a regular file, and for no symbolic link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def read(path: Path, *, links: bool = True) -> bytes:
    """Return a file's content. ``links`` as of ``open_file``.

    Raises:
        OSError: it cannot be read.
        ForeignError: it is larger than ``MOST``.
    """
    with open_file(path, links=links) as file:
        if os.fstat(file.fileno()).st_size > MOST:
            raise _too_large("the file", MOST)
        return file.read()


def text_lines(
    path: Path, *, links: bool = True, encoding: str = "utf-8", newline: str | None = None
) -> Iterator[str]:
    """Yield the lines of a text with their ends. ``links`` as of ``open_file``.

    Arguments:
        newline: as of ``open``.

    Raises:
        OSError: it cannot be read.
        UnicodeDecodeError: it is not of that encoding.
        ForeignError: a line is longer than ``MOST_OF_LINE``.
    """
    with io.TextIOWrapper(open_file(path, links=links), encoding=encoding, newline=newline) as file:
        yield from bounded(file.readline, "")


def byte_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of an open file with their ends.

    Raises:
        ForeignError: a line is longer than ``MOST_OF_LINE``.
    """
    yield from bounded(file.readline, b"")


def bounded(readline: Callable[[int], Any], end: str | bytes) -> Iterator[Any]:
    """Yield what a reader of lines returns until the end.

    Raises:
        ForeignError: a line is longer than ``MOST_OF_LINE``.
    """
    for line in iter(partial(readline, MOST_OF_LINE + 1), end):
        if len(line) > MOST_OF_LINE:
            raise _too_large("a line", MOST_OF_LINE)
        yield line


def _too_large(what: str, most: int) -> ForeignError:
    return ForeignError(f"{what} is larger than {most >> 20:,} MiB")


# --- answers of a service ---

ENCODINGS: Final = frozenset(("", "identity", "gzip", "deflate"))
"""Content encodings of which a piece unpacks to a bounded size."""


def check_encoding(name: str | None) -> None:
    """Refuse a content encoding that may unpack to any size.

    Raises:
        ForeignError: it is none of ``ENCODINGS``.
    """
    if (name or "").strip().lower() not in ENCODINGS:
        raise ForeignError("its content encoding is not one that was asked for")


class Body:
    """A body that comes in pieces, whole or line by line."""

    def __init__(self) -> None:
        self._held = bytearray()

    def add(self, piece: bytes) -> None:
        """Take the next piece.

        Raises:
            ForeignError: the body, or the line that it is in, is larger than ``MOST_OF_ANSWER``.
        """
        if len(self._held) + len(piece) > MOST_OF_ANSWER:
            raise _too_large("the answer", MOST_OF_ANSWER)
        self._held += piece

    def lines(self, piece: bytes) -> Iterator[str]:
        """Take the next piece and yield the lines that it completes, without their ends.

        Raises:
            ForeignError: as ``add``.
        """
        self.add(piece)
        if b"\n" in piece:
            *whole, rest = bytes(self._held).split(b"\n")
            self._held = bytearray(rest)
            yield from (line.rstrip(b"\r").decode("utf-8", "replace") for line in whole)

    def rest(self) -> bytes:
        """Return what was taken and is not part of a line that was yielded."""
        return bytes(self._held)
