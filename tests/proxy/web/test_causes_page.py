"""The page of causes: where each strikes and what to do about it."""

from __future__ import annotations

import html as entities
import re
import time
from collections.abc import Callable
from contextlib import closing

import pytest

from proxy.store.database import Database
from proxy.web.cause_pages import LISTED
from proxy.web.format import local
from tests.proxy.api.test_routes import Service
from tests.proxy.store.test_verdicts import verdict
from tests.proxy.web.test_pages import DEAD, LIMITED, page, play, words

AT = "/ui/causes"


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def test_a_cause_says_where_it_strikes_and_what_to_do(service: Service) -> None:
    play(service, "dead", DEAD)
    play(service, "alone", DEAD, batch=None)
    play(service, "slow", LIMITED, batch="other")
    html = page(service, AT)
    said = words(html)
    assert re.search(r"auth:401 invalid_api_key openai gpt-5 2 2 b and 1 without a batch", said)
    assert "Replace the API key" in said
    assert "rate_limit:429" in said
    query = "cause=v1%3Aauth%3Aopenai%3A401%3Ainvalid_api_key&amp;upstream=openai&amp;model=gpt-5"
    assert f'href="/ui/rollouts?{query}"' in html
    struck = page(service, "/ui/rollouts", cause="v1:auth:openai:401:invalid_api_key")
    assert "/ui/rollouts/dead" in struck
    assert "/ui/rollouts/slow" not in struck
    assert 'aria-label="2 rollouts in the last 7 d"' in html


def test_a_chosen_time_shows_what_struck_in_it_and_leads_to_those_rollouts(
    service: Service,
) -> None:
    play(service, "dead", DEAD)
    now = time.time()
    since, until = local(now - 3600), local(now + 3600)
    html = page(service, AT, since=since, until=until)
    assert re.search(r'<table[^>]* data-brush="\?" data-names="since until" data-start="\d+"', html)
    assert "auth:401" in words(html)
    link = re.search(r'href="(/ui/rollouts\?[^"]+since=[^"]+)"', html)
    assert link is not None
    assert "/ui/rollouts/dead" in page(service, entities.unescape(link[1]))
    before = words(page(service, AT, since=local(now - 7200), until=since))
    assert "No failures in this time" in before
    assert "auth:401" in words(page(service, f"{AT}?since=&until=")), "empty fields ask nothing"
    page(service, AT, status=422, since="soon")


def test_many_causes_are_counted_where_they_are_not_listed(service: Service) -> None:
    with closing(Database(service.database)) as database:
        for n in range(LISTED + 20):
            failed = {"health": "api_error", "subcategory": "auth", "fingerprint": "auth:401"}
            row = {**verdict(f"r{n}"), **failed, "lane": f"openai/model-{n:03d}/key-1"}
            database.verdicts.store(row)
    html = page(service, AT)
    assert f"The {LISTED} that struck most rollouts, of {LISTED + 20}" in words(html)
    assert len(html) < 150_000


def test_the_page_of_the_first_release_leads_there(service: Service) -> None:
    answer = service.http.get("/ui/fingerprints")
    assert (answer.status_code, answer.headers["location"]) == (303, AT)
