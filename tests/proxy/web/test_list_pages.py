from __future__ import annotations

import csv
import html as entities
import io
import json
import re
from collections.abc import Callable
from typing import get_args

import pytest

from proxy.control.listing import SearchMatch
from proxy.routing.errors import Refusal
from proxy.store.listing import GROUPS as STORED_GROUPS
from proxy.web import list_pages
from proxy.web.list_pages import CHOICES, COLUMNS, GROUPED, GROUPS, USUAL, WRITTEN, jumps, read_view
from tests.proxy.api.test_routes import Service
from tests.proxy.web.test_pages import DEAD, LIMITED, listed, page, play, words
from truezero import models

# --- Any rollouts are found, sorted, grouped and downloaded as the page shows them ----------------

AT = "/ui/rollouts"


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    found = on_both()
    play(found, "won", reward=1.0, task="t1")
    play(found, "lost", task="t2")
    play(found, "dead", DEAD, task="t3", batch="other")
    play(found, "slow", LIMITED, task="t4")
    return found


def test_a_search_finds_what_the_verdict_says(service: Service) -> None:
    assert listed(page(service, AT, text="AUTH:4")) == ["dead"]
    assert listed(page(service, AT, text="rate_limit")) == ["slow"]
    several = page(service, f"{AT}?subcategory=auth&subcategory=rate_limit&batch=b&batch=other")
    assert sorted(listed(several)) == ["dead", "slow"]
    assert several.count(' value="b"') == several.count(' value="other"') == 1
    assert 'value="auth" checked' in several
    page(service, AT, status=422, nonsense="x")


def test_a_column_sorts_both_ways(service: Service) -> None:
    newest = page(service, AT)
    assert listed(newest) == ["slow", "dead", "lost", "won"]
    assert 'aria-sort="descending"' in newest
    link = re.search(r'<a href="\?([^"]+)#list">Task</a>', newest)
    assert link is not None
    down = page(service, f"{AT}?{entities.unescape(link[1])}")
    assert listed(down) == ["slow", "dead", "lost", "won"]
    again = re.search(r'<a href="\?([^"]+)#list">Task ↓</a>', down)
    assert again is not None
    assert listed(page(service, f"{AT}?{entities.unescape(again[1])}")) == [
        "won", "lost", "dead", "slow",
    ]  # fmt: skip


def test_the_columns_are_those_that_were_chosen(service: Service) -> None:
    chosen = page(service, f"{AT}?columns=cause&columns=model&subcategory=auth")
    assert re.findall(r"<th scope=\"col\"[^>]*>(\w+)", chosen) == ["Rollout", "Cause", "Model"]
    assert "v1:auth:openai:401:invalid_api_key" in chosen
    whole = page(service, AT + "?" + "&".join(f"columns={name}" for name in COLUMNS))
    assert len(re.findall(r"<th scope=\"col\"", whole)) == len(COLUMNS) + 1
    assert "Columns: " in page(service, AT, status=422, columns="prompt")


def test_groups_lead_to_their_rollouts(service: Service) -> None:
    html = page(service, AT, by="fingerprint")
    assert re.search(r"none 2 2 0.500", words(html))
    link = re.search(r'<a href="\?([^"]+)#list">auth:401</a>', html)
    assert link is not None
    assert listed(page(service, f"{AT}?{entities.unescape(link[1])}")) == ["dead"]
    play(service, "alone", batch=None)
    of_none = re.search(r'<a href="\?([^"]+)#list">none</a>', page(service, AT, by="batch"))
    assert of_none is not None
    assert listed(page(service, f"{AT}?{of_none[1]}")) == ["alone"]
    assert "By: " in page(service, AT, status=422, by="prompt")


def test_more_groups_than_are_listed_are_told(service: Service) -> None:
    for n in range(GROUPED + 1):
        service.http.post("/rollouts", json={"id": f"r{n}", "task": f"many-{n}"})
    html = page(service, AT, by="task", text="many-")
    assert f"The {GROUPED} largest groups" in words(html)
    assert len(html) < 150_000


def test_a_file_holds_exactly_the_view(service: Service) -> None:
    query = "columns=reward&columns=task&batch=b&sort=task&order=asc"
    html = page(service, f"{AT}?{query}")
    link = re.search(r'<a href="\?([^"]+)" download>CSV</a>', html)
    assert link is not None
    answer = service.http.get(f"{AT}?{entities.unescape(link[1])}")
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.reader(io.StringIO(answer.text)))
    assert rows == [
        ["id", "reward", "task"], ["won", "1.0", "t1"], ["lost", "0.0", "t2"], ["slow", "", "t4"],
    ]  # fmt: skip
    lines = service.http.get(f"{AT}?{query}&file=jsonl").text.splitlines()
    assert json.loads(lines[0]) == {"id": "won", "reward": 1.0, "task": "t1"}
    assert "File: " in page(service, AT, status=422, file="xlsx")


def test_a_full_page_of_long_names_is_small(service: Service) -> None:
    for n in range(100):
        named = {"id": f"{n:03d}" + "i" * 60, "task": "t" * 60, "batch": "long-batch-name" * 3}
        service.http.post("/rollouts", json=named)
    every = "&".join(f"columns={name}" for name in USUAL)
    assert len(page(service, f"{AT}?{every}").encode()) < 150_000


