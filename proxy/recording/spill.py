"""A file of one process beside the database: exchanges that the database would not take.

It holds encoded exchanges only, what the database would, and reaches no further than a limit.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import orjson

from classifier.codec import CodecError, decode_exchange, encode_exchange
from classifier.records import Exchange

LIMIT_BYTES = 1 << 30  # about a million exchanges

_SUFFIX = ".spill"


class SpillFile:
    """Lines that wait for the database, oldest first; there is no file while there are none.

    The file is locked as long as its process lives, so that another process can tell
    what a dead one left behind.

    Arguments:
        path: of the file.
        limit_bytes: it grows no larger.
    """

    def __init__(self, path: Path, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._file: int | None = None
        self._size = 0
        self._read = 0  # up to here the database has it
        self._reading = 0

    @classmethod
    def of(cls, place: Path, worker: str) -> Self:
        """The spill of one worker, whose path begins as all of the database's do."""
        return cls(place.with_name(f"{place.name}.{worker}{_SUFFIX}"))

    def keep(self, exchanges: Sequence[Exchange]) -> bool:
        """Write exchanges down; False, and nothing written, where that is not possible."""
        try:
            lines = b"".join(orjson.dumps(encode_exchange(each)) + b"\n" for each in exchanges)
            if self._size + len(lines) > self._limit_bytes:
                return False
            if self._file is None:
                self._file = _new(self._path)
            self._append(self._file, lines)
        except (OSError, orjson.JSONEncodeError):
            return False
        self._size += len(lines)
        return True

    def _append(self, file: int, lines: bytes) -> None:
        try:
            if os.pwrite(file, lines, self._size) == len(lines):
                return
        except OSError:
            os.ftruncate(file, self._size)
            raise
        os.ftruncate(file, self._size)
        raise OSError("only a part could be written")

    def next(self, most: int) -> list[Exchange]:
        """The oldest that the database lacks, at most so many; the same again until ``taken``."""
        found: list[Exchange] = []
        at = self._read
        if self._file is None:
            return found
        with os.fdopen(os.dup(self._file), "rb") as lines:
            lines.seek(at)
            while len(found) < most and (line := lines.readline()):
                at += len(line)  # also of half a line, whose process died over it
                with contextlib.suppress(orjson.JSONDecodeError, CodecError):
                    found.append(decode_exchange(orjson.loads(line)))
        self._reading = at
        return found

    def taken(self) -> None:
        """The database has what ``next`` gave."""
        self._read = self._reading

    def close(self) -> None:
        """Let go of the file, and remove it where the database has all of it."""
        if self._file is None:
            return
        if self._read >= self._size:
            with contextlib.suppress(OSError):
                self._path.unlink()
        os.close(self._file)
        self._file = None
        self._size = self._read = self._reading = 0

    def _take_over(self) -> bool:
        """Take a dead process's file as one's own; False where its process lives."""
        with contextlib.suppress(OSError):
            file = os.open(self._path, os.O_RDWR)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(file)
                return False
            self._file = file
            self._size = os.fstat(file).st_size
            return True
        return False


def left_behind(place: Path) -> Iterator[SpillFile]:
    """The spills of dead processes on a database, each to be read and closed."""
    for path in sorted(place.parent.glob(f"{_escaped(place.name)}.*{_SUFFIX}")):
        spill = SpillFile(path)
        if spill._take_over():
            yield spill


def _new(path: Path) -> int:
    """A locked empty file; it gets its name last, so that nobody finds it without its lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unlocked = path.with_name(path.name + ".new")
    file = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unlocked.rename(path)
    except OSError:
        os.close(file)
        raise
    return file


def _escaped(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
