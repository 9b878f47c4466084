"""The stream that open pages follow, over HTTP."""

from __future__ import annotations

import threading

import httpx
import pytest

from tests.proxy.api.test_routes import CHAT, PLAIN, Service
from tests.proxy.web.test_pages import page, service

assert service  # a fixture


@pytest.mark.parametrize("query", [{}, {"batch": "b"}, {"rollout": "r1"}])
@pytest.mark.postgres_smoke
def test_a_page_is_told_of_each_call(service: Service, query: dict[str, str]) -> None:
    service.http.post("/rollouts", json={"id": "r1", "batch": "b"})
    with service.http.stream("GET", "/ui/live", params=query) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        while next(lines) != ": alive":
            pass
        caller = threading.Thread(
            target=httpx.post,
            args=(str(service.http.base_url).rstrip("/") + f"/r/r1/openai{CHAT}",),
            kwargs={"json": {"model": "gpt-5", "messages": []}, "verify": PLAIN},
        )
        caller.start()
        assert next(line for line in lines if line.startswith("event")) == "event: changed"
        told = {"x-truezero-change": next(lines).removeprefix("data: ")}
        caller.join()
    path = "/ui/rollouts/r1"
    shared = service.http.get(path, headers=told).text
    service.http.post("/rollouts/r1/outcome", json={"status": "success"})
    assert service.http.get(path, headers=told).text == shared
    assert page(service, path) != shared
