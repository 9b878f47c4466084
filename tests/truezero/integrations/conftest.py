"""One service for what harnesses tell; each test has ids of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.provider import Provider
from tests.truezero import driving


@pytest.fixture(scope="session")
def _service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Provider]]:
    with driving.service(tmp_path_factory.mktemp("service")) as (url, provider, _accounts):
        yield url, provider


@pytest.fixture
def provider(_service: tuple[str, Provider]) -> Provider:
    """It has been asked nothing yet."""
    _service[1].requests.clear()
    return _service[1]


@pytest.fixture
def url(_service: tuple[str, Provider]) -> str:
    return _service[0]


@pytest.fixture(autouse=True)
def _nothing_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let no test count the outcomes that another one could not deliver."""
    monkeypatch.setenv("TRUEZERO_OUTCOMES", str(tmp_path / "outcomes"))
