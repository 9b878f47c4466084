"""`GET /metrics` passes the `Accept` header on and answers in the type it got."""

from __future__ import annotations

import httpx
from fastapi import FastAPI

from proxy.api import routes
from tests.proxy.api.test_routes import Service
from tests.proxy.conftest import Services


async def test_the_exposition_chooses_the_type_by_accept() -> None:
    def exposition(accept: str) -> tuple[bytes, str]:
        return f"# for {accept}\n".encode(), "text/x-metrics; version=9"

    app = FastAPI()
    app.state.exposition = exposition
    app.include_router(routes.metrics_router)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        answer = await http.get("/metrics", headers={"accept": "application/openmetrics-text"})
    assert answer.headers["content-type"] == "text/x-metrics; version=9"
    assert answer.text == "# for application/openmetrics-text\n"


def test_prometheus_and_openmetrics_are_both_served(services: Services) -> None:
    service: Service = services()
    plain = service.http.get("/metrics", headers={"accept": "text/plain"})
    open_metrics = {"accept": "application/openmetrics-text; version=1.0.0"}
    other = service.http.get("/metrics", headers=open_metrics)
    assert plain.headers["content-type"].startswith("text/plain")
    assert other.headers["content-type"].startswith("application/openmetrics-text")
    assert other.text.endswith("# EOF\n")
