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
from tests.proxy.api.test_routes import Service
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
