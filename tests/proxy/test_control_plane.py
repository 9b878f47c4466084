"""The control plane as one application, and the base URL it hands to agents."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from proxy.app import Application
from proxy.settings import load
from proxy.store.database import Database
from tests.proxy.api.test_routes import Service
from tests.proxy.conftest import Services


@pytest.mark.parametrize(
    ("settings", "host", "base"),
    [
        ({}, "localhost:9000", "http://localhost:9000"),
        ({"PUBLIC_URL": "https://proxy.example/x/"}, "proxy.example", "https://proxy.example/x"),
    ],
)
def test_agents_are_sent_to_the_public_url_else_where_the_runner_asked(
    services: Services, settings: dict[str, Any], host: str, base: str
) -> None:
    service: Service = services(**settings)
    registered = service.http.post("/rollouts", json={"id": "r"}, headers={"host": host}).json()
    assert registered["base_urls"]["openai"] == f"{base}/r/r/openai/v1"


def test_rest_and_pages_are_one_application(services: Services) -> None:
    service: Service = services()
    for path in ("/rollouts", "/", "/healthz"):
        assert service.http.get(path, follow_redirects=True).status_code == 200, path


async def test_services_of_one_process_share_their_routes_and_nothing_else(tmp_path: Path) -> None:
    apps = [control_plane(tmp_path / f"{name}.db", public_url=f"https://{name}") for name in "ab"]
    assert len(apps[0].routes) > 40
    for ours, theirs in zip(*(app.routes for app in apps), strict=True):
        assert ours is theirs, "made anew for each service: a millisecond of CPU"
    async with contextlib.AsyncExitStack() as ends:
        a, b = [
            await ends.enter_async_context(
                httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here")
            )
            for app in apps
        ]
        asked = [
            http.post("/rollouts", json={"id": f"{name}{n}", "batch": f"batch-{name}"})
            for n in range(2)
            for name, http in (("a", a), ("b", b))
        ]
        for answer in await asyncio.gather(*asked):
            registered = answer.raise_for_status().json()
            base = registered["base_urls"]["openai"]
            assert base.startswith(f"https://{registered['id'][0]}/"), base
        for http, own, other in ((a, "a", "b"), (b, "b", "a")):
            assert await listed(http) == [f"{own}0", f"{own}1"]
            assert (await http.get(f"/batches/batch-{other}")).status_code == 404
            page = (await http.get("/")).text
            assert (f"batch-{own}" in page, f"batch-{other}" in page) == (True, False)


def control_plane(database: Path, **settings: str) -> FastAPI:
    Database(str(database)).prepare()
    given = {"database_url": str(database), **settings}
    return Application(load(given, {}), {}).control_plane().app


async def listed(http: httpx.AsyncClient) -> Sequence[str]:
    items = (await http.get("/rollouts")).json()["items"]
    return sorted(item["id"] for item in items)
