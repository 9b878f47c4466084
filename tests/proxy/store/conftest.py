"""An empty database of either kind for each test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from proxy.store.database import Database


@pytest.fixture
def database(database_url: str, prepared: Path) -> Iterator[Database]:
    opened = Database(database_url)
    if opened.is_sqlite:
        shutil.copyfile(prepared, database_url)
    else:
        opened.prepare()
    yield opened
    opened.close()


@pytest.fixture
def other(database: Database) -> Iterator[Database]:
    """Another process on the same database."""
    with closing(Database(database.url)) as opened:
        yield opened
