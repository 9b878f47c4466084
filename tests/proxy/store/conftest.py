"""An empty database of either kind for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proxy.store.database import Database


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url)
    opened.prepare()
    yield opened
    opened.close()