def test_the_page_asks_for_all_that_a_list_takes() -> None:
    times = {"since", "until", "failed_since", "failed_until"}
    elsewhere = {"text", *times, "sort", "order", "after", "limit", "repeat", "attempt"}
    assert {*WRITTEN, *CHOICES, *elsewhere} == set(models.ListParameters.model_fields)
    assert {*COLUMNS, "id"} == set(models.RolloutItem.model_fields)
    assert set(GROUPS) == set(STORED_GROUPS)
    assert set(get_args(models.Sort)) <= set(COLUMNS)


def test_an_address_keeps_what_was_not_changed() -> None:
    view = read_view(
        [("batch", "b"), ("columns", "model"), ("by", "task"), ("after", ""), ("text", "")]
    )
    assert view.query() == "batch=b&columns=model&by=task"
    assert view.query(by=None, sort="task") == "batch=b&columns=model&sort=task"
    assert (view.sorted_by("model"), view.direction("model")) == (None, None)
    with pytest.raises(Refusal, match="columns"):
        read_view([("columns", "nothing")])


def test_each_filter_is_a_chip_that_removes_it(service: Service) -> None:
    html = page(service, "/ui/rollouts", text="a&b", model="gpt-5", sort="reward")
    removed = re.findall(r'<a href="([^"]+)" aria-label="Remove the filter ([^"]+)"', html)
    assert [(entities.unescape(to), entities.unescape(name)) for to, name in removed] == [
        ("/ui/rollouts?model=gpt-5&sort=reward#list", "text a&b"),
        ("/ui/rollouts?text=a%26b&sort=reward#list", "model gpt-5"),
    ]
    assert "Remove the filter" not in page(service, "/ui/rollouts")


# --- A page's address and the list that it asks for -----------------------------------------------


def test_a_page_asks_for_the_newest_unless_its_address_says_otherwise() -> None:
    assert list_pages.read_form([]).parameters.order == "desc"
    assert list_pages.read_form([("order", "asc"), ("sort", "task")]).parameters.order == "asc"


def test_an_empty_field_asks_nothing_and_old_names_still_work() -> None:
    form = list_pages.read_form([("q", "quota"), ("health", ""), ("page", "3"), ("limit", "5")])
    assert (form.parameters.text, form.parameters.health, form.parameters.limit) == ("quota", [], 5)
    assert form.query == "text=quota&limit=5"


def test_links_and_hidden_fields_keep_what_was_asked() -> None:
    given = [("batch", "a&b"), ("task", "t"), ("task", "u"), ("health", "healthy"), ("after", "x=")]
    form = list_pages.read_form(given)
    assert (form.parameters.task, form.parameters.after) == (["t", "u"], "x=")
    assert form.query == "batch=a%26b&task=t&task=u&health=healthy"
    assert form.following("y=") == f"{form.query}&after=y%3D"
    assert form.hidden == [("batch", "a&b"), ("task", "t"), ("task", "u")]
    assert (form.value("health"), form.value("validity")) == ("healthy", "")


def test_a_batchs_page_is_of_that_batch() -> None:
    form = list_pages.read_form([("batch", "other"), ("text", "x")], batch="mine")
    assert form.parameters.batch == ["mine"]
    assert form.query == "text=x"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("colour", "red", "colour: unknown parameter"),
        ("health", "fine", "health: Input should be"),
        ("limit", "x", "limit: Input should be a valid integer"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(name: str, value: str, said: str) -> None:
    with pytest.raises(Refusal) as refused:
        list_pages.read_form([(name, value)])
    assert refused.value.status == 422
    assert refused.value.detail.startswith(said)


# --- The page behind the palette leads to batches, rollouts, causes and pages ---------------------


@pytest.fixture
def find_page_service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def test_what_is_found_is_a_link_to_its_page(find_page_service: Service) -> None:
    play(find_page_service, "dead", DEAD, batch="night & day")
    find_page_service.http.post("/rollouts", json={"id": "a/1"})
    html = page(find_page_service, "/ui/find", q=" a/1 ")
    assert '<a href="/ui/rollouts/a%2F1">' in html
    html = page(find_page_service, "/ui/find", q="NIGHT")
    assert '<a href="/ui/batches/night%20%26%20day">' in html
    assert '<a href="/ui/rollouts?fingerprint=auth%3A401">' in page(
        find_page_service, "/ui/find", q="auth"
    )
    everything = re.findall(r'<span class="tag">(\w+)</span>', page(find_page_service, "/ui/find"))
    assert everything == ["page"] * 6
    page(find_page_service, "/ui/find", status=422, q="\x00")
    assert "<script>" not in page(find_page_service, "/ui/find", q="<script>alert(1)</script>")


def test_the_search_itself_comes_last() -> None:
    found = jumps("cau", [SearchMatch("cause", "auth:401"), SearchMatch("batch", "b")])
    assert [(jump.kind, jump.path) for jump in found] == [
        ("cause", "/ui/rollouts?fingerprint=auth%3A401"),
        ("batch", "/ui/batches/b"),
        ("page", "/ui/causes"),
        ("search", "/ui/rollouts?text=cau"),
    ]


def test_a_task_and_a_help_page_say_what_they_belong_to(find_page_service: Service) -> None:
    play(find_page_service, "r", batch="night", task="t&1")
    html = page(find_page_service, "/ui/find", q="t&1")
    assert '<a href="/ui/batches/night?tab=tasks&amp;text=t%261">' in html
    assert 't&amp;1 <span class="quiet">night</span>' in html
    shown = page(find_page_service, "/ui/find", q="batches concepts")
    assert 'href="/ui/help/concepts/batches.md"' in shown
