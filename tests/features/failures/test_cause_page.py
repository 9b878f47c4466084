"""The page of causes: where each strikes and what to do about it; and unexplained errors."""

from __future__ import annotations

import csv
import html as entities
import io
import re
import time
import tomllib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from classifier.operator_causes import operator_rows
from proxy.features.failures.pages import LISTED
from proxy.store.database import Database
from proxy.web.format import local
from tests.fakes import answers
from tests.proxy.api.test_routes import Service
from tests.proxy.store.test_verdicts import verdict
from tests.proxy.web.test_batch_pages import (
    test_chosen_columns_are_what_a_table_its_address_and_its_file_have as chosen_columns,
)
from tests.proxy.web.test_list_pages import has_the_same_controls
from tests.proxy.web.test_one_number import file, only_read
from tests.proxy.web.test_pages import (
    BROWSER,
    DEAD,
    KEY,
    LIMITED,
    PROMPT,
    RUNNERS,
    page,
    play,
    words,
)

__all__ = ["only_read"]

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
    assert re.search(r"auth:401 invalid_api_key openai · gpt-5 2 2 b and 1 without a batch", said)
    assert "Replace the API key" in said
    assert "rate_limit:429" in said
    query = "cause=v1%3Aauth%3Aopenai%3A401%3Ainvalid_api_key&amp;upstream=openai&amp;model=gpt-5"
    assert f'href="/ui/rollouts?{query}"' in html
    struck = page(service, "/ui/rollouts", cause="v1:auth:openai:401:invalid_api_key")
    assert "/ui/rollouts/dead" in struck
    assert "/ui/rollouts/slow" not in struck
    assert 'aria-label="2 rollouts in the last 7 d"' in html


@pytest.mark.postgres_smoke
def test_a_chosen_time_shows_what_struck_in_it_and_leads_to_those_rollouts(
    service: Service,
) -> None:
    play(service, "dead", DEAD)
    now = time.time()
    since, until = local(now - 3600), local(now + 3600)
    html = page(service, AT, since=since, until=until)
    assert re.search(r'<div data-brush="\?" data-names="since until" data-start="\d+"', html)
    assert "auth:401" in words(html)
    link = re.search(r'href="(/ui/rollouts\?[^"]+since=[^"]+)"', html)
    assert link is not None
    assert "/ui/rollouts/dead" in page(service, entities.unescape(link[1]))
    before = words(page(service, AT, since=local(now - 7200), until=since))
    assert "No rollout failed by a provider in this time" in before
    empty = service.http.get(f"{AT}?since=&until=", headers=BROWSER)
    assert (empty.status_code, empty.headers["location"]) == (303, AT), "they ask nothing"
    page(service, AT, status=422, since="soon")


def test_many_causes_are_counted_where_they_are_not_listed(service: Service) -> None:
    with closing(Database(service.database)) as database:
        for n in range(LISTED + 20):
            failed = {"health": "api_error", "subcategory": "auth", "fingerprint": "auth:401"}
            row = {**verdict(f"r{n}"), **failed, "lane": f"openai/model-{n:03d}/key-1"}
            database.verdicts.store(row)
    html = page(service, AT)
    assert f"The {LISTED} that affected most rollouts, of {LISTED + 20}" in words(html)
    assert len(html) < 150_000


