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
from proxy.store.listing import FLAGS
from proxy.store.listing import GROUPS as STORED_GROUPS
from proxy.web import list_pages
from proxy.web.list_pages import (
    CHOICES,
    COLUMNS,
    GROUPED,
    GROUPS,
    TIMES,
    UNSORTED,
    USUAL,
    WRITTEN,
    jumps,
    read_view,
)
from proxy.web.panels import NavigationItem
from tests.proxy.api.test_routes import Service
from tests.proxy.web.test_pages import BROWSER, DEAD, LIMITED, listed, page, play, register, words
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
    shown = re.findall(r'<input name="batch" value="(\w+)"', several)
    assert shown == ["b", "other"]
    assert 'value="auth" checked' in several
    page(service, AT, status=422, nonsense="x")


def test_a_column_sorts_both_ways(service: Service) -> None:
    newest = page(service, AT)
    assert listed(newest) == ["slow", "dead", "lost", "won"]
    assert 'aria-sort="descending"' in newest
    link = re.search(r'<a href="\?([^"]+)#list">Task</a>', newest)
    assert link is not None
    up = page(service, f"{AT}?{entities.unescape(link[1])}")
    assert listed(up) == ["won", "lost", "dead", "slow"]
    again = re.search(r'<a href="\?([^"]+)#list">Task</a>', up)
    assert again is not None
    assert listed(page(service, f"{AT}?{entities.unescape(again[1])}")) == [
        "slow", "dead", "lost", "won",
    ]  # fmt: skip


@pytest.mark.postgres_smoke
@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_every_header_sorts_in_a_batch_too(service: Service, step: int) -> None:
    every = ",".join(name for name in COLUMNS if name not in UNSORTED)
    for at in (AT, "/ui/batches/b?tab=rollouts"):
        html = page(service, f"{at}{'&' if '?' in at else '?'}columns={every}&text=o")
        heads = re.findall(r'<th scope="col"[^>]*>(?:<a href="\?([^"]+)#list">)?([\w ]+)', html)
        assert len(heads) == len(COLUMNS) - len(UNSORTED) + 1
        for to, label in heads[::step]:
            sorted_ = page(service, f"{at.partition('?')[0]}?{entities.unescape(to)}")
            way = "descending" if "order=asc" not in to else "ascending"
            assert f'aria-sort="{way}"><a' in sorted_, label
            assert set(listed(sorted_)) >= {"won", "lost", "slow"} & set(listed(html)), label


def test_a_batchs_rollouts_sort_and_leave_as_a_file_in_their_order(service: Service) -> None:
    at = "/ui/batches/b?tab=rollouts"
    usual = page(service, at)
    assert listed(usual) == ["slow", "lost", "won"], "those not measured first"
    link = re.search(r'<a href="\?([^"]+)#list">Why</a>', usual)
    assert link is not None
    assert entities.unescape(link[1]) == "tab=rollouts&sort=fingerprint&order=asc"
    assert "<h3>Not measured" not in page(service, f"{at}&sort=fingerprint&order=asc")
    for query in ("", "&sort=task", "&columns=task,reward&health=healthy"):
        html = page(service, at + query)
        to = re.search(r'<a href="\?([^"]+)" download>CSV</a>', html)
        assert to is not None
        text = service.http.get(f"/ui/batches/b?{entities.unescape(to[1])}").text
        rows = list(csv.reader(io.StringIO(text)))
        assert [row[0] for row in rows[1:]] == listed(html), query
        shown = [*USUAL[1:]] if "columns" not in query else ["task", "reward"]
        heads = [
            part
            for name in shown
            for part in ((name,) if name != "reward" else (name, "reported_reward"))
        ]
        assert rows[0] == ["id", *heads], query


def test_zeros_that_were_not_measured_are_one_box(service: Service) -> None:
    box = '<input type="checkbox" name="false_zero" value="true"{}> only these</label>'
    assert box.format("") in page(service, AT)
    ticked = page(service, AT, false_zero="true")
    assert box.format(" checked") in ticked
    zeros = service.get("/rollouts", false_zero="true", order="desc")["items"]
    assert listed(ticked) == [each["id"] for each in zeros] == ["slow", "dead"]
    assert {(each["reward"], each["reported_reward"]) for each in zeros} == {(None, 0.0)}


