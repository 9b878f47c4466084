"""Lag of the event loop, as a running service measures it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.features.metrics.test_metrics import scraped, value
from tests.proxy.api.test_routes import Service
from tests.waiting import eventually


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


@pytest.mark.slow
def test_the_loop_is_listened_to(service: Service) -> None:
    def heard() -> float | None:
        count = value(scraped(service), "truezero_overhead_seconds_count", part="loop")
        return min(count or 0, 2)

    eventually(heard, 2)
    total = value(scraped(service), "truezero_overhead_seconds_sum", part="loop")
    assert total is not None
    assert 0 < total < 5
