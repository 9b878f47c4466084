"""A filled database of its own for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.features.exports.archives import exported
from tests.proxy.store.migrations.test_migrations import old, upgraded  # noqa: F401  fixtures


@pytest.fixture(scope="module")
def whole(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The archive of that database."""
    copy = shutil.copy(filled, tmp_path_factory.mktemp("whole") / "full.db")
    return exported(str(copy))


@pytest.fixture
def full(filled: Path, tmp_path: Path) -> str:
    return str(shutil.copy(filled, tmp_path / "full.db"))
