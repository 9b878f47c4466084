"""A filled database of its own for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.proxy.store.migrations.test_migrations import old, upgraded  # noqa: F401  fixtures


@pytest.fixture
def full(filled: Path, tmp_path: Path) -> str:
    return str(shutil.copy(filled, tmp_path / "full.db"))
