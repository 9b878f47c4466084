"""Questions of causes are asked in threads, by index."""

from __future__ import annotations

import pytest

from proxy.web import render
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_queries import (
    Said,
    asked,
    filled_service,
    heard_of,
    nothing_is_asked_unasked,
    said,
    service,
    told,
)

__all__ = ["asked", "filled_service", "heard_of", "nothing_is_asked_unasked", "said", "service"]


@pytest.mark.parametrize("path", ["/fingerprints", "/ui/causes"])
def test_no_question_is_put_on_the_event_loop(said: list[Said], path: str) -> None:
    assert [one.text for one in said if one.on_loop] == []


@pytest.mark.parametrize("path", ["/fingerprints", "/ui/causes"])
def test_no_question_walks_through_all_exchanges(said: list[Said], path: str) -> None:
    walked = [step for one in said for step in one.walked]
    assert [step for step in walked if step.startswith(("SCAN exchanges", "SCAN events"))] == []


@pytest.mark.parametrize("path", ["/fingerprints"])
def test_the_list_walks_through_no_rollouts(said: list[Said], path: str) -> None:
    walked = [step for one in said for step in one.walked]
    assert [step for step in walked if not step.startswith("SCAN anon_")] == []


def test_the_page_is_filled_in_a_thread(
    filled_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled: list[bool] = []
    monkeypatch.setattr(render, "page", told(render.page, filled))
    assert filled_service.http.get("/ui/causes").status_code == 200
    assert filled == [False]
