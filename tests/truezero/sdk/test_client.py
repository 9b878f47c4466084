"""The client: what it sends, and one sentence for each way a service can fail it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from importlib import metadata
from itertools import islice
from typing import Any

import httpx
import pytest
import respx

from tests.fakes.provider import closed_port
from truezero import AsyncClient, Client, ServiceError, models

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

REGISTERED: dict[str, object] = {
    "id": "r", "key": "tz-key", "admitted": True, "error": None, "base_urls": {}, "env": {},
}  # fmt: skip
RESULT: dict[str, object] = {
    "rollout_id": "r", "status": "success", "termination_reason": None, "rewards": None,
    "eval": None, "error": None, "error_category": None, "api_error_info": None,
    "suspected_api_error_info": None,
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
@pytest.mark.parametrize(
    ("version", "told"), [("99.0.1", True), (metadata.version("truezero"), False)]
)
def test_what_another_release_refuses_is_told_with_both_releases(version: str, told: bool) -> None:
    refusal = {"detail": "colour: unknown", "code": "invalid", "status": 422}
    respx.post(f"{URL}/rollouts").respond(422, json=refusal)
    respx.get(f"{URL}/healthz").respond(json={"status": "ok", "version": version})
    with Client(URL) as client, pytest.raises(ServiceError, match="colour: unknown") as caught:
        client.register(batch="b")
    ours = metadata.version("truezero")
    both = f"; the service is truezero 99.0.1 and the client is truezero {ours}: install the same"
    assert (both in str(caught.value)) is told
    assert (caught.value.status, caught.value.code) == (422, "invalid")


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


def alive(version: str) -> dict[str, str]:
    return {"status": "ok", "version": version}


def ask(kind: str, method: str, *args: Any, **options: Any) -> Any:
    """The same question, waiting or awaited."""

    async def later() -> Any:
        async with AsyncClient(URL, "t0ken") as client:
            return await getattr(client, method)(*args, **options)

    if kind == "async":
        return asyncio.run(later())
    with Client(URL, "t0ken") as client:
        return getattr(client, method)(*args, **options)


both = pytest.mark.parametrize("kind", ["sync", "async"])

# Method, its arguments, and the request that it is.
ASKED: list[tuple[str, tuple[Any, ...], dict[str, Any], str, str, object]] = [
    ("greet", (), {}, "GET", "/healthz", None),
    ("register", (), {"id": "a"}, "POST", "/rollouts", {"id": "a"}),
    ("register_many", ([{"id": "a"}, {}],), {}, "POST", "/rollouts/bulk",
     {"rollouts": [{"id": "a"}, {}]}),
    ("report", ("a/b",), {"tool_calls": 1}, "POST", "/rollouts/a%2Fb/outcome",
     {"status": "success", "tool_calls": 1}),
    ("verdict", ("r",), {"policy": "seed"}, "GET", "/rollouts/r/verdict?policy=seed", None),
    ("result", ("r",), {}, "GET", "/rollouts/r/result", None),
    ("exchanges", ("r",), {}, "GET", "/rollouts/r/exchanges", None),
    ("rollouts", (), {"batch": "b"}, "GET", "/rollouts?batch=b&limit=1000", None),
    ("rollouts", (), {"validity": "starved"}, "GET", "/rollouts?validity=starved&limit=1000", None),
    ("rollouts", (), {"batch": ["a", "b"], "repeat": (0, 1), "sort": "reward", "since": 5.5}, "GET",
     "/rollouts?batch=a&batch=b&repeat=0&repeat=1&sort=reward&since=5.5&limit=1000", None),
    ("rollout_page", (), {"after": "x=", "limit": 5, "text": "quota"}, "GET",
     "/rollouts?text=quota&after=x%3D&limit=5", None),
    ("batch_page", (), {"after": "x"}, "GET", "/batches?after=x&limit=20", None),
    ("summary", ("b/c",), {}, "GET", "/batches/b%2Fc", None),
    ("check", ("b",), {}, "GET", "/batches/b/check", None),
    ("breaker", ("b",), {}, "GET", "/batches/b/breaker", None),
    ("reset_breaker", ("b",), {"lane": "l"}, "POST", "/batches/b/breaker/reset?lane=l", None),
    ("fingerprints", (), {}, "GET", "/fingerprints", None),
]  # fmt: skip


@both
@pytest.mark.parametrize(("method", "args", "options", "verb", "path", "body"), ASKED)
@respx.mock
def test_both_clients_ask_alike(
    kind: str,
    method: str,
    args: tuple[Any, ...],
    options: dict[str, Any],
    verb: str,
    path: str,
    body: object,
) -> None:
    problem = {
        "type": "about:blank", "title": "no", "status": 418, "detail": "asked", "code": "asked",
    }  # fmt: skip
    route = respx.route().respond(418, json=problem)
    with pytest.raises(ServiceError, match="asked"):
        ask(kind, method, *args, **options)
    request = route.calls.last.request
    assert (request.method, request.url.raw_path.decode()) == (verb, path)
    assert request.headers["authorization"] == "Bearer t0ken"
    assert (json.loads(request.content) if request.content else None) == body


def taken(kind: str, method: str, most: int, **options: Any) -> list[Any]:
    """What an iterator of either client yields first, at most so much."""

    async def later() -> list[Any]:
        async with AsyncClient(URL) as client:
            found = []
            async for item in getattr(client, method)(**options):
                found.append(item)
                if len(found) == most:
                    break
            return found

    if kind == "async":
        return asyncio.run(later())
    with Client(URL) as client:
        return list(islice(getattr(client, method)(**options), most))


@both
@respx.mock
def test_rollouts_and_batches_are_asked_for_page_by_page_as_they_are_taken(kind: str) -> None:
    item = {"id": "r", "batch": None, "task": None, "attempt": None, "model": None,
            "upstream": None, "created_at": 1.0, "registered": True, "health": None,
            "subcategory": None, "fingerprint": None, "provisional": None}  # fmt: skip
    counts: dict[str, Any] = dict.fromkeys(models.BatchItem.model_fields, 0)
    batch = {**counts, "batch": "b", "health": {}, "valid": True}
    batch |= dict.fromkeys(("score_ci", "zeros", "ones", "no_score"))
    for path, method, each in (
        ("rollouts", "iter_rollouts", item),
        ("batches", "iter_batches", batch),
    ):
        route = respx.get(f"{URL}/{path}")
        answers = [{"items": [each, each], "next": "x"}, {"items": [each], "next": None}]
        route.side_effect = [httpx.Response(200, json=answer) for answer in answers * 2]
        assert len(taken(kind, method, 2)) == 2
        assert route.call_count == 1, "the next page is not asked for before it is wanted"
        route.side_effect = [httpx.Response(200, json=answer) for answer in answers]
        assert len(taken(kind, method, 9)) == 3
        assert dict(route.calls.last.request.url.params)["after"] == "x"


@both
@respx.mock
def test_a_list_comes_as_csv_line_by_line(kind: str) -> None:
    route = respx.get(f"{URL}/rollouts").respond(text="id,batch\r\na,b\r\n")
    assert taken(kind, "rollouts_csv", 9, health=["healthy", "undecided"]) == ["id,batch", "a,b"]
    request = route.calls.last.request
    assert request.headers["accept"] == "text/csv"
    assert request.url.query == b"health=healthy&health=undecided"


@both
@respx.mock
def test_a_service_of_this_release_is_greeted(kind: str) -> None:
    respx.get(f"{URL}/healthz").respond(json=alive(metadata.version("truezero")))
    assert ask(kind, "greet").status == "ok"


@both
@respx.mock
def test_a_service_of_another_release_is_named(kind: str) -> None:
    respx.get(f"{URL}/healthz").respond(json=alive("99.1.0"))
    with pytest.raises(ServiceError, match=r"truezero 99\.1\.0.*same release") as caught:
        ask(kind, "greet")
    assert caught.value.code == "other_version"


@both
@respx.mock
def test_only_what_changes_nothing_is_asked_again_on_a_connection_that_was_closed(
    kind: str,
) -> None:
    cut = httpx.RemoteProtocolError("cut")
    asked = respx.get(f"{URL}/rollouts/r/verdict").mock(
        side_effect=[cut, httpx.Response(200, json=VERDICT)]
    )
    assert ask(kind, "verdict", "r").rule == "healthy"
    reset = respx.post(f"{URL}/batches/b/breaker/reset").mock(side_effect=cut)
    with pytest.raises(ServiceError) as caught:
        ask(kind, "reset_breaker", "b")
    assert (caught.value.code, asked.call_count, reset.call_count) == ("no_answer", 2, 1)


def sse(*events: tuple[int, str]) -> bytes:
    return b": alive\n\n" + b"".join(
        f"id: {number}\nevent: {kind}\ndata: {{}}\n\n".encode() for number, kind in events
    )


@respx.mock
def test_a_stream_that_breaks_goes_on_where_it_was() -> None:
    answers: list[httpx.Response | Exception] = [
        httpx.Response(200, content=sse((7, "verdict_given"))),
        httpx.ReadError("cut"),
        httpx.Response(200, content=sse((8, "breaker_opened"))),
    ]
    route = respx.get(url__startswith=f"{URL}/batches/b/events").mock(side_effect=answers)
    waits: list[float] = []
    with Client(URL, sleep=waits.append) as client:
        events = client.events("b")
        told = [next(events).kind, next(events).kind]
    assert told == ["verdict_given", "breaker_opened"]
    asked = [dict(call.request.url.params) for call in route.calls]
    assert asked == [{}, {"after": "7"}, {"after": "7"}]
    assert waits == [1.0, 1.0]


def test_importing_the_package_loads_nothing_else() -> None:
    script = (
        "import sys, truezero; print(sorted(n for n in sys.modules if n.startswith('truezero.')),"
        " 'httpx' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["[]", "False"]


@respx.mock
def test_a_card_may_take_as_long_as_judging_a_large_batch_does() -> None:
    card = respx.get(f"{URL}/batches/b/card").mock(httpx.Response(200, content=b"{}"))
    summary = respx.get(f"{URL}/batches/b/check").mock(httpx.Response(404, json={}))
    with Client(URL) as client:
        assert client.card("b", harness="h 1") == b"{}"
        with pytest.raises(ServiceError):
            client.check("b")
    asked, usual = card.calls.last.request, summary.calls.last.request
    assert asked.url.params["harness"] == "h 1"
    assert usual.extensions["timeout"]["read"] < asked.extensions["timeout"]["read"] == 3600
