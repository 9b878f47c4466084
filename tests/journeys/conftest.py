"""One service and one provider for most journeys; each journey has a rollout of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.fakes import answers
from tests.fakes.provider import Provider, closed_port
from tests.journeys.harnesses import CHOSEN, needed
from tests.journeys.service import Service

_numbers = itertools.count(1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of harnesses that are not among HARNESSES, where that names some."""
    if not CHOSEN:
        return
    left = [item for item in items if needed(item) - CHOSEN]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


@pytest.fixture(scope="session")
def _provider() -> Iterator[Provider]:
    with Provider() as provider:
        yield provider


@pytest.fixture
def provider(_provider: Provider) -> Provider:
    """A provider in good health, until the journey says otherwise."""
    _provider.plays(answers.healthy)
    _provider.requests.clear()
    _provider.left = 0
    return _provider


@pytest.fixture(scope="session")
def service(_provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("service")
    nowhere = f"http://127.0.0.1:{closed_port()}"
    with Service(home, _provider.url, UPSTREAM_VLLM=nowhere) as running:
        yield running


@pytest.fixture
def rollout() -> str:
    return f"journey-{next(_numbers)}"
