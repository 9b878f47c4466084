"""Thousands of registrations in one call, each with an answer of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event

from proxy.api import bulk
from proxy.store.errors import DatabaseUnavailable
from tests.proxy import inside
from tests.proxy.api.test_routes import Service, problem
from tests.proxy.conftest import Services

MANY = 10_000


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def register(service: Service, *rollouts: Any) -> list[dict[str, Any]]:
    answer = service.http.post("/rollouts/bulk", json={"rollouts": rollouts})
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def test_each_is_answered_in_its_place_with_its_own_error(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "CHUNK", 2)
    asked = [
        {"id": "a", "batch": "b"}, {"id": "b", "attempt": -1}, 7, {"id": "a", "batch": "c"},
        {"id": "c", "upstream": "nowhere"}, {"id": "d", "colour": "red"}, {"id": "e"},
    ]  # fmt: skip
    items = register(service, *asked)
    alone = [service.http.post("/rollouts", json=each) for each in asked]
    assert [item["status"] for item in items] == [201, 422, 422, 409, 422, 422, 201]
    for item, answer in zip(items, alone, strict=True):
        assert item["status"] == answer.status_code
        told = item["problem"] if answer.is_error else item["rollout"]
        assert told == answer.json()
        assert [item["problem"], item["rollout"]].count(None) == 1


def test_a_body_over_the_limit_is_not_read(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MOST_BYTES", 1000)
    for content in (b"x" * 1001, iter([b"x" * 600, b"x" * 600])):
        answer = service.http.post("/rollouts/bulk", content=content)
        assert "at most 1000 bytes" in problem(answer, 413, "body_too_large")["detail"]


def test_each_counts_against_the_rate_limit(services: Services) -> None:
    limited = services(REGISTRATIONS_PER_S="0.0001")
    items = register(limited, {"id": "a"}, {"id": "b"})
    assert [item["status"] for item in items] == [201, 429]
    assert items[1]["problem"]["code"] == "too_many_registrations"


def test_without_the_database_each_is_told_so(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise DatabaseUnavailable("locked")

    assert service.app is not None
    monkeypatch.setattr(inside.database(service.app).rollouts, "register_all", fails)
    items = register(service, {"id": "a"}, {"id": "b", "attempt": -1})
    assert [item["status"] for item in items] == [503, 422]
    assert items[0]["problem"]["code"] == "storage_unavailable"


@pytest.fixture
def commits() -> Iterator[list[object]]:
    """The transactions that wrote registrations: a service has others by itself meanwhile."""
    made: list[object] = []

    def executes(connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("INSERT INTO rollouts"):
            connection.info["registers"] = True

    def hears(connection: Connection) -> None:
        if connection.info.pop("registers", False):
            made.append(connection)

    event.listen(Engine, "before_cursor_execute", executes)
    event.listen(Engine, "commit", hears)
    yield made
    event.remove(Engine, "before_cursor_execute", executes)
    event.remove(Engine, "commit", hears)


@pytest.mark.parametrize("many", [1000, pytest.param(MANY, marks=pytest.mark.slow)])
def test_five_hundred_take_one_transaction(
    services: Services, commits: list[object], monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    service = services(REGISTRATIONS_PER_S="0")
    # Else base URLs of 25 upstreams each are most of the work.
    monkeypatch.setattr("proxy.control.rollouts.access_of", lambda _k, _u, name, **_: access(name))
    tasks = [
        {"id": f"r{n}", "batch": "b", "task": f"t{n // 8}", "repeat": n % 8} for n in range(many)
    ]
    items = register(service, *tasks)
    assert len(commits) == many // bulk.CHUNK == many // 500
    assert [item["rollout"]["id"] for item in items] == [task["id"] for task in tasks]
    assert service.get("/batches/b/groups", limit=1)["items"][0]["wanted"] == 8


def access(name: str) -> Any:
    from truezero.models import RoleAccess

    return RoleAccess(key=f"tz-{name}", base_urls={}, env={})
