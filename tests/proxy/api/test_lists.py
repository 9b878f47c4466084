"""Lists over REST: several values, what is not a parameter, and files of exactly their rows."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from proxy.api import lists
from proxy.control import listing
from tests.proxy.api.test_routes import Service, problem
from tests.proxy.control.test_batches import DEAD, play

CSV, LINES = lists.CSV, lists.LINES


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def page(service: Service, query: str) -> dict[str, Any]:
    answer = service.http.get(f"/rollouts?{query}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def ids(service: Service, query: str) -> list[str]:
    return [item["id"] for item in page(service, query)["items"]]


@pytest.mark.postgres_smoke
def test_a_filter_takes_several_values(service: Service) -> None:
    for name, batch, repeat in (("a", "x", 0), ("b", "y", 1), ("c,d", "x,y", 2), ("e", None, 3)):
        service.http.post("/rollouts", json={"id": name, "batch": batch, "repeat": repeat})
    assert ids(service, "batch=x&batch=y") == ["a", "b"]
    assert ids(service, "batch=x,y") == ["c,d"], "a name may have a comma"
    assert ids(service, "batch=-&batch=x&order=desc") == ["e", "a"]
    assert ids(service, "repeat=0,2&repeat=3") == ["a", "c,d", "e"]
    assert ids(service, "health=healthy,undecided&limit=2") == ["a", "b"]
    assert ids(service, "since=1970-01-02&until=2999-01-01T00:00:00Z&reward=missing&limit=1") == [
        "a"
    ]
    assert ids(service, "until=5") == []


@pytest.mark.postgres_smoke
def test_quota_finds_what_failed_for_quota(service: Service) -> None:
    play(service, "fine")
    play(service, "dead", DEAD)
    assert ids(service, "text=AUTH") == ["dead"]
    assert ids(service, "text=fine") == ["fine"]
    assert ids(service, "rule=all_failed") == ["dead"]
    assert ids(service, "rule=healthy&rule=all_failed&sort=health") == ["dead", "fine"]
    assert ids(service, "rule=own_failures") == []


# What a list cannot take: the query, the field that is named, and what is said of it.
UNREADABLE = [
    ("colour=red", "colour", "unknown; it takes batch, task, repeat, attempt"),
    ("page=2", "page", "sort, order, after, limit"),
    ("health=fine", "health", "'healthy', 'api_error'"),
    ("health=healthy&health=x", "health", "'undecided'"),
    ("subcategory=x", "subcategory", "'quota'"),
    ("validity=x", "validity", "'suspect'"),
    ("reward=1", "reward", "'zero', 'nonzero', 'null' or 'missing'"),
    ("scoreable=1", "scoreable", "'yes', 'no' or 'unknown'"),
    ("repeat=-1", "repeat", "must be at least 0, not -1"),
    ("attempt=x", "attempt", "must be a whole number, not 'x'"),
    ("since=yesterday", "since", "takes seconds since the epoch or a time in ISO 8601"),
    ("until=inf", "until", "takes a time from 1970 to 9998"),
    ("since=-1", "since", "takes a time from 1970 to 9998"),
    ("sort=error", "sort", "'created_at', 'task'"),
    ("order=up", "order", "'asc' or 'desc'"),
    ("limit=0", "limit", "must be at least 1, not 0"),
    ("limit=1001", "limit", "must be at most 1000, not 1001"),
    ("after=junk", "after", "not a valid page cursor"),
    ("batch=%00", "batch", "control characters"),
    (f"text={'x' * 201}", "text", "at most 200 characters"),
]


@pytest.mark.parametrize(("query", "field", "said"), UNREADABLE)
def test_what_cannot_be_read_is_named_with_what_it_takes(
    service: Service, query: str, field: str, said: str
) -> None:
    refused = problem(service.http.get(f"/rollouts?{query}"), 422, "invalid")
    assert refused["detail"].startswith(f"{field}: ")
    assert said in refused["detail"]


# --- files ---------------------------------------------------------------------------------


@pytest.fixture
def filled(service: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """More rollouts than are read at once, in batches of which one is asked for."""
    monkeypatch.setattr(listing, "PAGE", 2)
    for number in range(5):
        play(service, f"r{number}", batch="b", task="=1+1" if number else None, repeat=number)
    play(service, "dead", DEAD, batch="b", task="x, y")
    play(service, "other", batch="c")
    return service


def file(service: Service, accept: str, query: str = "batch=b&sort=reward&order=desc") -> bytes:
    answer = service.http.get(f"/rollouts?{query}", headers={"accept": accept})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].partition(";")[0] == accept.partition(";")[0]
    assert answer.headers["content-disposition"].startswith('attachment; filename="rollouts.')
    return answer.content


@pytest.mark.slow
def test_a_file_has_exactly_the_rows_of_the_list(filled: Service) -> None:
    rows = page(filled, "batch=b&sort=reward&order=desc")["items"]
    assert len(rows) == 6
    assert [json.loads(line) for line in file(filled, LINES).splitlines()] == rows
    for row, told in zip(
        rows, csv.DictReader(io.StringIO(file(filled, CSV).decode())), strict=True
    ):
        first = {"repeat": 0, "attempt": 0} if row["task"] and row["repeat"] is None else {}
        assert told == {name: cell(name, value) for name, value in {**row, **first}.items()}
        assert datetime.fromisoformat(told["created_at"]).timestamp() == pytest.approx(
            row["created_at"], abs=0.001
        )


def cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name.endswith("_at"):
        moment = datetime.fromtimestamp(value, UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if name == "cost_usd":
        return f"{value:.10f}".rstrip("0")
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(value) if isinstance(value, list) else str(value).replace("=1+1", "'=1+1")


def test_a_file_of_nothing_still_names_its_columns(filled: Service) -> None:
    nothing = "batch=nobody"
    assert file(filled, LINES, nothing) == b""
    assert file(filled, CSV, nothing).startswith(b"id,batch,task,")


def test_a_file_is_limited_as_a_page_is_and_goes_on_after_one(filled: Service) -> None:
    following = page(filled, "batch=b&limit=3")["next"]
    first = file(filled, LINES, "batch=b&limit=3").splitlines()
    rest = file(filled, LINES, f"batch=b&after={following}").splitlines()
    assert [json.loads(line)["id"] for line in (*first, *rest)] == [
        "r0", "r1", "r2", "r3", "r4", "dead",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["application/vnd.apache.parquet", "text/markdown"])
def test_a_format_of_the_last_release_is_refused_with_those_that_stay(
    service: Service, name: str
) -> None:
    answer = service.http.get("/rollouts", headers={"accept": name})
    said = f"{name} is gone: ask for text/csv or application/x-ndjson"
    assert problem(answer, 406, "not_acceptable")["detail"] == said


def test_a_file_that_cannot_be_begun_is_a_problem(service: Service) -> None:
    answer = service.http.get("/rollouts?after=junk", headers={"accept": CSV})
    problem(answer, 422, "invalid")
