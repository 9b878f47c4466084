"""REST on the real application: what a runner sends, and what it gets."""

from __future__ import annotations

import contextlib
import sqlite3
import ssl
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import psycopg
import pytest
from fastapi.routing import APIRoute

from proxy.app import Application
from proxy.control_plane import _ROUTES
from proxy.plane import planes
from proxy.relay import admission
from proxy.settings import load
from proxy.store.database import Database
from proxy.store.tables import DERIVED, metadata
from tests.fakes import answers
from tests.fakes.provider import Provider
from tests.fakes.relaying import running
from tests.proxy import inside
from tests.proxy.conftest import Services
from truezero.sdk.addresses import CLIENT

CHAT = "/v1/chat/completions"
PATHS = [
    route.path_format
    for route in (*_ROUTES, *(one for plane in planes() for one in plane.routes))
    if isinstance(route, APIRoute) and route.include_in_schema
]
ASK = {"model": "gpt-5", "messages": []}


# Reading the certificates of all authorities, 20 ms a client, is for who asks over TLS.
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
PATIENCE_S = 300.0
# After two seconds an agent is served all the same, as if it were drilled, limited or revoked by
# nobody: no machine is to be so busy that a test sees it.
admission._LOOKUP_TIMEOUT_S = PATIENCE_S  # noqa: SLF001  no machine is to be so busy that a test sees a look-up time out

# What a service needs to know itself by stays; all else is what tests left behind.
_NEEDED = ("server", "workers")


@dataclass
class Service:
    """A running service, its provider and a client without credentials."""

    http: httpx.Client
    provider: Provider
    database: str = ""
    app: Application | None = None

    def call(self, rollout: str = "r1", **headers: str) -> httpx.Response:
        path = f"/r/{quote(rollout, safe='~')}/openai{CHAT}"
        return self.http.post(path, json=ASK, headers=headers)

    def get(self, path: str, **params: Any) -> Any:
        answer = self.http.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def anew(self) -> Service:
        """The same for another test: its database empty, its provider healthy, its client new.

        What the process remembers of the rows that go is forgotten with them.
        """
        self.http.close()
        inside.quiet(self.app, patience_s=PATIENCE_S)
        empty(self.database)
        inside.forget(self.app)
        self.provider.requests.clear()
        self.provider.plays(answers.healthy)
        return replace(self, http=client(str(self.http.base_url)))


def client(url: str, **how: Any) -> httpx.Client:
    """A client of today's release that waits as long as a busy machine may take."""
    headers = {CLIENT: "of today"} | how.pop("headers", {})
    return httpx.Client(base_url=url, verify=PLAIN, timeout=PATIENCE_S, headers=headers, **how)


def empty(database: str, *, but: Sequence[str] = _NEEDED) -> None:
    """Delete what tests left behind, beside SQLAlchemy, whose statements some tests listen to.

    Arguments:
        but: tables that are kept.
    """
    names = [table.name for table in reversed(metadata.sorted_tables) if table.name not in but]
    names.sort(key={table.name for table in DERIVED}.__contains__)  # others' triggers fill them
    if "://" in database:
        with psycopg.connect(database.replace("+psycopg", "")) as rows:
            for table in names:
                rows.execute(f"DELETE FROM {table}".encode())
        return
    with closing(sqlite3.connect(database, timeout=PATIENCE_S)) as file, file:
        file.execute("BEGIN IMMEDIATE")
        for table in names:
            file.execute(f"DELETE FROM {table}")


@cache
def _prepared() -> bytes:
    """An SQLite file that nobody has written to: making one takes half of a start."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.db"
        made = Database(str(file))
        made.prepare()
        made.close()
        return file.read_bytes()


@contextlib.contextmanager
def serving(
    folder: Path, *, upstreams: Sequence[str] = ("OPENAI",), **settings: str
) -> Iterator[Service]:
    file = folder / "t.db"
    database = settings.pop("DATABASE_URL", str(file))
    if database != str(file) or file.exists():
        Database(database).prepare()
    else:
        file.write_bytes(_prepared())
    with Provider(answers.healthy) as provider:
        environment = {
            "TRUEZERO_DATABASE_URL": database,
            **{f"TRUEZERO_UPSTREAM_{name}": provider.url for name in upstreams},
            **{f"TRUEZERO_{name}": value for name, value in settings.items()},
        }
        app = Application(load({}, environment), environment)
        with running(app) as port, client(f"http://127.0.0.1:{port}") as http:
            yield Service(http, provider, database, app)


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-truezero-refusal"] == code
    body: dict[str, Any] = answer.json()
    assert (body["status"], body["code"]) == (status, code)
    assert body["detail"]
    return body


def test_a_verdict_counts_everything_the_agent_saw_end(service: Service) -> None:
    for expected in range(1, 6):
        assert service.call().status_code == 200
        assert service.get("/rollouts/r1/verdict")["total_requests"] == expected


def test_the_other_policy_judges_without_being_stored(service: Service) -> None:
    service.call()
    service.get("/rollouts/r1/verdict")
    assert service.get("/rollouts/r1/verdict", policy="seed")["policy"] == "seed"
    assert service.get("/rollouts/r1/verdict")["policy"] == "evidence"


def test_waiting_for_calls_in_flight(service: Service) -> None:
    service.call()
    verdict = service.get("/rollouts/r1/verdict", wait="settled", timeout_s=5)
    assert verdict["total_requests"] == 1


def test_without_a_token_this_machine_is_answered_and_no_name_that_was_made_point_here(
    service: Service,
) -> None:
    """DNS rebinding: a page of evil.example would read verdicts as its own origin."""
    assert service.http.get("/rollouts", headers={"host": "x.localhost"}).status_code == 200
    for host in ("evil.example:8383", "127.0.0.1.evil.example"):
        problem(service.http.get("/rollouts", headers={"host": host}), 403, "unknown_host")


def test_a_page_elsewhere_can_change_nothing(service: Service) -> None:
    elsewhere = {"origin": "https://evil.example"}
    problem(service.http.post("/rollouts", json={}, headers=elsewhere), 403, "cross_origin")
    here = {"origin": str(service.http.base_url).rstrip("/")}
    assert service.http.post("/rollouts", json={}, headers=here).status_code == 201


def test_the_public_name_is_answered_too(services: Services) -> None:
    service = services(PUBLIC_URL="http://proxy.internal:8383")
    answer = service.http.get("/rollouts", headers={"host": "proxy.internal:8383"})
    assert answer.status_code == 200
