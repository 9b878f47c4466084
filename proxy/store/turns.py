"""Whose turn it is to write to an SQLite file, among the threads of one process.

SQLite lets one connection write at a time and has the others look again after 1, 2, 5 and up to
100 ms (`sqliteDefaultBusyCallback`, main.c), which is long for the recorder, behind which agents
wait, when another thread writes for three. Other processes on the file are left to SQLite.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from proxy.store.errors import DatabaseUnavailable

_LOCKED = "the database is locked by this process"


class Turns:
    """A lock with one who goes first: that one waits for one other at most, the one that writes.

    Of the others one at a time stands in line, so that the first finds nobody before it there.
    ``release`` ends the turn that ``take_first`` waited for.
    """

    __slots__ = ("_line", "_others", "_writing", "release")

    def __init__(self) -> None:
        self._writing = threading.Lock()
        self.release = self._writing.release  # with each commit: no call of ours
        self._line = threading.Lock()  # held by who waits for `_writing`
        self._others = threading.Lock()

    def take_first(self, timeout_s: float) -> None:
        """Wait for the turn before all others that wait; call ``release`` after it.

        Arguments:
            timeout_s: each of two waits lasts no longer.

        Raises:
            DatabaseUnavailable: it did not come in time.
        """
        if self._line.acquire(timeout=timeout_s):
            taken = self._writing.acquire(timeout=timeout_s)
            self._line.release()
            if taken:
                return
        raise DatabaseUnavailable(_LOCKED)

    def pass_on(self) -> None:
        """Let the first go before, where it waits, and have the turn again after it."""
        self._writing.release()
        with self._line:
            self._writing.acquire()

    @contextlib.contextmanager
    def taken(self, timeout_s: float) -> Iterator[None]:
        """Wait for the turn after the first, and have it.

        Raises:
            DatabaseUnavailable: as `take_first`.
        """
        if not self._others.acquire(timeout=timeout_s):
            raise DatabaseUnavailable(_LOCKED)
        try:
            self.take_first(timeout_s)
            try:
                yield
            finally:
                self.release()
        finally:
            self._others.release()
