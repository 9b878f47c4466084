"""One service for all checks, and what is installed read once."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from tests.proxy.api.test_routes import Service, serving
from tests.truezero.runner.doctor.looking import lists
from truezero import Client
from truezero.runner import doctor


@pytest.fixture(scope="package")
def _service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("service")) as running_service:
        yield running_service


@pytest.fixture
def service(_service: Service) -> Service:
    """One for all; its provider has been asked nothing yet."""
    _service.provider.plays(lists)
    _service.provider.requests.clear()
    return _service


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(str(service.http.base_url)) as asking:
        yield asking


_owners = functools.cache(doctor.owners)


@pytest.fixture(autouse=True)
def _installed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is installed stays so, and is read once: 250 packages name their files."""
    monkeypatch.setattr(doctor, "owners", _owners)