def test_an_address_is_short(service: Service) -> None:
    """What is as usual is left out, also of an address that a form made; values are joined."""

    def led_to(query: str, at: str = AT) -> str:
        answer = service.http.get(f"{at}?{query}")
        assert answer.status_code in (200, 303), answer.text
        return str(answer.headers.get("location", "as it is"))

    assert led_to("text=&batch=&by=") == AT
    assert led_to("text=&health=api_error&health=undecided&order=desc&sort=created_at") == (
        f"{AT}?health=api_error,undecided"
    )
    usual = "&".join(f"columns={name}" for name in USUAL)
    assert led_to(usual) == AT
    assert led_to("columns=task&columns=reward&fingerprint=auth%3A401&by=") == (
        f"{AT}?fingerprint=auth:401&columns=task,reward"
    )
    assert led_to("text=&sort=task", "/ui/batches/b") == "/ui/batches/b?tab=rollouts&sort=task"
    assert led_to("health=api_error,undecided") == "as it is"
    both = page(service, AT, health="api_error,undecided")
    removed = re.findall(r'<a href="([^"]+)" aria-label="Remove the filter ([^"]+)"', both)
    assert removed == [
        ("?health=undecided#list", "health api_error"),
        ("?health=api_error#list", "health undecided"),
    ]


def test_the_columns_are_those_that_were_chosen(service: Service) -> None:
    chosen = page(service, f"{AT}?columns=cause,model&subcategory=auth")
    assert re.findall(r"<th scope=\"col\"[^>]*>(?:<a [^>]*>)?(\w+)", chosen) == [
        "Rollout",
        "Cause",
        "Model",
    ]
    assert "v1:auth:openai:401:invalid_api_key" in chosen
    whole = page(service, f"{AT}?columns={','.join(COLUMNS)}")
    assert len(re.findall(r"<th scope=\"col\"", whole)) == len(COLUMNS) + 1
    assert "Columns: " in page(service, AT, status=422, columns="prompt")


def test_the_rollouts_of_one_batch_do_not_repeat_its_name(service: Service) -> None:
    def heads(query: str) -> list[str]:
        html = page(service, f"{AT}{query}")
        return re.findall(r"<th scope=\"col\"[^>]*>(?:<a [^>]*>)?(\w+)", html)

    play(service, "other", batch="other")
    play(service, "of", batch="one")
    assert "Batch" in heads("") and "Batch" in heads("?batch=one&batch=other")
    assert "Batch" not in heads("?batch=one")
    assert "Batch" in heads("?batch=one&columns=batch,task")


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
    register(service, *({"id": f"r{n}", "task": f"many-{n}"} for n in range(GROUPED + 1)))
    html = page(service, AT, by="task", text="many-")
    assert f"The {GROUPED} largest groups" in words(html)
    assert len(html) < 150_000


def test_a_file_holds_exactly_the_view(service: Service) -> None:
    query = "columns=reward,task&batch=b&sort=task&order=asc"
    html = page(service, f"{AT}?{query}")
    link = re.search(r'<a href="\?([^"]+)" download>CSV</a>', html)
    assert link is not None
    answer = service.http.get(f"{AT}?{entities.unescape(link[1])}")
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.reader(io.StringIO(answer.text)))
    assert rows == [
        ["id", "reward", "reported_reward", "task"],
        ["won", "1.0", "1.0", "t1"], ["lost", "0.0", "0.0", "t2"], ["slow", "", "0.0", "t4"],
    ], "what the page shows as ~~0~~ null"  # fmt: skip
    lines = service.http.get(f"{AT}?{query}&file=jsonl").text.splitlines()
    won = {"id": "won", "reward": 1.0, "reported_reward": 1.0, "task": "t1"}
    assert json.loads(lines[0]) == won
    both = service.http.get(f"{AT}?columns=reported_reward,reward&batch=b&file=csv").text
    assert both.splitlines()[0] == "id,reported_reward,reward"
    assert "File: " in page(service, AT, status=422, file="xlsx")


