"""Batches are listed with what their summaries say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proxy.control.batches import batch_list
from proxy.control.queries import Service as ControlService
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_batches import DEAD, play
from truezero.models import BatchItem, BatchPage


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


async def test_a_batch_is_listed_with_figures_of_its_summary(
    service: Service, control: ControlService
) -> None:
    for number, batch in enumerate(("a", "b/c", "a")):
        play(service, f"r{number}", DEAD if number == 2 else None, batch=batch)
    service.http.post("/rollouts", json={"id": "alone"})
    page = BatchPage.model_validate(await batch_list(control))
    assert [item.batch for item in page.items] == ["a", "b/c"]
    for item in page.items:
        summary = service.get(f"/batches/{item.batch.replace('/', '%2F')}")
        shared = BatchItem.model_fields.keys() & summary.keys()
        listed = item.model_dump(mode="json", include=set(shared))
        assert listed == {name: summary[name] for name in shared}
    assert page.items[0].health == {"healthy": 1, "api_error": 1}
    assert page.items[0].first_at < page.items[1].first_at < page.items[0].last_at


@pytest.mark.postgres_smoke
async def test_pages_of_batches_join(service: Service, control: ControlService) -> None:
    assert await batch_list(control) == {"items": [], "next": None}
    for number in range(5):
        service.http.post("/rollouts", json={"batch": f"b{number}"})
    found, after = [], None
    for _ in range(3):
        page = await batch_list(control, after=after, limit=2)
        found += [item["batch"] for item in page["items"]]
        after = page["next"]
    assert (found, after) == (["b4", "b3", "b2", "b1", "b0"], None)
