"""Of what comes from muted causes alone nobody is told; of anything beside it they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from classifier.batches import Entry
from classifier.reruns import RerunEntry, without_score
from proxy.control.alerts import BATCH, BREAKER, UPSTREAM
from proxy.control.causes import CauseKey
from proxy.control.mutes import _muted_in
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_alerts import told, watch
from tests.proxy.control.test_batches import DEAD, DOWN, play

LATER_S = 180.0  # by then an upstream has failed for two minutes


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both(BREAKER_THRESHOLD="3")


async def alerts(service: Service) -> Mapping[str, Mapping[str, Any]]:
    looking = watch(service)
    looking._wall = looking._upstreams._wall = lambda: time.time() + LATER_S
    return {kind: each.data for kind, each in told(await looking.look()).items()}


async def test_a_muted_cause_alerts_nobody(service: Service) -> None:
    for name in ("one", "two", "three"):
        play(service, name, DEAD)
    before = await alerts(service)
    assert before.keys() == {BATCH, BREAKER, UPSTREAM}
    assert service.app is not None
    causes = service.app.control_plane().services.pages.causes
    (cause,) = (await causes.page(time.time() - 86_400)).items
    await causes.mute(cause.key.name)
    assert await alerts(service) == {}
    play(service, "down", DOWN, model="gpt-4o")
    after = await alerts(service)
    assert after.keys() == {BATCH, UPSTREAM}, "another cause is told of"
    assert after[BATCH]["objections"] == 1, "and counted without what is muted"
    await causes.unmute(cause.key.name)
    again = await alerts(service)
    assert again.keys() == before.keys()
    assert again[BATCH]["objections"] == 4


def failed(
    name: str, attempt: int, *, fingerprint: str | None = "auth:401", **facts: Any
) -> RerunEntry:
    known: dict[str, Any] = {
        "rollout_id": name, "task": "t", "repeat": 0, "attempt": attempt, "health": "api_error",
        "subcategory": "auth", "fingerprint": fingerprint, "scoreable": "no", "provisional": False,
        "reward": None, "input_tokens": None, "output_tokens": None, "total_tokens": None,
        "cost_usd": None, "lane": "openai/gpt-5/key-1",
    }  # fmt: skip
    return RerunEntry(entry=Entry(**(known | facts)), cause="v1:auth:openai:401:-")


def test_a_slot_is_muted_by_the_attempt_that_counts() -> None:
    key = CauseKey("auth:401", "auth", "v1:auth:openai:401:-", "openai", "gpt-5")
    muted = frozenset((key.name,))
    first, second = failed("a", 0), failed("b", 1)

    def count(*tried: RerunEntry) -> int:
        return _muted_in(muted, without_score(tried))

    assert count(first, second) == 1, "two attempts at one slot are one objection"
    assert count(first, failed("b", 1, fingerprint="auth:403")) == 0
    scored = failed("b", 1, fingerprint=None, scoreable="yes", reward=0.0)
    assert count(first, scored) == 0, "a retry measured it"
    assert count(failed("a", 0, provisional=True)) == 0, "it runs: no objection yet"