@pytest.mark.slow
def test_causes_are_sorted_filtered_and_leave_as_a_file(service: Service) -> None:
    play(service, "slow", LIMITED, batch="other")
    for n in range(2):
        play(service, f"dead-{n}", DEAD)

    def order(**query: Any) -> list[str]:
        html = page(service, AT, **query)
        return re.findall(r'<tr data-key="cause [^"]*">.*?fingerprint=(\w+)%3A', html)

    assert order() == ["auth", "rate_limit"], "what struck most first"
    assert order(order="asc") == ["rate_limit", "auth"]
    for sort in ("cause", "upstream", "rollouts", "batches", "last_seen", "remedy"):
        both = order(sort=sort), order(sort=sort, order="asc"), order(sort=sort, order="desc")
        assert sorted(both[0]) == ["auth", "rate_limit"], sort
        assert both[0] in both[1:], sort
    assert order(sort="cause", order="desc") == ["rate_limit", "auth"]
    assert order(sort="remedy", order="desc") == ["rate_limit", "auth"], "Run, Replace"
    html = page(service, AT, text="LIMIT", upstream="openai", sort="cause")
    assert re.findall(r"fingerprint=(\w+)%3A", html) == ["rate_limit"]
    chips = re.findall(r'<a href="([^"]+)" aria-label="Remove the filter ([^"]+)"', html)
    assert [(entities.unescape(to), name) for to, name in chips] == [
        ("?upstream=openai&sort=cause#main", "text LIMIT"),
        ("?text=LIMIT&sort=cause#main", "upstream openai"),
    ]
    assert "No cause matches these filters." in page(service, AT, upstream="nobody")
    for label in ("last 24 h", "last 30 d"):
        to = re.search(rf'href="\?([^"]+)"[^>]*>{label}<', html)
        assert to is not None, label
        assert "text=LIMIT&amp;upstream=openai&amp;sort=cause" in to[1]
    link = re.search(r'<a href="\?([^"]+)" download>CSV</a>', html)
    assert link is not None
    text = service.http.get(f"{AT}?{entities.unescape(link[1])}").text
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["fingerprint"], row["upstream"], row["rollouts"]) == (
        "rate_limit:429", "openai", "1",
    )  # fmt: skip
    assert (row["batches"], row["remedy"][:4]) == ("other", "Run ")
    assert PROMPT not in text


def test_causes_are_filtered_by_subcategories_that_are_ticked(service: Service) -> None:
    play(service, "slow", LIMITED)
    play(service, "dead", DEAD)
    service.http.post("/rollouts", json={"id": "silent", "batch": "b"})
    seen = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0.0}}
    service.http.post("/rollouts/silent/outcome", json=seen)

    def listed(query: str) -> list[str]:
        html = service.http.get(f"{AT}?{query}", headers=BROWSER, follow_redirects=True).text
        return sorted(re.findall(r'<tr data-key="cause [^"]*">.*?fingerprint=(\w+)%3A', html))

    assert listed("") == ["auth", "rate_limit", "suspected"]
    html = page(service, AT, subcategory="auth")
    boxes = re.findall(r'name="subcategory" value="(\w+)"( checked)?', html)
    assert {name for name, _ in boxes} > {"auth", "quota", "rate_limit", "suspected"}
    assert [name for name, ticked in boxes if ticked] == ["auth"]
    for ticked in (["auth"], ["suspected"], ["auth", "rate_limit"]):
        sent = "&".join(["upstream=", "model=", *(f"subcategory={name}" for name in ticked)])
        answer = service.http.get(f"{AT}?{sent}", headers=BROWSER)
        short = f"{AT}?subcategory={','.join(ticked)}"
        assert (answer.status_code, answer.headers["location"]) == (303, short)
        assert listed(short.partition("?")[2]) == ticked
    assert listed("subcategory=auth&upstream=openai&model=gpt-5") == ["auth"]
    assert listed("subcategory=auth&model=other") == []


def test_the_page_of_the_first_release_leads_there(service: Service) -> None:
    answer = service.http.get("/ui/fingerprints")
    assert (answer.status_code, answer.headers["location"]) == (303, AT)


STRANGE = answers.whole(
    {"error": {"message": f"Something is off: {PROMPT}", "code": "E1042", "type": "odd"}}, 400
)


@pytest.mark.slow
def test_what_nothing_explains_is_listed_with_a_row_to_complete(service: Service) -> None:
    play(service, "strange", STRANGE)
    play(service, "again", STRANGE, batch="other")
    play(service, "bare", answers.whole({}, 400))
    play(service, "unread", answers.whole({"strange": {"thing": 1}}))
    play(service, "dead", DEAD)
    html = page(service, AT)
    listed = html[html.index('id="unexplained"') :]
    said = words(listed)
    assert "openai 400 E1042 rejected_request status.400 2" in said
    assert "openai 400 – rejected_request status.400 1" in said
    assert "neither output nor an error was found" in said
    assert listed.count('data-copy="[[causes]]') == 2, "an answer that could not be read has no row"
    assert "auth" not in re.sub(r"one of auth", "", said), "what is explained is not there"
    assert 'href="/ui/rollouts/again"' in listed
    row = re.search(r'data-copy="(\[\[causes\]\][^"]+)"', listed)
    assert row is not None
    told = tomllib.loads(entities.unescape(row[1]))["causes"]
    assert operator_rows(told)[0].codes == {"e1042"}
    assert PROMPT not in html
    assert "Say what they mean" in html


