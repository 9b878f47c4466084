"""Routes that several applications share read the state of the one that is asked."""

from __future__ import annotations

import asyncio

import httpx
from fastapi import APIRouter, FastAPI, Request

from proxy.api import problems
from proxy.api.problems import LIMITED, Version, base_url
from proxy.routing.errors import RateLimiter


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
