"""The client: what it sends, and one sentence for each way a service can fail it."""

from __future__ import annotations

import httpx
import pytest
import respx

from tests.fakes.provider import closed_port
from truezero.client import Client, ServiceError

URL = "http://truezero.test"
VERDICT: dict[str, object] = {
    "rollout_id": "a/b", "batch": None, "health": "healthy", "error_category": None,
    "subcategory": None, "transient": None, "fingerprint": None, "cause": None, "lane": None,
    "layer": None, "rule": "healthy", "policy": "evidence", "error": None, "total_requests": 1,
    "failed_requests": 0, "recovered_requests": 0, "status_counts": {}, "dominant_status": None,
    "input_tokens": None, "output_tokens": None, "total_tokens": None, "tool_calls": 0,
    "cost_usd": None, "lost_s": 0.0, "scoreable": "yes", "doomed": False, "provisional": True,
    "retry": {"eligible": False, "after_s": None, "reason": "nothing failed"}, "warnings": [],
    "evidence": [], "classifier": "1",
}  # fmt: skip


def exchange(number: int) -> dict[str, object]:
    unknown = (
        "status", "ending", "model", "streamed", "first_byte_s", "first_token_s", "duration_s",
        "input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens",
        "reasoning_tokens", "total_tokens", "input_total", "output_total", "finish_reason",
        "tool_calls", "subcategory", "transient", "rule", "error_code", "retry_after_s",
    )  # fmt: skip
    known = {
        "id": f"x{number}", "upstream": "openai", "api": "openai.chat", "role": "agent",
        "started_at": 1.0, "usage_source": "absent", "request_bytes": 1, "response_bytes": 2,
        "attribution_source": "path", "injected": False,
    }  # fmt: skip
    return dict.fromkeys(unknown) | known


@respx.mock
def test_a_slash_in_an_id_is_encoded_and_the_token_shown() -> None:
    route = respx.get(url=f"{URL}/rollouts/a%2Fb/verdict").respond(json=VERDICT)
    with Client(URL, "t0ken") as client:
        assert client.verdict("a/b").health == "healthy"
    assert route.calls.last.request.headers["authorization"] == "Bearer t0ken"


@respx.mock
def test_waiting_and_policies_are_asked_for() -> None:
    route = respx.get(url__startswith=f"{URL}/rollouts/r/verdict").respond(json=VERDICT)
    with Client(URL) as client:
        client.verdict("r", settled=True, timeout_s=3, policy="seed")
    asked = dict(route.calls.last.request.url.params)
    assert asked == {"wait": "settled", "timeout_s": "3", "policy": "seed"}


@respx.mock
def test_every_page_of_exchanges_is_fetched() -> None:
    pages = [
        httpx.Response(200, json={"items": [exchange(1)], "next": "x1"}),
        httpx.Response(200, json={"items": [exchange(2)], "next": None}),
    ]
    route = respx.get(url__startswith=f"{URL}/rollouts/r/exchanges").mock(side_effect=pages)
    with Client(URL) as client:
        assert [call.id for call in client.exchanges("r")] == ["x1", "x2"]
    assert route.calls.last.request.url.params["after"] == "x1"


def test_a_service_that_is_not_there_is_an_error_never_a_healthy_verdict() -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    with Client(url) as client, pytest.raises(ServiceError) as caught:
        client.verdict("r")
    assert url in str(caught.value)
    assert "truezero serve" in str(caught.value)
    assert caught.value.status is None


@respx.mock
def test_a_problem_becomes_its_sentence() -> None:
    problem = {
        "type": "about:blank", "title": "unknown rollout", "status": 404, "detail": "no rollout",
        "code": "unknown_rollout",
    }  # fmt: skip
    respx.get(url__startswith=URL).respond(404, json=problem)
    with Client(URL) as client, pytest.raises(ServiceError) as caught:
        client.result("r")
    assert (str(caught.value), caught.value.status) == ("no rollout", 404)
    assert caught.value.code == "unknown_rollout"


@respx.mock
@pytest.mark.parametrize("status", [200, 404, 500])
def test_something_else_at_that_address_is_named(status: int) -> None:
    respx.get(url__startswith=URL).respond(status, text="<html>hello</html>")
    with Client(URL) as client, pytest.raises(ServiceError, match="is no truezero service"):
        client.verdict("r")


def test_the_environment_names_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUEZERO_URL", "http://elsewhere:1/")
    with Client() as client:
        assert client.url == "http://elsewhere:1"
