"""An empty database of either kind for each test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.store.database import Database


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file that nobody has written to: a copy takes a third of what making one does."""
    file = tmp_path_factory.mktemp("prepared") / "t.db"
    made = Database(str(file))
    made.prepare()
    made.close()
    return file


@pytest.fixture
def database(database_url: str, prepared: Path) -> Iterator[Database]:
    opened = Database(database_url)
    if opened.is_sqlite:
        shutil.copyfile(prepared, database_url)
    else:
        opened.prepare()
    yield opened
    opened.close()
