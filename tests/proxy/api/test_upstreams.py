"""`GET /upstreams`: what it answers is the contract's, and a bad window is named."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from proxy.control import upstreams
from tests.fakes import answers
from tests.proxy.api.test_routes import ASK, Service
from tests.proxy.control.test_batches import DEAD, play
from tests.proxy.web.test_pages import page, words
from truezero.models import UpstreamReport


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def test_upstreams_are_reported_with_models_keys_and_time(service: Service) -> None:
    play(service, "fine", answers.chat())
    for n in range(3):
        play(service, f"dead-{n}", DEAD)
    began = time.time() - 900
    report = UpstreamReport.model_validate(service.get("/upstreams", since=began))
    (item,) = report.items
    assert (item.upstream, item.calls, item.failed, item.error_rate) == (
        "openai", 4, {"auth": 3}, 0.75,
    )  # fmt: skip
    assert [model.model for model in item.models] == ["gpt-5"]
    assert [(key.calls, key.failed, key.key_from) for key in item.keys] == [(4, 3, None)]
    assert sum(step.calls for step in item.points) == report.calls == report.asked == 4
    assert item.failing_since is None, "three failed calls are too few to tell"
    assert report.since <= began < report.until


def test_lanes_are_summed_up_for_the_page_alone(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    summed: list[object] = []
    sum_up = upstreams.lane_stats

    def noting(*given: Any) -> Any:
        summed.append(given)
        return sum_up(*given)

    monkeypatch.setattr(upstreams, "lane_stats", noting)
    play(service, "fine", answers.chat())
    assert service.get("/upstreams")["calls"] == 1
    assert summed == []
    assert "openai" in words(page(service, "/ui/upstreams"))
    assert summed != []


@pytest.mark.postgres_smoke
def test_what_the_proxys_own_questions_cost_is_told_beside_their_upstream(
    on_both: Callable[..., Service],
) -> None:
    service = on_both(KEY_OPENAI="sk-operator")
    service.provider.plays(answers.healthy)
    play(service, "fine", answers.healthy)
    # A role of this name is anybody's: none of the proxy's own.
    service.http.post("/r/mine/as/reference/openai/v1/chat/completions", json=ASK)
    asked = [{"model": "gpt-5"}, {"model": "gpt-5-mini"}]
    series = [service.http.post("/upstreams/openai/reference", json=asked[0]).json()]
    service.provider.plays(DEAD)
    series.append(service.http.post("/upstreams/openai/reference", json=asked[1]).json())
    calls = [call for each in series for call in each["calls"]]
    (item,) = UpstreamReport.model_validate(service.get("/upstreams")).items
    assert (item.questions.calls, item.questions.failures) == (4, 1)
    tokens = [call["input_tokens"] + call["output_tokens"] for call in calls if call["answered"]]
    assert item.questions.total_tokens == sum(tokens) > 0
    assert item.questions.cost_usd == pytest.approx(sum(call["cost_usd"] or 0 for call in calls))
    shown = words(page(service, "/ui/upstreams")).replace(" ,", ",")
    assert "4 of them are the proxy's own questions, 1 failed:" in shown
    assert f"{sum(tokens)} tokens, $0.0002" in shown
