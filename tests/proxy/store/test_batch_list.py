"""Batches are listed by their last rollout, page by page and by an index."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from sqlalchemy import Engine, event

from proxy.store.batches import BatchCursor, newest
from proxy.store.database import Database
from proxy.store.tables import Registration


@pytest.fixture
def filled(database: Database) -> Database:
    for at, (name, batch) in enumerate(
        (("1", "a"), ("2", "b"), ("3", "c"), ("4", "a"), ("5", None))
    ):
        database.rollouts.register(Registration(id=name, batch=batch), now=float(at))
    database.rollouts.register(Registration(id="6", batch="d"), now=3.0)
    return database


def test_the_newest_come_first_with_their_span(filled: Database) -> None:
    rows = [(row["batch"], row["first_at"], row["last_at"]) for row in filled.read(newest, limit=9)]
    assert rows == [("d", 3.0, 3.0), ("a", 0.0, 3.0), ("c", 2.0, 2.0), ("b", 1.0, 1.0)]


def test_pages_join_also_between_batches_of_one_moment(filled: Database) -> None:
    found, after = [], None
    while rows := filled.read(newest, after=after, limit=1):
        found.append(rows[0]["batch"])
        after = BatchCursor(rows[0]["last_at"], rows[0]["batch"])
    assert found == ["d", "a", "c", "b"]


def test_a_page_is_read_in_the_order_of_an_index(filled: Database) -> None:
    if not filled.is_sqlite:
        return  # so few rows are sorted whatever there is
    told: list[tuple[str, object]] = []
    own = threading.get_ident()  # what a service of another test still does is not asked here

    def hears(*heard: Any) -> None:
        if threading.get_ident() == own:
            told.append((heard[2], heard[3]))

    event.listen(Engine, "before_cursor_execute", hears)
    for after in (None, BatchCursor(2.0, "c")):
        filled.read(newest, after=after, limit=2)
    event.remove(Engine, "before_cursor_execute", hears)
    with filled._connections.reading() as connection:
        plans = [connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {said}", values).all()  # type: ignore[arg-type]
                 for said, values in told if said.startswith("SELECT")]  # fmt: skip
    steps = [row[-1] for plan in plans for row in plan]
    assert len(steps) == 2
    assert all("batches_newest" in step and "B-TREE" not in step for step in steps)
