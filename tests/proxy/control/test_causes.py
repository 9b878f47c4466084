"""Causes by upstream and model, over all keys and batches, with their trend."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from proxy.control.causes import CauseKey, CauseService, _summed
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_batches import DEAD, play

FINE = "v1:quota:openai:429:insufficient_quota"


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def of(service: Service) -> CauseService:
    assert service.app is not None
    return service.app.control_plane().services.pages.causes


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
    muted = CauseKey("suspected:zero_signal", None, None, None, None)
    found = _summed(rows, over_time, range(10, 13), {muted.name: 77})
    assert [(each.key.model, each.rollouts, each.recent) for each in found] == [
        ("z-ai/glm", 1, 9), ("gpt-5", 9, 6), (None, 1, 0),
    ]  # fmt: skip
    gpt = found[1]
    assert (gpt.batches, gpt.alone, gpt.trend) == (["later", "b"], 2, [0, 6, 0])
    assert (gpt.first_seen, gpt.last_seen, gpt.muted_at) == (2.0, 30.0, None)
    assert (found[2].key, found[2].muted_at) == (muted, 77)


def test_names_tell_causes_apart() -> None:
    keys = [
        CauseKey("quota:429", "quota", FINE, "openai", "gpt-5"),
        CauseKey("quota:429", "quota", FINE, "openai", None),
        CauseKey("quota:429", "quota", FINE, None, "openai"),
        CauseKey("quota:429", "quota", None, "openai", "gpt-5"),
    ]
    assert len({key.name for key in keys}) == 4
    assert {len(key.name) for key in keys} == {24}


async def test_a_cause_is_muted_in_every_process(service: Service) -> None:
    play(service, "dead", DEAD)
    play(service, "fine")
    (cause,) = (await of(service).page(time.time() - 3600)).items
    assert (cause.key.fingerprint, cause.key.model, cause.recent) == ("auth:401", "gpt-5", 1)
    assert (cause.batches, cause.muted_at) == (["b"], None)
    await of(service).mute(cause.key.name)
    (again,) = (await of(service).page(time.time() - 3600)).items
    assert again.muted_at is not None
    await of(service).unmute(cause.key.name)
    (again,) = (await of(service).page(time.time() - 3600)).items
    assert again.muted_at is None


async def test_a_trend_is_of_the_time_that_was_chosen(service: Service) -> None:
    play(service, "dead", DEAD)
    now = time.time() // 3600 * 3600
    found = await of(service).page(now - 7200, now - 3600)
    assert (found.start, found.step_s * len(found.items[0].trend)) == (now - 7200, 3600)
    assert (found.items[0].rollouts, found.items[0].recent) == (1, 0)
    found = await of(service).page(now, now + 7200)
    assert found.items[0].recent == 1
    assert found.start == now
