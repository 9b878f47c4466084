"""Notifications reach every listener, after reconnecting too; test_postgres.py restarts servers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import psycopg

from proxy.store.postgres import Notifications

PATIENCE_S = 300.0


class Listening:
    """A connection that notifies once whenever ``written`` is released."""

    def __init__(self) -> None:
        self.written = threading.Semaphore(0)
        self.statements: list[bytes] = []

    def __enter__(self) -> Listening:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def execute(self, statement: bytes) -> None:
        self.statements.append(statement)

    def notifies(self, *, timeout: float, stop_after: int) -> list[object]:
        return [object()] if self.written.acquire(timeout=timeout) else []


def notifications(connect: Callable[[], object]) -> Notifications:
    return Notifications(cast("Callable[[], psycopg.Connection[object]]", connect))


def test_every_listener_is_called_once_connected_and_on_each_notification() -> None:
    connection = Listening()
    source = notifications(lambda: connection)
    called = [threading.Semaphore(0), threading.Semaphore(0)]
    with source.subscribe(called[0].release), source.subscribe(called[1].release):
        assert called[0].acquire(timeout=PATIENCE_S), "events written before it listened"
        connection.written.release()
        assert called[1].acquire(timeout=PATIENCE_S)
        assert connection.statements == [b"LISTEN truezero_events"]
    source.close()


def test_a_listener_whose_loop_has_closed_does_not_stop_the_others() -> None:
    connection = Listening()
    source = notifications(lambda: connection)
    called = threading.Semaphore(0)

    def closed() -> None:
        raise RuntimeError("Event loop is closed")

    with source.subscribe(closed), source.subscribe(called.release):
        connection.written.release()
        assert called.acquire(timeout=PATIENCE_S)
        connection.written.release()
        assert called.acquire(timeout=PATIENCE_S)
    source.close()


def test_it_connects_again_after_an_error() -> None:
    connection, attempts = Listening(), []

    def connect() -> Any:
        attempts.append(1)
        if len(attempts) == 1:
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return connection

    source, called = notifications(connect), threading.Semaphore(0)
    with source.subscribe(called.release):
        assert called.acquire(timeout=PATIENCE_S)
    assert len(attempts) == 2
    source.close()
