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


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"status": "fine"}, "status"),
        ({}, "status"),
        ({"status": "success", "termination_reason": "bored"}, "termination_reason"),
        ({"status": "success", "prompts_executed": -1}, "prompts_executed"),
        ({"status": "success", "tool_calls": "two"}, "tool_calls"),
        ({"status": "success", "total_tokens": 10**30}, "total_tokens"),
        ({"status": "success", "rewards": {"reward": "x"}}, "rewards.reward"),
        ({"status": "success", "surprise": 1}, "surprise"),
        ([], "body"),
    ],
)
def test_a_bad_outcome_names_the_field(service: Service, body: object, field: str) -> None:
    service.call()
    refusal = problem(service.http.post("/rollouts/r1/outcome", json=body), 422, "invalid")
    assert refusal["errors"][0]["field"] == field
    assert field in refusal["detail"]


@pytest.mark.parametrize(
    "text",
    [
        b'{"status":"success"', b"", b"\xff\xfe", b'{"status":"success","rewards":{"r":NaN}}',
        b'{"status":"success","eval":{"r":Infinity}}', b'{"status":"success","error":"\\ud800"}',
        b'{"status":"success","eval":{"\\ud800":1}}', b"null", b"[" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_json_is_refused_by_name(service: Service, text: bytes) -> None:
    service.call()
    answer = service.http.post(
        "/rollouts/r1/outcome", content=text, headers={"content-type": "application/json"}
    )
    problem(answer, 422, "invalid")


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        ({"id": "x" * 201}, "id"),
        ({"id": ""}, "id"),
        ({"id": "a\nb"}, "id"),
        ({"batch": "\x00"}, "batch"),
        ({"attempt": -1}, "attempt"),
        ({"attempt": 2**31}, "attempt"),
        ({"repeat": -1}, "repeat"),
        ({"repeat": 2**31}, "repeat"),
        ({"usage_channel": "both"}, "usage_channel"),
        ({"upstream": "nope"}, "upstream"),
        ({"metadata": [1]}, "metadata"),
        ({"name": "x"}, "name"),
    ],
)
def test_a_bad_registration_names_the_field(
    service: Service, facts: dict[str, object], field: str
) -> None:
    refusal = problem(service.http.post("/rollouts", json=facts), 422, "invalid")
    assert field in refusal["detail"]


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


def test_what_is_not_there_is_a_problem_too(service: Service) -> None:
    problem(service.http.get("/nowhere"), 404, "not_found")
    problem(service.http.delete("/rollouts"), 405, "method_not_allowed")
    problem(service.http.post("/r/r1/nope/v1/x"), 404, "unknown_upstream")


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
