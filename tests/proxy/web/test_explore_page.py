"""Any rollouts are found, sorted, grouped and downloaded as the page shows them."""

from __future__ import annotations

import csv
import html as entities
import io
import json
import re
from collections.abc import Callable
from typing import get_args

import pytest

from proxy.routing.errors import Refusal
from proxy.store.listing import GROUPS as STORED_GROUPS
from proxy.web.list_pages import CHOICES, COLUMNS, GROUPED, GROUPS, USUAL, WRITTEN, read_view
from tests.proxy.api.test_routes import Service
from tests.proxy.web.test_pages import DEAD, LIMITED, listed, page, play, words
from truezero import models

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
    link = re.search(r'<a href="\?([^"]+)" download>csv</a>', html)
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
