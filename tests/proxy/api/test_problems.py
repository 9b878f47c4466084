"""Errors of the control plane as problem JSON, each naming the field at fault."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import httpx
import pytest
from fastapi import APIRouter, FastAPI, Request

import truezero
from proxy.api import problems
from proxy.api.problems import LIMITED, Version, base_url, json_answer
from proxy.control import batches
from proxy.routing.errors import RateLimiter
from tests.proxy.api.test_routes import Service, problem
from tests.proxy.conftest import Services


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def test_an_unexpected_error_has_an_id_that_the_log_has_too(
    services: Services, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = services()
    monkeypatch.setattr(batches, "check", lambda *_: 1 / 0)
    told = problem(service.http.get("/batches/b/check"), 500, "internal_error")
    assert told["incident"] in told["detail"]
    assert f"unexpected error {told['incident']}" in caplog.messages
    said = r"^unexpected error \w{8}: the service's log"
    with (
        truezero.Client(str(service.http.base_url)) as client,
        pytest.raises(truezero.ServiceError, match=said),
    ):
        client.check("b")


# --- Answers are JSON, whatever the event loop is busy with ---------------------------------------


async def test_an_answer_is_json_with_unknown_as_null() -> None:
    answer = await json_answer({"score": None, "interval": (0.25, 0.5)})
    assert answer.headers["content-type"] == "application/json"
    assert json.loads(bytes(answer.body)) == {"score": None, "interval": [0.25, 0.5]}


# --- Routes that several applications share read the state of the one that is asked ---------------


def browser(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here")


async def test_calls_in_flight_at_once_keep_to_their_own_application() -> None:
    router, all_here = APIRouter(), asyncio.Barrier(2)

    @router.get("/")
    async def told(version: Version, request: Request) -> list[str]:
        await all_here.wait()
        return [version, base_url(request)]

    apps = [FastAPI(), FastAPI()]
    for app, name in zip(apps, ("a", "b"), strict=True):
        app.routes.extend(router.routes)
        app.state.version = name
        app.state.address = lambda request, name=name: f"{request.url.scheme}://{name}"
    async with browser(apps[0]) as first, browser(apps[1]) as second:
        answers = await asyncio.gather(first.get("/"), second.get("/"))
    assert [each.json() for each in answers] == [["a", "http://a"], ["b", "http://b"]]


async def test_a_registration_takes_a_token_of_its_own_application() -> None:
    router, apps = APIRouter(), [FastAPI(), FastAPI()]

    @router.post("/", dependencies=LIMITED)
    async def register() -> None:
        return None

    for app in apps:
        app.routes.extend(router.routes)
        app.state.limiter = RateLimiter(0.1, lambda: 0.0)  # one at once
        problems.install(app)
    async with browser(apps[0]) as first, browser(apps[1]) as second:
        codes = [(await each.post("/")).status_code for each in (first, first, second, second)]
    assert codes == [200, 429, 200, 429]
