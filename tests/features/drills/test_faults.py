"""Failures on purpose: each is what a provider's own failure is, and nobody gets one unasked."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest

from proxy.features.drills.fault_scripts import (
    CUT_WORDS,
    INVALID_ANSWERS,
    SCRIPTS,
    SUBSTITUTE_MODEL,
    WAIT_S,
    WINDOW_TOKENS,
    WORDS,
)
from proxy.features.drills.rule import DrilledCalls, met_by
from proxy.relay.context import CallLimits
from proxy.routing.target import Target
from tests.fakes import caller
from tests.fakes.answers import Api
from tests.features.drills.each_first import OneCall
from tests.journeys.service import ROOT
from tests.proxy.api.test_routes import Service, problem, serving
from tests.proxy.relay.byhand import STREAMED, call_by_hand, ended
from truezero.models import Fault, FaultKind

KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
CUT = httpx.RemoteProtocolError
REFUSALS = ("auth", "quota", "model_not_found", "rate_limit", "overloaded")


class Met:
    """The access of a rollout whose every call meets a fault."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    def concerns(self, _: Target) -> bool:
        return True

    def admit_cached(self, _: Target) -> bool:
        return False

    async def admit(self, _: Target) -> None:
        return None

    async def rules(self, _: Target) -> dict[DrilledCalls, Fault]:
        return {DrilledCalls(OneCall()): self._fault}


# What a call of each dialect looks like: upstream, path, body, whether streamed.
CALLS: dict[str, tuple[str, str, dict[str, Any], bool]] = {
    "chat": ("openai", "/v1/chat/completions", {"model": "gpt-5", "messages": []}, False),
    "chat-stream": (
        "openai", "/v1/chat/completions", {"model": "gpt-5", "messages": [], "stream": True}, True,
    ),
    "responses": ("openai", "/v1/responses", {"model": "gpt-5", "input": "x"}, False),
    "responses-stream": (
        "openai", "/v1/responses", {"model": "gpt-5", "input": "x", "stream": True}, True,
    ),
    "messages": ("anthropic", "/v1/messages", {"model": "claude-sonnet-5", "messages": []}, False),
    "messages-stream": (
        "anthropic", "/v1/messages",
        {"model": "claude-sonnet-5", "messages": [], "stream": True}, True,
    ),
    "interactions": (
        "gemini", "/v1/interactions", {"model": "gemini-3-pro", "input": "x"}, False,
    ),
    "interactions-stream": (
        "gemini", "/v1/interactions", {"model": "gemini-3-pro", "input": "x", "stream": True}, True,
    ),
    "gemini": ("gemini", "/v1beta/models/gemini-3-pro:generateContent", {"contents": []}, False),
    "gemini-stream": (
        "gemini", "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse", {"contents": []},
        True,
    ),
    "gemini-array": (
        "gemini", "/v1beta/models/gemini-3-pro:streamGenerateContent", {"contents": []}, True,
    ),
}  # fmt: skip
EVERY_CALL = pytest.mark.parametrize("call", CALLS)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service for all; every test has a rollout of its own."""
    folder = tmp_path_factory.mktemp("faults")
    upstreams = {f"UPSTREAM_{name}": "http://127.0.0.1:9" for name in ("ANTHROPIC", "GEMINI")}
    with serving(folder, **upstreams) as running_service:
        yield running_service


@pytest.fixture(autouse=True)
def _unasked_is_untouched(house: Service) -> None:
    house.provider.requests.clear()


def drilled(service: Service, **fault: Any) -> dict[str, Any]:
    answer = service.http.post("/rollouts", json={"fault": fault})
    assert answer.status_code == 201, answer.text
    registered: dict[str, Any] = answer.json()
    return registered


def ask(registered: dict[str, Any], call: str = "chat") -> httpx.Response:
    upstream, path, body, _ = CALLS[call]
    base = registered["base_urls"][upstream].removesuffix("/v1")
    return caller.post(base + path, json=body)


def judged(service: Service, registered: dict[str, Any]) -> dict[str, Any]:
    verdict: dict[str, Any] = service.get(f"/rollouts/{registered['id']}/verdict", wait="settled")
    return verdict


def exchanges(service: Service, registered: dict[str, Any]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = service.get(f"/rollouts/{registered['id']}/exchanges")["items"]
    return items


EXPECTED = {
    "auth": ("api_error", "auth"),
    "quota": ("api_error", "quota"),
    "model_not_found": ("api_error", "model_not_found"),
    "rate_limit": ("api_error", "rate_limit"),
    "overloaded": ("api_error", "provider_error"),
    "stream_error": ("api_error", "provider_error"),
    "truncation": ("api_error", "provider_error"),
    "empty": ("suspected_api_error", None),
}
# Of REFUSALS, in their order.
STATUSES = {
    "chat": (401, 429, 404, 429, 503),
    "responses": (401, 429, 400, 429, 503),
    "messages": (401, 400, 404, 429, 529),
    "gemini": (400, 429, 404, 429, 503),
    "interactions": (401, 429, 404, 429, 503),
}


def _slowly(kind: str, call: str) -> bool:
    """A refusal is the same of a stream; one kind of it is enough for `make test`."""
    return kind in REFUSALS[1:] and CALLS[call][3]


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        pytest.param(kind, call, marks=[pytest.mark.slow] * _slowly(kind, call))
        for kind, call in itertools.product(EXPECTED, CALLS)
    ],
)
def test_each_failure_is_judged_as_a_providers_own(house: Service, kind: str, call: str) -> None:
    registered = drilled(house, kind=kind)
    with contextlib.nullcontext() if kind in REFUSALS else contextlib.suppress(CUT):
        answer = ask(registered, call)
        assert answer.headers["x-truezero-injected"] == kind
        if kind in REFUSALS:
            _check_refusal(answer, STATUSES[call.partition("-")[0]][REFUSALS.index(kind)])
    verdict = judged(house, registered)
    assert (verdict["health"], verdict["subcategory"]) == EXPECTED[kind]
    (exchange,) = exchanges(house, registered)
    assert exchange["injected"] is True
    assert exchange["deaf"] is None
    assert exchange["streamed"] is CALLS[call][3]
    assert house.provider.requests == [], "the provider was asked"


def _check_refusal(answer: httpx.Response, status: int) -> None:
    """It is JSON with the provider's own status, streamed or not."""
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["error"]["message"]
    assert "x-truezero-refusal" not in answer.headers


