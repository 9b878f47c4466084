"""The routes of reports: what they take and give."""

from __future__ import annotations

import pytest

from proxy.control.reports import DEFAULT
from proxy.store.batches import DIMENSIONS
from tests.proxy.api.test_routes import Service
from tests.proxy.conftest import Services
from tests.proxy.control.test_batches import play
from truezero import models


@pytest.fixture
def service(services: Services) -> Service:
    return services()


def test_answers_are_as_they_are_described(service: Service) -> None:
    play(service, "a", batch="x/y", task="t", reward=1.0)
    usage = service.get("/batches/x%2Fy/usage", by="model,upstream,role,task")
    assert models.BatchUsage.model_validate(usage).model_dump(mode="json") == usage


def test_the_models_know_every_name_of_the_service() -> None:
    assert set(models.USAGE_DIMENSIONS) == set(DIMENSIONS)
    assert set(DEFAULT) < set(DIMENSIONS)
