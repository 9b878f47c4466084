"""Hear the statements of one database, and none that other tests' services make meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from proxy.store.database import Database


@contextmanager
def hearing(database: Database, hears: Callable[..., None]) -> Iterator[None]:
    """Call with each statement of short transactions, before it is made, as SQLAlchemy's event."""
    engines = (database.connections.reader, database.connections.writer)
    for engine in engines:
        event.listen(engine, "before_cursor_execute", hears)
    try:
        yield
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", hears)


@contextmanager
def statements(database: Database) -> Iterator[list[tuple[str, Any]]]:
    """Note statements, with their values."""
    heard: list[tuple[str, Any]] = []
    with hearing(database, lambda *said: heard.append((said[2], said[3]))):
        yield heard
