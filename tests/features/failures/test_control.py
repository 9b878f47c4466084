"""Causes by upstream and model, over all keys and batches, with their trend."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proxy.control.queries import Service as ControlService
from proxy.features.failures.control import CauseKey, _summed, cause_page
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_batches import DEAD, DOWN, play

FINE = "v1:quota:openai:429:insufficient_quota"


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def row(lane: str | None, rollouts: int = 1, **facts: object) -> dict[str, object]:
    return {
        "fingerprint": "quota:429", "subcategory": "quota", "cause": FINE, "lane": lane,
        "batch": "b", "rollouts": rollouts, "first_seen": 5.0, "last_seen": 9.0, **facts,
    }  # fmt: skip


def test_keys_of_one_model_are_one_line_and_its_batches_come_latest_first() -> None:
    rows = [
        row("openai/gpt-5/key-1", 3, first_seen=2.0),
        row("openai/gpt-5/key-2", 4, batch="later", last_seen=30.0),
        row("openai/gpt-5/key-2", 2, batch=None),
        row("openai/z-ai/glm/key-2"),
        row(None, fingerprint="suspected:zero_signal", subcategory=None, cause=None),
    ]
    over_time = [
        {**row("openai/gpt-5/key-1", 5), "step": 11},
        {**row("openai/gpt-5/key-2", 1), "step": 11},
        {**row("openai/z-ai/glm/key-2", 9), "step": 10},
    ]
    found = _summed(rows, over_time, range(10, 13))
    assert [(each.key.model, each.rollouts, each.recent) for each in found] == [
        ("z-ai/glm", 1, 9), ("gpt-5", 9, 6), (None, 1, 0),
    ]  # fmt: skip
    gpt = found[1]
    assert (gpt.batches, gpt.alone, gpt.trend) == (["later", "b"], 2, [0, 6, 0])
    assert (gpt.first_seen, gpt.last_seen) == (2.0, 30.0)
    assert found[2].key == CauseKey("suspected:zero_signal", None, None, None, None)


async def test_a_trend_is_of_the_time_that_was_chosen(
    service: Service, control: ControlService
) -> None:
    play(service, "dead", DEAD)
    now = service.get("/rollouts")["items"][0]["created_at"] // 3600 * 3600
    found = await cause_page(control, now - 7200, now - 3600)
    assert (found.start, found.step_s * len(found.items[0].trend)) == (now - 7200, 3600)
    assert (found.items[0].rollouts, found.items[0].recent) == (1, 0)
    found = await cause_page(control, now, now + 7200)
    assert found.items[0].recent == 1
    assert found.start == now


@pytest.mark.postgres_smoke
def test_fingerprints_across_batches(service: Service) -> None:
    play(service, "a", DEAD, batch="one")
    play(service, "b", DEAD, batch="two")
    play(service, "c", DOWN, batch="two")
    first, second = service.get("/fingerprints")["items"]
    assert (first["fingerprint"], first["rollouts"], first["batches"]) == ("auth:401", 2, 2)
    assert second["rollouts"] == 1
    assert first["first_seen"] <= first["last_seen"]