def test_a_full_page_of_long_names_is_small(service: Service) -> None:
    named = {"task": "t" * 60, "batch": "long-batch-name" * 3}
    register(service, *({"id": f"{n:03d}" + "i" * 60, **named} for n in range(100)))
    assert len(page(service, AT).encode()) < 165_000, "a name is in its title, too"


def test_the_page_asks_for_all_that_a_list_takes() -> None:
    by_link = {*FLAGS} - {*CHOICES}
    elsewhere = {"text", *TIMES, "sort", "order", "after", "limit", "repeat", "attempt", *by_link}
    assert {*WRITTEN, *CHOICES, *elsewhere} == set(models.ListParameters.model_fields)
    assert {name for part in get_args(models.Validity) for name in get_args(part)} == {
        *CHOICES["validity"]
    }
    shown = {*COLUMNS, "id", "own_failures", "skipped"} - UNSORTED  # two in the verdict's column
    assert shown == set(models.RolloutItem.model_fields)
    assert set(GROUPS) == set(STORED_GROUPS)
    assert set(get_args(models.Sort)) == {*COLUMNS, "id"} - UNSORTED


def test_an_address_keeps_what_was_not_changed() -> None:
    view = read_view(
        [("batch", "b"), ("columns", "model"), ("by", "task"), ("after", ""), ("text", "")]
    )
    assert view.query() == "batch=b&by=task&columns=model"
    assert view.query(by=None, sort="task") == "batch=b&sort=task&columns=model"
    assert all(view.sorted_by(name) for name in COLUMNS)
    with pytest.raises(Refusal, match="columns"):
        read_view([("columns", "nothing")])


def test_every_table_has_the_same_controls_and_keeps_the_rest_of_its_view(service: Service) -> None:
    of_rollouts = "health=api_error,undecided&sort=task&order=asc"
    has_the_same_controls(service, f"{AT}?{of_rollouts}", 3, "Filter", "Group")
    has_the_same_controls(service, f"/ui/batches/b?tab=rollouts&{of_rollouts}", 3, "Filter")
    has_the_same_controls(service, "/ui/batches/b?tab=tasks&show=gaps&sort=task", 2)
    has_the_same_controls(service, "/ui/batches/b?tab=cost&sort=calls", 2)
    has_the_same_controls(service, "/ui/batches/b?tab=again&show=transient&sort=cause", 2)
    has_the_same_controls(service, "/ui/upstreams?window=86400&sort=lane", 3, "Filter")


def has_the_same_controls(service: Service, at: str, count: int, *more: str) -> None:
    """Check all forms above a table: what each changes, and what it keeps in hidden fields."""
    html = page(service, at)
    above = html[html.index('aria-label="Find a ') :]
    above = above[: above.index("</main>")]
    forms = re.findall(r"(?s)(?:<form |aria-label=\"Find a ).*?</form>", above)
    assert len(forms) == count, at
    asked = at.partition("?")[2].split("&")
    for form in forms:
        hidden = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)
        own = re.findall(r'<input(?! type="hidden")[^>]* name="(\w+)"', form)
        assert own
        kept = [each for each in asked if each.partition("=")[0] not in own]
        assert sorted(f"{name}={value}" for name, value in hidden) == sorted(kept), at
    menus = re.findall(r'<summary class="[^"]+">(?:\+ )?(\w+)', above)
    assert {"Columns", "Export", *more} == set(menus), at


def test_a_filter_may_be_typed_into_the_search(service: Service) -> None:
    asked = {"text": "subcategory:auth  dead", "sort": "task"}
    answer = service.http.get(AT, params=asked, headers=BROWSER)
    assert answer.status_code == 303
    to = answer.headers["location"]
    assert to == f"{AT}?text=dead&sort=task&subcategory=auth"
    assert listed(page(service, to)) == ["dead"]
    assert listed(page(service, AT, text="auth:401")) == ["dead"], "no filter has that name"
    assert list_pages.typed([("text", "a b:c")], {"c"}) == [("text", "a b:c")]


