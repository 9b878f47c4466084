"""What is summed up is checked against what it follows from, and summed up anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from proxy.store.admin.maintenance import Recount, check, recount
from proxy.store.database import Database
from tests.proxy.filled import fill


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = fill(database_url)
    yield opened
    opened.close()


def test_whatever_does_not_add_up_is_found_and_counted_anew(database: Database) -> None:
    right = Recount(checked=3)
    assert database.read(check) == right
    for invalidates, calls, rollouts in (
        ("UPDATE call_usage SET input_tokens = input_tokens + 1 WHERE batch = 'b1'", "b1", ""),
        ("DELETE FROM call_usage WHERE batch = ''", " ", ""),
        ("DELETE FROM batch_notes", "", "b2"),
        ("UPDATE batch_tasks SET kept = kept + 1 WHERE batch = 'b1'", "", "b1"),
        ("UPDATE batch_shapes SET tasks = tasks + 1 WHERE batch = 'b1'", "", "b1"),
        ("DELETE FROM batch_servings WHERE batch = 'b1'", "", "b1"),
        ("DELETE FROM batches WHERE batch = 'b0'", "", "b0"),
        ("UPDATE batches SET counts = '{}' WHERE batch = 'b2'", "", "b2"),
    ):
        database.change(lambda c, statement: c.execute(text(statement)), invalidates)
        found = database.read(check)
        wrong = (" ".join(found.calls) or " " * len(found.calls), " ".join(found.rollouts))
        assert wrong == (calls, rollouts), invalidates
        assert not found.right
        assert recount(database) == 3
        assert database.read(check) == right, invalidates
