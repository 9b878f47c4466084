"""What every page shares: errors as pages, and redirects to our own paths."""
# ruff: noqa: SLF001
# Private: templates are counted as they load.

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from jinja2 import StrictUndefined, Template
from starlette.testclient import TestClient

from proxy.api.auth import Sessions
from proxy.app import Application
from proxy.routing.errors import Refusal
from proxy.settings import load
from proxy.store.database import Database
from proxy.web import context, render
from proxy.web.context import Number, PageRoute, read_time_range
from tests.fakes.relaying import running
from tests.proxy.api.test_routes import Service
from tests.proxy.conftest import Services
from tests.proxy.web.test_pages import TOKEN


def test_a_refusal_and_a_bad_parameter_are_pages() -> None:
    routes = APIRouter(route_class=PageRoute)

    @routes.get("/counted")
    async def counted(page: Number) -> None:
        raise Refusal(404, "unknown_call", f"no <{page}>")

    app = FastAPI()
    app.include_router(routes)
    browser = TestClient(app)
    for path, status, told in (
        ("/counted?page=3", 404, "No &lt;3&gt;"),
        ("/counted?page=x", 422, "Invalid query parameter"),
    ):
        answer = browser.get(path)
        assert (answer.status_code, told in answer.text) == (status, True), path
        assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_a_template_that_fails_is_a_page_with_a_way_back_and_the_logs_id(
    services: Services, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Template("{{ nothing.of_it }}", undefined=StrictUndefined)
    real = render._templates().get_template
    monkeypatch.setattr(
        render._templates(),
        "get_template",
        lambda name, *its: broken if name == "batches.html" else real(name, *its),
    )
    page = services().http.get("/")
    (incident,) = re.findall(r"under the id <code>(\w{8})</code>", page.text)
    assert page.status_code == 500
    assert '<header class="top">' in page.text and '<a class="brand" href="/">' in page.text
    assert '<a href="/">Back to batches</a>' in page.text
    assert f"unexpected error {incident}" in caplog.messages


def test_a_redirect_is_followed_by_get_and_not_kept() -> None:
    answer = context.redirect("/ui/rollouts")
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/rollouts")
    assert answer.headers["cache-control"] == "no-store"


# --- Forms are read only from pages of our own origin, and only up to a size ----------------------

OWN = {"sec-fetch-site": "same-origin"}


@pytest.fixture
def guarded(services: Services) -> Service:
    return services(ADMIN_TOKEN=TOKEN)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1", "sec-fetch-site": "none"},
    ],
)
def test_a_form_of_another_origin_is_refused(guarded: Service, headers: dict[str, str]) -> None:
    answer = guarded.http.post("/ui/sign-in", data={"token": TOKEN}, headers=headers)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_on_plain_http_the_origin_itself_is_looked_at(guarded: Service) -> None:
    origin = str(guarded.http.base_url).rstrip("/")
    answer = guarded.http.post("/ui/sign-in", data={"token": TOKEN}, headers={"origin": origin})
    assert answer.status_code == 303


@pytest.mark.parametrize("chunked", [False, True])
def test_a_form_that_is_too_large_is_refused(guarded: Service, chunked: bool) -> None:
    fields = b"token=" + b"x" * 20_000
    content = iter([fields]) if chunked else fields
    answer = guarded.http.post("/ui/sign-in", content=content, headers=OWN)
    assert answer.status_code == 413
    assert "set-cookie" not in answer.headers


def test_of_a_field_given_twice_the_last_value_counts(guarded: Service) -> None:
    content = f"token=wrong&token={TOKEN}".encode()
    assert guarded.http.post("/ui/sign-in", content=content, headers=OWN).status_code == 303


# --- What signs a person in: the admin token always, a link once, and nothing else ----------------


def signed_in(url: str, secret: str) -> bool:
    """Whether a browser that shows this is given a session that opens a page."""
    with httpx.Client(base_url=url, headers={"sec-fetch-site": "same-origin"}) as browser:
        answer = browser.post("/ui/sign-in", data={"token": secret})
        assert (answer.status_code == 303) is bool(browser.cookies)
        assert answer.status_code in (303, 403)
        return browser.get("/", headers={"accept": "text/html"}).status_code == 200


def test_a_link_opens_once_in_whichever_process_and_the_token_always(tmp_path: Path) -> None:
    environment = {
        "TRUEZERO_DATABASE_URL": str(tmp_path / "t.db"), "TRUEZERO_ADMIN_TOKEN": "t0ken",
    }  # fmt: skip
    database = Database(environment["TRUEZERO_DATABASE_URL"])
    database.prepare()
    now = 4_000_000_000.0
    ours = Sessions.of(database.deployment.secret("keyring"), b"t0ken")
    links = [ours.invite(now, each) for each in ("a", "b")]
    over = ours.invite(0.0, "c")
    foreign = Sessions.of(b"x" * 32, b"t0ken").invite(now, "d")
    database.close()
    one, two = (Application(load({}, environment), environment) for _ in range(2))
    with running(one) as here, running(two) as there:
        urls = [f"http://127.0.0.1:{port}" for port in (here, there)]
        assert [signed_in(url, links[0]) for url in (*urls, *urls)] == [True, False, False, False]
        assert [signed_in(url, links[1]) for url in reversed(urls)] == [True, False]
        assert not any(signed_in(urls[0], secret) for secret in (over, foreign, "", "t0ken."))
        assert all(signed_in(url, "t0ken") for url in (*urls, *urls))


def test_opening_the_link_uses_nothing_up(tmp_path: Path) -> None:
    """A preview or a prefetch asks for the page; only the form uses the link."""
    environment = {
        "TRUEZERO_DATABASE_URL": str(tmp_path / "t.db"), "TRUEZERO_ADMIN_TOKEN": "t0ken",
    }  # fmt: skip
    database = Database(environment["TRUEZERO_DATABASE_URL"])
    database.prepare()
    secret = Sessions.of(database.deployment.secret("keyring"), b"t0ken").invite(4e9, "a")
    database.close()
    with running(Application(load({}, environment), environment)) as port:
        url = f"http://127.0.0.1:{port}"
        page = httpx.get(f"{url}/ui/sign-in#{secret}")
        assert page.status_code == 200
        assert secret not in page.text
        assert httpx.get(f"{url}/ui/sign-in", params={"token": secret}).status_code == 200
        assert signed_in(url, secret)


# --- The time that a page is about, and its words and addresses -----------------------------------

NOW = 1_790_000_000.0


def test_a_window_ends_now() -> None:
    chosen = read_time_range(NOW, 3600, None, None)
    assert (chosen.since, chosen.until, chosen.query) == (NOW - 3600, None, "window=3600")
    assert chosen.words == "the last 1 h"
    assert chosen.named("a", "b") == {"a": "2026-09-21T13:13:20"}


def test_a_range_wins_over_a_window() -> None:
    chosen = read_time_range(NOW, 3600, NOW - 60, NOW)
    assert (chosen.since, chosen.until, chosen.window) == (NOW - 60, NOW, None)
    assert chosen.words == "2026-09-21 14:12:20 to 2026-09-21 14:13:20 UTC"
    assert chosen.query == "since=2026-09-21T14%3A12%3A20&until=2026-09-21T14%3A13%3A20"


def test_a_range_may_go_on() -> None:
    chosen = read_time_range(NOW, 3600, NOW - 60, None)
    assert chosen.words == "2026-09-21 14:12:20 to now"
    assert chosen.query == "since=2026-09-21T14%3A12%3A20"