def test_each_filter_is_a_chip_that_removes_it(service: Service) -> None:
    html = page(service, "/ui/rollouts", text="a&b", model="gpt-5", sort="reward")
    removed = re.findall(r'<a href="([^"]+)" aria-label="Remove the filter ([^"]+)"', html)
    assert [(entities.unescape(to), entities.unescape(name)) for to, name in removed] == [
        ("?model=gpt-5&sort=reward#list", "text a&b"),
        ("?text=a%26b&sort=reward#list", "model gpt-5"),
    ]
    assert '<a href="?sort=reward#list">Clear</a>' in html
    assert "Remove the filter" not in page(service, "/ui/rollouts")


# --- A page's address and the list that it asks for -----------------------------------------------


def test_a_page_asks_for_the_newest_unless_its_address_says_otherwise() -> None:
    assert list_pages.read_form([]).parameters.order == "desc"
    assert list_pages.read_form([("order", "asc"), ("sort", "task")]).parameters.order == "asc"


def test_an_empty_field_asks_nothing_and_old_names_still_work() -> None:
    form = list_pages.read_form([("q", "quota"), ("health", ""), ("page", "3"), ("limit", "5")])
    assert (form.parameters.text, form.parameters.health, form.parameters.limit) == ("quota", [], 5)
    assert form.query == "text=quota&limit=5"
    assert list_pages.read_form([("sort", "created_at"), ("order", "desc")]).query == ""


def test_links_and_hidden_fields_keep_what_was_asked() -> None:
    given = [("batch", "a&b"), ("task", "t"), ("task", "u"), ("health", "healthy"), ("after", "x=")]
    form = list_pages.read_form(given)
    assert (form.parameters.task, form.parameters.after) == (["t", "u"], "x=")
    assert form.query == "batch=a%26b&task=t&task=u&health=healthy"
    assert (form.value("health"), form.value("validity")) == ("healthy", "")


def test_a_batchs_page_is_of_that_batch() -> None:
    form = list_pages.read_form([("batch", "other"), ("text", "x")], batch="mine")
    assert form.parameters.batch == ["mine"]
    assert form.query == "text=x"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("colour", "red", "colour: unknown; it takes batch"),
        ("health", "fine", "health: must be 'healthy', "),
        ("limit", "x", "limit: must be a whole number, not 'x'"),
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
    assert everything == ["page"] * len(everything)
    assert len(everything) > 3
    page(find_page_service, "/ui/find", status=422, q="\x00")
    assert "<script>" not in page(find_page_service, "/ui/find", q="<script>alert(1)</script>")


def test_the_search_itself_comes_last() -> None:
    matches = [SearchMatch("cause", "auth:401"), SearchMatch("batch", "b")]
    found = jumps("cau", matches, links=[NavigationItem("causes", "/ui/causes", "Causes")])
    assert [(jump.kind, jump.path) for jump in found] == [
        ("batch", "/ui/batches/b"),
        ("cause", "/ui/rollouts?fingerprint=auth%3A401"),
        ("page", "/ui/causes"),
        ("search", "/ui/rollouts?text=cau"),
    ]


@pytest.mark.postgres_smoke
def test_a_task_says_what_it_belongs_to(find_page_service: Service) -> None:
    play(find_page_service, "r", batch="night", task="t&1")
    html = page(find_page_service, "/ui/find", q="t&1")
    assert '<a href="/ui/batches/night?tab=tasks&amp;text=t%261">' in html
    assert 't&amp;1 <span class="quiet">night</span>' in html
    several = [{"id": f"n/{n}", "batch": "bulk", "task": f"task-{n}"} for n in range(20)]
    find_page_service.http.post("/rollouts/bulk", json={"rollouts": several})
    for text in ("task-12", "BULK task-12"):
        first, *_ = re.findall(
            r'<span class="tag">(\w+)</span>', page(find_page_service, "/ui/find", q=text)
        )
        assert first == "task", "of a batch that nobody has opened"
