"""What every page shares: errors as pages, and redirects to our own paths."""

from __future__ import annotations

import re

import pytest
from fastapi import APIRouter, FastAPI
from jinja2 import StrictUndefined, Template
from starlette.testclient import TestClient

from proxy.routing.errors import Refusal
from proxy.web import context, render
from proxy.web.context import Number, PageRoute
from tests.proxy.conftest import Services


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
