"""The page of upstreams says since when one fails, and never caps its counts in silence."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from proxy.features.pace.shares import PaceDemand, PaceShares
from proxy.store.database import Database
from proxy.web.format import local
from proxy.web.upstream_pages import MODELS
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_upstreams import DOWN, NOW, recorded_call, write
from tests.proxy.store.records import FULL
from tests.proxy.web.test_pages import page, words


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def shown(service: Service, monkeypatch: pytest.MonkeyPatch, **query: Any) -> str:
    assert service.app is not None
    state = service.app.control_plane().app.state._state  # noqa: SLF001  Starlette's state has no public way to put one back
    control = replace(state["service"], now=lambda: NOW)
    monkeypatch.setitem(state, "pages", replace(state["pages"], service=control))
    return page(service, "/ui/upstreams", **query)


QUOTA = replace(DOWN, status=402, cause=FULL.cause)


def test_a_failing_upstream_says_since_when(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = [recorded_call(n, ago_s=3000 + n) for n in range(9)]
    failed = [
        recorded_call(100 + n, ago_s=2760 - n, like=QUOTA, rollout_id=f"r{n}") for n in range(5)
    ]
    write(service, *answered, *failed)
    said = words(shown(service, monkeypatch, window=3600))
    assert "failing since 07:14" in said
    assert "all models 14 35.7% 5 quota 0.25 s / 0.25 s" in said
    assert "All 14 calls" in said
    assert "are of the 14 calls that asked a model" in said
    assert "Choose a longer window" in words(shown(service, monkeypatch, window=60))


@pytest.mark.postgres_smoke
def test_calls_that_wait_for_their_turn_are_shown_with_their_upstream(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(service, *(recorded_call(n, ago_s=30 + n) for n in range(3)))
    with closing(Database(service.database)) as database:
        demands = {("openai", "gpt-5", "key"): PaceDemand(3, waiting=3, longest_s=2.5)}
        PaceShares(database.connections).renew("w", demands, now=NOW - 1)
    said = words(shown(service, monkeypatch))
    assert "3 calls to gpt-5 are waiting for their turn, the longest for 2.50 s" in said
    with closing(Database(service.database)) as database:
        PaceShares(database.connections).give_back("w")
    assert "waiting for their turn" not in words(shown(service, monkeypatch))


def test_an_outage_stays_until_an_answer_ends_it(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = [recorded_call(n, ago_s=9000 + n) for n in range(9)]
    failed = [
        recorded_call(100 + n, ago_s=8000 - n, like=QUOTA, rollout_id=f"r{n}") for n in range(5)
    ]
    write(service, *answered, *failed)
    for window in (900, 3600):
        said = words(shown(service, monkeypatch, window=window))
        assert "openai has failed since " in said, window
        assert "quota 5" in said, window
    long = words(shown(service, monkeypatch, window=86_400))
    assert "has failed since" not in long, "the upstream's own part says so"
    assert "failing since" in long
    write(service, *(recorded_call(200 + n, ago_s=5000 - n) for n in range(9)))
    assert "has failed since" not in words(shown(service, monkeypatch, window=900))


@pytest.mark.postgres_smoke
def test_a_chosen_time_shows_the_calls_in_it_and_leads_to_what_failed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(service, *(recorded_call(n, ago_s=600 * n, like=FULL) for n in range(1, 9)))
    since, until = local(NOW - 3600), local(NOW - 1800)
    html = shown(service, monkeypatch, since=since, until=until)
    said = words(html)
    assert "All 3 calls" in said
    assert "failing since" not in said, "that is not now"
    steps = {*re.findall(r'data-step="(\d+)" data-steps="(\d+)"', html)}
    assert [int(step) * int(count) for step, count in steps] == [1800]
    link = re.search(r'href="(/ui/rollouts\?upstream=[^"]+failed_until=[^"]+)"', html)
    assert link is not None
    assert FULL.rollout_id in page(service, link[1].replace("&amp;", "&"))
    assert "No calls in this time" in words(
        shown(service, monkeypatch, since=local(NOW - 60), until=local(NOW))
    )


def test_many_models_are_counted_where_they_are_not_listed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"model-{n:03d}" for n in range(200)]
    write(service, *(recorded_call(n, ago_s=10 + n, model=name) for n, name in enumerate(names)))
    html = shown(service, monkeypatch, window=3600)
    assert f"and {200 - MODELS} models with fewer calls" in html
    assert len(re.findall(r'<th scope="row"><span class="clip">model-', html)) == MODELS
    assert "all models 200" in words(html)
    assert len(html) < 150_000