def test_without_unexplained_errors_the_page_has_no_such_part(service: Service) -> None:
    play(service, "dead", DEAD)
    assert 'id="unexplained"' not in page(service, AT)
    play(service, "strange", STRANGE)
    now = time.time()
    assert 'id="unexplained"' in page(service, AT)
    before = page(service, AT, since=local(now - 9000), until=local(now - 8000))
    assert 'id="unexplained"' not in before


def test_rest_lists_what_nothing_explains(service: Service) -> None:
    assert service.get("/fingerprints/unexplained")["items"] == []
    began = time.time()
    for name in ("one", "two"):
        play(service, name, STRANGE)
    play(service, "unread", answers.whole({"strange": {"thing": 1}}))
    got = service.get("/fingerprints/unexplained", since=began - 1)
    first, second = got["items"]
    assert got["total"] == 2
    assert (first["upstream"], first["status"], first["error_code"]) == ("openai", 400, "E1042")
    assert (first["subcategory"], first["rule"]) == ("rejected_request", "status.400")
    assert (first["calls"], first["rollout_id"]) == (2, "two")
    assert began - 1 <= first["first_seen"] <= first["last_seen"] <= time.time()
    (call,) = service.get("/rollouts/two/exchanges")["items"]
    assert first["exchange_id"] == call["id"]
    (row,) = operator_rows(tomllib.loads(first["row"])["causes"])
    assert row.id == "operator:openai-E1042"
    assert (second["status"], second["subcategory"], second["row"]) == (200, None, None)
    limited = service.get("/fingerprints/unexplained", limit=1)
    assert (len(limited["items"]), limited["total"]) == (1, 2)
    assert service.get("/fingerprints/unexplained", until=began - 1)["items"] == []
    assert service.http.get("/fingerprints/unexplained", params={"since": "x"}).status_code == 422


@pytest.mark.postgres_smoke
def test_a_row_that_was_completed_explains_the_same_error(
    service: Service, services: Callable[..., Service], tmp_path: Path
) -> None:
    """What the page suggests is what a service takes, and its call is listed no more."""
    play(service, "strange", STRANGE)
    (found,) = service.get("/fingerprints/unexplained")["items"]
    file = tmp_path / "truezero.toml"
    file.write_text(found["row"].replace('"rejected_request"', '"quota"'), encoding="utf-8")
    other = services(CONFIG=str(file))
    play(other, "strange", STRANGE)
    (call,) = other.get("/rollouts/strange/exchanges")["items"]
    assert (call["subcategory"], call["rule"]) == ("quota", "operator:openai-E1042")
    assert other.get("/fingerprints/unexplained")["items"] == []


def test_the_page_shows_no_prompt_and_no_key(service: Service) -> None:
    play(service, "dead", DEAD)
    play(service, "fine")
    html = page(service, AT)
    for secret in (PROMPT, KEY, "Incorrect API key", RUNNERS, "what the runner says"):
        assert secret not in html


def test_its_table_has_the_controls_of_every_table(service: Service) -> None:
    play(service, "dead", DEAD)
    play(service, "slow", LIMITED, batch="other")
    has_the_same_controls(service, "/ui/causes?subcategory=auth&sort=rollouts", 3, "Filter")


def test_chosen_columns_are_what_the_table_its_address_and_its_file_have(service: Service) -> None:
    chosen_columns(
        service, "/ui/causes?window=604800", ("rollouts", "remedy"),
        ("Batches", "First, last seen"), "fingerprint,cause,subcategory,rollouts,remedy",
    )  # fmt: skip


def test_the_page_is_in_the_head_of_every_page_and_is_found(service: Service) -> None:
    assert '<a href="/ui/causes">Causes</a>' in page(service, "/ui/rollouts")
    assert '<a href="/ui/causes">' in page(service, "/ui/find", q="caus")


def test_zeros_are_of_the_causes_that_batches_and_cards_name(only_read: Service) -> None:
    struck = {row["subcategory"]: row["rollouts"] for row in file(only_read, AT)}
    assert struck == {"auth": 2, "provider_error": 1}
    (batch,) = only_read.get("/batches")["items"]
    assert batch["zeros"]["by_cause"] == struck
