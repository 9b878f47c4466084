"""PostgreSQL's LISTEN, in a thread of its own: calls listeners when any replica wrote events."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator

import psycopg

from proxy.store.commit import EVENTS_CHANNEL

log = logging.getLogger("truezero.store")

_LOOK_S = 1.0  # how often the thread checks whether it is to stop
_RETRY_S = 1.0


class Notifications:
    """One listening connection of one process, from its first listener on.

    Arguments:
        connect: opens a connection whose statements are transactions of their own.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection[object]]) -> None:
        self._connect = connect
        self._listeners: set[Callable[[], object]] = set()
        self._changing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    @contextlib.contextmanager
    def subscribe(self, listener: Callable[[], object]) -> Iterator[None]:
        """Have ``listener`` called in another thread whenever there may be new events."""
        with self._changing:
            self._listeners.add(listener)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, args=(self._stopping,), name="notifications", daemon=True
                )
                self._thread.start()
        try:
            yield
        finally:
            with self._changing:
                self._listeners.discard(listener)

    def close(self) -> None:
        """Listen no more; the next listener begins anew."""
        with self._changing:
            self._thread = None
            self._stopping.set()
            self._stopping = threading.Event()

    def _run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            try:
                with self._connect() as connection:
                    self._listen(connection, stopping)
            except psycopg.Error as error:
                log.warning("cannot listen for events, polling instead: %s", type(error).__name__)
                stopping.wait(_RETRY_S)

    def _listen(self, connection: psycopg.Connection[object], stopping: threading.Event) -> None:
        connection.execute(f"LISTEN {EVENTS_CHANNEL}".encode())
        self._notify()  # of what was written before
        while not stopping.is_set():
            if list(connection.notifies(timeout=_LOOK_S, stop_after=1)):
                self._notify()

    def _notify(self) -> None:
        with self._changing:
            listeners = tuple(self._listeners)
        for listener in listeners:
            with contextlib.suppress(RuntimeError):  # its loop has ended
                listener()
