"""What every page shares: errors as pages, and redirects to our own paths."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI
from starlette.testclient import TestClient

from proxy.routing.errors import Refusal
from proxy.web import context
from proxy.web.context import Number, PageRoute


def test_a_refusal_and_a_bad_parameter_are_pages() -> None:
    routes = APIRouter(route_class=PageRoute)

    @routes.get("/counted")
    async def counted(page: Number) -> None:
        raise Refusal(404, "unknown", f"no <{page}>")

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


def test_a_redirect_is_followed_by_get_and_not_kept() -> None:
    answer = context.redirect("/ui/rollouts")
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/rollouts")
    assert answer.headers["cache-control"] == "no-store"