# What a fault that answers leaves in the exchange, by dialect; the rest is as in a good answer.
FINISHES = {
    "stop": {"chat": "stop", "responses": "completed", "messages": "end_turn", "gemini": "STOP",
             "interactions": "completed"},
    "cut_output": {
        "chat": "length", "responses": "incomplete:max_output_tokens", "messages": "max_tokens",
        "gemini": "MAX_TOKENS", "interactions": "incomplete",
    },
    "abort": {
        "chat": "abort", "responses": "incomplete:abort", "messages": "abort", "gemini": "ABORT",
        "interactions": "abort",
    },
}  # fmt: skip


def spoilt(service: Service, kind: str, call: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the exchange of a call that is answered, but not as it should be."""
    registered = drilled(service, kind=kind, delay_s=0.01)
    upstream, path, _, _ = CALLS[call]
    base = registered["base_urls"][upstream].removesuffix("/v1")
    answer = caller.post(base + path, json=body)
    assert (answer.status_code, answer.headers["x-truezero-injected"]) == (200, kind)
    assert judged(service, registered)["health"] == "healthy"
    (exchange,) = exchanges(service, registered)
    return exchange


@pytest.mark.parametrize(
    ("call", "kinds"),
    [
        *(
            pytest.param(call, [*INVALID_ANSWERS][at % 3 :: 3], id=call)
            for at, call in enumerate(CALLS)
        ),
        *(
            pytest.param(call, [*INVALID_ANSWERS], id=f"{call} all", marks=pytest.mark.slow)
            for call in CALLS
        ),
    ],
)
def test_a_spoilt_answer_is_healthy_and_differs_in_one_fact(
    house: Service, call: str, kinds: Sequence[str]
) -> None:
    *_, asked, streamed = CALLS[call]
    text = "long text " * 4000
    body = {**asked, "system": text} if call != "gemini" else {"contents": [], "system": text}
    for kind in kinds:
        exchange = spoilt(house, kind, call, body)
        dialect = call.partition("-")[0]
        finishes = FINISHES.get(kind, FINISHES["stop"])
        model = asked.get("model", "gemini-3-pro")
        assert exchange["finish_reason"] == finishes[dialect], kind
        assert exchange["answered_model"] == (SUBSTITUTE_MODEL if kind == "swap_model" else model)
        whole = exchange["request_bytes"] // 4
        read = WINDOW_TOKENS if kind == "truncate_prompt" else pytest.approx(whole, abs=20)
        assert exchange["input_total"] == read, kind
        written = CUT_WORDS if kind == "cut_output" else WORDS
        assert exchange["output_total"] == len(written), kind
        assert (exchange["streamed"], exchange["ending"]) == (streamed, "complete"), kind
        assert (exchange["deaf"], exchange["subcategory"]) == (None, None), kind
    assert house.provider.requests == [], "the provider was asked"


def asked_by_sdk(registered: dict[str, Any], api: Api, *, stream: bool) -> Any:
    """What the provider's own SDK makes of a call."""
    from tests.journeys import agents  # here: to import the SDKs takes four CPU seconds

    base = registered["base_urls"][agents.UPSTREAM[api]].removesuffix("/v1")
    return agents.ask(api, base, stream=stream)


@pytest.mark.filterwarnings("ignore:ABORT is not a valid FinishReason")
@pytest.mark.slow
@pytest.mark.parametrize("api", Api)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_providers_own_sdk_reads_a_spoilt_answer(house: Service, api: Api, stream: bool) -> None:
    for kind in ("cut_output", "abort"):
        seen = asked_by_sdk(drilled(house, kind=kind), api, stream=stream)
        assert seen.error is None, (kind, seen.message)
        assert any("look" in said for said in seen.said), kind


@pytest.mark.parametrize(
    ("delay_s", "read_s", "ending"),
    [(0.2, None, "complete"), (0.2, 60, "complete"), (3600, 0.05, "timed_out")],
)
async def test_a_slow_answer_comes_after_its_delay_or_not_at_all(
    delay_s: float, read_s: float | None, ending: str
) -> None:
    fault = Fault(kind="slow", delay_s=delay_s)
    call = call_by_hand(access=Met(fault), limits=CallLimits(read_s=read_s))
    began = time.monotonic()
    async with asyncio.timeout(60):
        while not call.book.exchanges:
            await asyncio.sleep(0.005)
            call.book.opened_now()
    assert (call.only.ending, call.only.injected) == (ending, True)
    assert time.monotonic() - began >= min(delay_s, read_s or delay_s)


@pytest.mark.parametrize("call", ["chat", "responses", "messages", "interactions", "gemini"])
def test_a_rate_limit_says_how_long_to_wait(house: Service, call: str) -> None:
    registered = drilled(house, kind="rate_limit")
    assert ask(registered, call).headers.get("retry-after", str(WAIT_S)) == str(WAIT_S)
    assert exchanges(house, registered)[0]["retry_after_s"] == WAIT_S


@pytest.mark.slow
@pytest.mark.parametrize("api", Api)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("kind", REFUSALS)
def test_a_providers_own_sdk_takes_it_for_its_providers(
    house: Service, api: Api, stream: bool, kind: str
) -> None:
    registered = drilled(house, kind=kind)
    seen = asked_by_sdk(registered, api, stream=stream)
    (exchange,) = exchanges(house, registered)
    assert seen.status == exchange["status"]
    assert seen.said == ()


@pytest.mark.slow
@pytest.mark.parametrize("api", Api)
def test_a_stream_that_breaks_with_an_error_spoke_before(house: Service, api: Api) -> None:
    registered = drilled(house, kind="stream_error")
    seen = asked_by_sdk(registered, api, stream=True)
    assert any("look" in said for said in seen.said)
    told = {Api.RESPONSES: "server_error", Api.INTERACTIONS: "service_unavailable"}
    if api in told:  # these SDKs hand the error out as an event
        assert told[api] in seen.said[-1]
    else:
        assert seen.error is not None
    assert judged(house, registered)["subcategory"] == "provider_error"
    assert exchanges(house, registered)[0]["status"] == 200


@pytest.mark.slow
@pytest.mark.parametrize("api", Api)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_empty_answer_is_correct_for_the_providers_own_sdk(
    house: Service, api: Api, stream: bool
) -> None:
    registered = drilled(house, kind="empty")
    seen = asked_by_sdk(registered, api, stream=stream)
    assert seen.error is None, seen.message
    assert seen.said
    assert judged(house, registered)["rule"] == "empty_answers"


@EVERY_CALL
def test_a_truncated_answer_ends_on_the_agents_socket(house: Service, call: str) -> None:
    registered = drilled(house, kind="truncation")
    with pytest.raises(httpx.RemoteProtocolError, match=r"incomplete|without sending complete"):
        ask(registered, call)
    (exchange,) = exchanges(house, registered)
    assert exchange["ending"] == "cut_upstream"
    assert exchange["response_bytes"] > 0


@EVERY_CALL
def test_a_reset_is_one_on_the_agents_socket(house: Service, call: str) -> None:
    registered = drilled(house, kind="reset")
    with pytest.raises(httpx.ReadError):
        ask(registered, call)
    assert len(exchanges(house, registered)) == 1, "recorded before it is reset"
    verdict = judged(house, registered)
    assert (verdict["health"], verdict["subcategory"]) == ("api_error", "provider_error")


def test_a_hang_sends_no_byte_and_ends_with_its_agent(house: Service) -> None:
    registered = drilled(house, kind="hang")
    address = httpx.URL(registered["base_urls"]["openai"])
    body = json.dumps(CALLS["chat"][2]).encode()
    request = (
        f"POST {address.raw_path.decode()}/chat/completions HTTP/1.1\r\nHost: x\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    with socket.create_connection((address.host, address.port or 0), 60) as agent:
        agent.sendall(request)
        wait_until(lambda: bool(exchanges(house, registered)), "the call is under way")
        (exchange,) = exchanges(house, registered)
        assert exchange["ending"] is None
        seen_at = time.monotonic()
        agent.settimeout(0.3)
        with pytest.raises(TimeoutError):
            agent.recv(1)
        at_least_s = time.monotonic() - seen_at
        agent.settimeout(60)
        agent.shutdown(socket.SHUT_WR)
        assert agent.recv(1) == b"", "the service closes, and has sent nothing before"
    judged(house, registered)
    (exchange,) = exchanges(house, registered)
    assert (exchange["ending"], exchange["status"]) == ("left_by_agent", None)
    assert exchange["duration_s"] >= at_least_s


def wait_until(met: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 300
    while not met():
        assert time.monotonic() < deadline, f"not so in time: {what}"
        time.sleep(0.02)


def test_a_hang_ends_with_the_read_limit(tmp_path: Path) -> None:
    with serving(tmp_path, READ_TIMEOUT_S="0.3") as service:
        registered = drilled(service, kind="hang")
        problem(ask(registered), 504, "upstream_timeout")
        assert judged(service, registered)["subcategory"] == "provider_error"


def test_a_quota_can_run_out_in_the_middle_of_a_run(house: Service) -> None:
    registered = drilled(house, kind="quota", at_call=3)
    assert [ask(registered).status_code for _ in range(4)] == [200, 200, 429, 429]
    assert len(house.provider.requests) == 2
    verdict = judged(house, registered)
    assert (verdict["rule"], verdict["subcategory"]) == ("interrupted", "quota")
    assert [x["injected"] for x in exchanges(house, registered)] == [False, False, True, True]


@pytest.mark.parametrize(
    ("fault", "struck"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"at_call": 4}, [4, 5, 6]),
        ({"every": 2}, [1, 3, 5]),
        ({"at_call": 2, "every": 2, "times": 2}, [2, 4]),
        ({"times": 1}, [1]),
    ],
)
def test_which_calls_a_fault_strikes(fault: dict[str, Any], struck: list[int]) -> None:
    plan = Fault(kind="auth", **fault)
    assert [call for call in range(1, 7) if met_by(plan, call)] == struck


def test_only_the_agents_inference_is_struck(house: Service) -> None:
    registered = drilled(house, kind="auth")
    base = registered["base_urls"]["openai"]
    assert "x-truezero-injected" not in caller.get(f"{base}/models").headers
    judge = base.replace("/openai/v1", "/as/judge/openai/v1")
    assert caller.post(f"{judge}/chat/completions", json=CALLS["chat"][2]).status_code == 200
    assert ask(registered).status_code == 401


def test_the_minted_key_is_drilled_too_whatever_the_path(house: Service) -> None:
    registered = drilled(house, kind="auth")
    answer = house.http.post(
        "/openai/v1/chat/completions",
        json=CALLS["chat"][2],
        headers={"authorization": f"Bearer {registered['key']}"},
    )
    assert answer.headers["x-truezero-injected"] == "auth"


def test_nobody_is_drilled_who_did_not_ask(house: Service) -> None:
    drilled(house, kind="auth")
    bystander = house.http.post("/rollouts", json={}).json()
    assert ask(bystander).status_code == 200
    assert house.call("passer-by").status_code == 200
    (exchange,) = exchanges(house, bystander)
    assert exchange["injected"] is False


@pytest.mark.parametrize(
    ("fault", "field"),
    [
        ({"kind": "boredom"}, "fault.kind"),
        ({}, "fault.kind"),
        ({"kind": "auth", "at_call": 0}, "fault.at_call"),
        ({"kind": "auth", "every": -1}, "fault.every"),
        ({"kind": "auth", "times": 1.5}, "fault.times"),
        ({"kind": "auth", "odds": 2}, "fault.odds"),
        ({"kind": "slow", "delay_s": 0}, "fault.delay_s"),
    ],
)
def test_an_unknown_fault_is_refused(house: Service, fault: dict[str, Any], field: str) -> None:
    answer = house.http.post("/rollouts", json={"fault": fault})
    assert problem(answer, 422, "invalid")["errors"][0]["field"] == field


def test_a_fault_needs_the_operators_token(tmp_path: Path) -> None:
    with serving(tmp_path, ADMIN_TOKEN="s3cret-token") as service:
        asked = {"fault": {"kind": "auth"}}
        problem(service.http.post("/rollouts", json=asked), 401, "unauthorized")
        operator = {"authorization": "Bearer s3cret-token"}
        registered = service.http.post("/rollouts", json=asked, headers=operator).json()
        assert ask(registered).headers["x-truezero-injected"] == "auth"


def test_two_processes_count_one_drill_together(tmp_path: Path) -> None:
    with serving(tmp_path) as one, serving(tmp_path) as other:
        registered = drilled(one, kind="auth", at_call=3)
        elsewhere = str(other.http.base_url).rstrip("/")
        here = str(one.http.base_url).rstrip("/")
        urls = {k: v.replace(here, elsewhere) for k, v in registered["base_urls"].items()}
        moved = {**registered, "base_urls": urls}
        got = [ask(agent).status_code for agent in (registered, moved, moved, registered)]
    assert got == [200, 200, 401, 401]


def test_many_drilled_calls_at_once_are_each_counted(house: Service) -> None:
    registered = drilled(house, kind="auth", at_call=11)
    got: list[int] = []
    threads = [
        threading.Thread(target=lambda: got.append(ask(registered).status_code)) for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == [200] * 10 + [401] * 10


def test_every_kind_is_tested_here() -> None:
    assert set(KINDS) == {*EXPECTED, *INVALID_ANSWERS, "hang", "reset", "replay"}


def test_the_page_on_drills_states_the_statuses() -> None:
    page = (ROOT / "docs" / "guides" / "drill.md").read_text("utf-8")
    table = page.partition("<!-- statuses -->\n")[2].partition("<!-- /statuses -->")[0]
    rows = [[cell.strip(" `") for cell in row.split("|")[1:-1]] for row in table.splitlines()[2:]]
    spoken = ("openai.chat", "openai.responses", "anthropic.messages", "gemini.generateContent",
              "gemini.interactions")  # fmt: skip
    errors = [SCRIPTS[api].errors("m") for api in spoken]
    assert rows == [
        [kind, *(str(said[kind].status) for said in errors)] for kind in (*REFUSALS, "stream_error")
    ]


async def test_a_fault_that_nobody_reads_is_held_up_as_a_provider_is() -> None:
    call = call_by_hand(STREAMED, access=Met(Fault(kind="truncate_prompt")))
    call.flow.write_paused = True
    for _turn in range(50):
        await asyncio.sleep(0)
    call.book.opened_now()
    assert (call.to_agent.said(), call.book.exchanges) == (b"", [])
    call.flow.resume_writing()
    said = await ended(call)
    assert said.startswith(b"HTTP/1.1 200 ")
    assert said.endswith(b"0\r\n\r\n")
