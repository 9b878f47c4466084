"""Breakers on pages: their column among batches, their tab, and the form that resets one."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from html import unescape

import pytest

from tests.proxy.api.test_routes import Service
from tests.proxy.web.test_batch_pages import told_by
from tests.proxy.web.test_pages import DEAD, page, play, words


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both(BREAKER_THRESHOLD="2")


def test_a_breakers_story_says_who_failed_who_was_skipped_and_what_to_do(service: Service) -> None:
    page_of = partial(page, service, "/ui/batches/b", tab="breakers")
    play(service, "won", reward=1.0, task="won")
    assert "No breaker is close to opening" in words(page_of())
    threshold = service.get("/batches/b/breaker")["threshold"]
    for n in range(threshold):
        play(service, f"dead-{n}", DEAD, task=f"dead-{n}")
    held = {"id": "held", "batch": "b", "model": "gpt-5", "upstream": "openai", "task": "held"}
    assert not service.http.post("/rollouts", json=held).json()["admitted"]
    html = page_of()
    said = words(html)
    assert re.search(r"stopped calling openai/gpt-5 · key-\w+ open .*auth:401 ", said)
    in_a_row = " , ".join(f"dead-{n}" for n in range(threshold))
    assert f"{threshold} rollouts in a row failed: auth:401 . {in_a_row}" in said
    assert f"at {threshold} of {threshold}: it skips new rollouts" in said
    assert "1 rollout skipped: held " in said
    assert "Replace the API key, or give it access to this model." in said
    (command,) = re.findall(r'data-copy="(truezero rerun [^"]*)"', html)
    lines = [line for line in told_by(unescape(command)) if line.startswith("truezero run ")]
    assert len(lines) == threshold + 1
    assert all("--model gpt-5 --upstream openai" in line for line in lines)


def test_a_breaker_is_reset_by_a_form_of_the_page_only(service: Service) -> None:
    for name in ("dead", "dead-2"):
        play(service, name, DEAD)
    html = page(service, "/ui/batches/b", tab="breakers")
    token = re.search(r'name="form_token" value="(\w+)"', html)
    lane = re.search(r'name="lane" value="([^"]+)"', html)
    assert token is not None
    assert lane is not None
    at, own = "/ui/batches/b/breaker/reset", {"sec-fetch-site": "same-origin"}
    for fields, headers in (({"lane": lane[1]}, own), ({"form_token": token[1]}, {})):
        assert service.http.post(at, data=fields, headers=headers).status_code == 403
    assert service.get("/batches/b/breaker")["lanes"][0]["phase"] == "open"
    answer = service.http.post(at, data={"form_token": token[1], "lane": lane[1]}, headers=own)
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/batches/b?tab=breakers")
    assert service.get("/batches/b/breaker")["lanes"][0]["phase"] == "half_open"


def test_the_list_of_batches_and_the_tab_say_what_is_open(service: Service) -> None:
    def cells() -> list[str]:
        found = re.findall(r'(?s)<th role="rowheader"[^>]*>(.*?)</th>', page(service, "/"))
        return [words(each).strip() for each in found]

    play(service, "won", batch="a", reward=1.0)
    assert cells() == ["a"]
    for name in ("dead", "dead-2"):
        play(service, name, DEAD)
    assert sorted(cells()) == ["a", "b breaker open"]
    assert "Breaker open or half-open 1" in words(page(service, "/"))
    assert "/ui/batches/a" not in page(service, "/", show="breaker")
    assert "Breakers 1 open" in words(page(service, "/ui/batches/b"))
    assert "Breakers 1 open" not in words(page(service, "/ui/batches/a"))
    service.http.post("/batches/b/breaker/reset")
    assert sorted(cells()) == ["a", "b breaker half-open"]
    assert "Breakers 1 half-open" in words(page(service, "/ui/batches/b"))
    assert "Breaker open or half-open 1" in words(page(service, "/"))
