"""Spill file of one process: exchanges that the database did not take, one JSON line each."""

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
    """Exchanges that wait for the database, oldest first; without any there is no file.

    The file is locked as long as its process lives, so that another process can tell
    which files dead processes left behind.

    Arguments:
        path: of the file.
        limit_bytes: maximum size of the file.
    """

    def __init__(self, path: Path, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._file: int | None = None
        self._size = 0
        self._taken = 0  # offset up to which the database has everything
        self._returned = 0  # offset up to which `next` has returned exchanges

    @classmethod
    def of(cls, place: Path, worker: str) -> Self:
        """Return the spill file of one worker; all paths of a database begin with ``place``."""
        return cls(place.with_name(f"{place.name}.{worker}{_SUFFIX}"))

    def keep(self, exchanges: Sequence[Exchange]) -> bool:
        """Append exchanges; return False, with nothing written, if that is not possible."""
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
        raise OSError("short write")

    def next(self, most: int) -> list[Exchange]:
        """Return the oldest exchanges not yet taken; the same ones again until ``taken``."""
        exchanges: list[Exchange] = []
        at = self._taken
        if self._file is None:
            return exchanges
        with os.fdopen(os.dup(self._file), "rb") as lines:
            lines.seek(at)
            while len(exchanges) < most and (line := lines.readline()):
                at += len(line)  # skips a partial line too, left by a process that died writing it
                with contextlib.suppress(orjson.JSONDecodeError, CodecError):
                    exchanges.append(decode_exchange(orjson.loads(line)))
        self._returned = at
        return exchanges

    def taken(self) -> None:
        """Mark what ``next`` returned last as written to the database."""
        self._taken = self._returned

    def close(self) -> None:
        """Close the file, and delete it if the database has everything in it."""
        if self._file is None:
            return
        if self._taken >= self._size:
            with contextlib.suppress(OSError):
                self._path.unlink()
        os.close(self._file)
        self._file = None
        self._size = self._taken = self._returned = 0

    def _take_over(self) -> bool:
        """Open and lock the file of a dead process; return False if its process is alive."""
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
    """Yield the spill files of dead processes; the caller reads and closes each."""
    for path in sorted(place.parent.glob(f"{_escaped(place.name)}.*{_SUFFIX}")):
        spill = SpillFile(path)
        if spill._take_over():
            yield spill


def _new(path: Path) -> int:
    """Create a locked empty file; it is renamed last, so that it never appears unlocked."""
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
