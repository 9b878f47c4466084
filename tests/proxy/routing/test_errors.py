"""Refusals of the proxy itself, and their response."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from classifier.records import Ending
from proxy.relay.context import CallLimits, LiveCalls
from proxy.routing.errors import (
    PROBLEM_TYPE,
    RateLimiter,
    Refusal,
    TokenBucket,
    agents_problem,
    problem,
)
from tests.fakes import answers, caller
from tests.fakes.provider import Answer, Cut, Hang, Provider, Wait, closed_port
from tests.fakes.relaying import Relaying, relaying
from tests.proxy.api.test_routes import serving


def test_a_refusal_is_a_problem_document_with_its_own_header() -> None:
    refusal = Refusal(404, "unknown_upstream", "no such upstream", ((b"retry-after", b"1"),))
    headers, body = problem(refusal)
    assert dict(headers) == {
        b"content-type": PROBLEM_TYPE,
        b"content-length": str(len(body)).encode(),
        b"x-truezero-refusal": b"unknown_upstream",
        b"retry-after": b"1",
    }
    assert json.loads(body) == {
        "type": "about:blank",
        "title": "unknown upstream",
        "status": 404,
        "detail": "no such upstream",
        "code": "unknown_upstream",
    }


@pytest.mark.parametrize(
    ("api", "status", "own"),
    [
        ("anthropic.messages", 401, {
            "type": "error", "error": {"type": "authentication_error", "message": "no"},
        }),
        ("anthropic.count_tokens", 502, {
            "type": "error", "error": {"type": "api_error", "message": "no"},
        }),
        ("gemini.generateContent", 503, {
            "error": {"code": 503, "message": "no", "status": "UNAVAILABLE"},
        }),
        ("gemini.generateContent", 418, {
            "error": {"code": 418, "message": "no", "status": "INTERNAL"},
        }),
        ("gemini.interactions", 404, {"error": {"code": "not_found", "message": "no"}}),
        ("bedrock.converse", 403, {"message": "no", "error": {
            "message": "no", "type": "unknown_key", "param": None, "code": "unknown_key",
        }}),
        ("", 403, {"error": {
            "message": "no", "type": "unknown_key", "param": None, "code": "unknown_key",
        }}),
    ],
)  # fmt: skip
def test_an_agent_is_refused_in_the_shape_of_its_api_too(
    api: str, status: int, own: dict[str, object]
) -> None:
    refusal = Refusal(status, "unknown_key", "no", extra={"rollout": "r1"})
    headers, body = agents_problem(refusal, api)
    plain = json.loads(problem(refusal)[1])
    assert json.loads(body) == {**plain, **own}
    assert dict(headers)[b"content-length"] == str(len(body)).encode()


def test_further_members_stand_beside_the_standard_ones() -> None:
    _, body = problem(Refusal(409, "rollout_exists", "taken", extra={"rollout": "r1"}))
    assert json.loads(body)["rollout"] == "r1"


def test_a_refusal_reads_as_its_detail() -> None:
    assert str(Refusal(400, "bad_path", "no dots")) == "no dots"


# --------------------------------------------------------------------------------------------------
# How much one process takes on: who is turned away, with which words, and who gets the place

CHAT = "/v1/chat/completions"
ASK = {"model": "gpt-5", "messages": []}


def refused(take: Callable[[], None]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        take()
    return caught.value


# --- places: calls ---------------------------------------------------------------------------


def post(relay: Relaying, rollout: str = "r1", upstream: str = "openai") -> httpx.Response:
    return caller.post(relay.base(rollout, upstream) + CHAT, json=ASK)


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(answers.healthy) as running:
        yield running


def test_a_call_over_the_bound_is_told_503_and_when_to_ask_again(provider: Provider) -> None:
    go_on = threading.Event()
    provider.plays(answers.chat_stream().stopping_after(1, Wait(go_on)))
    places = LiveCalls(total=3, per_rollout=2)
    with relaying(provider.url, live=places) as relay, ThreadPoolExecutor(3) as agents:
        waiting = [agents.submit(post, relay, rollout) for rollout in ("a", "a", "b")]
        provider.wait_for(3)
        answer, other = post(relay, "a"), post(relay, "c")
        go_on.set()
        assert [one.result().status_code for one in waiting] == [200] * 3
        assert post(relay, "a").status_code == 200
        exchanges = relay.book.wait_for(4)
    assert answer.status_code == other.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["x-truezero-refusal"] == "too_many_calls"
    assert other.json()["code"] == "too_many_calls"
    assert len(provider.requests) == 4, "the provider was not asked"
    assert [one.cause for one in exchanges] == [None] * 4, "nor blamed"


def test_one_rollouts_calls_do_not_take_anothers_places(provider: Provider) -> None:
    go_on = threading.Event()
    provider.plays(Answer(body=(Wait(go_on), b"{}")))
    with (
        relaying(provider.url, live=LiveCalls(per_rollout=1)) as relay,
        ThreadPoolExecutor(2) as agents,
    ):
        first = agents.submit(post, relay, "greedy")
        provider.wait_for(1)
        assert post(relay, "greedy").headers["x-truezero-refusal"] == "too_many_calls_of_rollout"
        second = agents.submit(post, relay, "modest")
        provider.wait_for(2)
        go_on.set()
        assert first.result().status_code == second.result().status_code == 200


def leave(relay: Relaying) -> None:
    with pytest.raises(httpx.ReadTimeout):
        caller.post(relay.base() + CHAT, json=ASK, timeout=caller.LEAVES)
    assert relay.book.only.ending is Ending.LEFT_BY_AGENT


def break_off(relay: Relaying) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        post(relay)


def ask(relay: Relaying) -> None:
    post(relay)


ENDINGS: list[tuple[str, object, Callable[[Relaying], None]]] = [
    ("an answer", answers.chat(), ask),
    ("a stream", answers.chat_stream(), ask),
    ("a failure", Answer(status=500, body=(b"{}",)), ask),
    ("a cut before the head", (Cut(),), ask),
    ("a cut in the middle", answers.chat_stream().stopping_after(1, Cut()), break_off),
    ("silence", (Hang(),), ask),
    ("an agent that leaves", (Hang(),), leave),
]


@pytest.mark.parametrize(("ending", "script", "agent"), ENDINGS, ids=[row[0] for row in ENDINGS])
def test_every_ending_gives_its_place_back(
    provider: Provider, ending: str, script: Answer, agent: Callable[[Relaying], None]
) -> None:
    provider.plays(script)
    limits = CallLimits(read_s=0.5) if ending == "silence" else CallLimits()
    with relaying(provider.url, live=LiveCalls(total=1, per_rollout=1), limits=limits) as relay:
        agent(relay)
        relay.book.wait_for(1)
        provider.plays(answers.chat())
        assert eventually_served(relay), ending


def eventually_served(relay: Relaying) -> bool:
    """Wait for the end of a call: the agent has its last byte a moment before."""
    with caller.Client() as http:
        deadline = time.monotonic() + caller.PATIENCE_S
        while time.monotonic() < deadline:
            answer = http.post(relay.base() + CHAT, json=ASK)
            if answer.status_code == 200:
                return True
            assert answer.headers["x-truezero-refusal"].startswith("too_many_calls")
    return False


def test_a_refused_call_and_one_that_reaches_nobody_give_their_places_back() -> None:
    limits = CallLimits(body_bytes=1000)
    with relaying(
        f"http://127.0.0.1:{closed_port()}",
        live=LiveCalls(total=1),
        limits=limits,
    ) as relay:
        for _ in range(3):
            assert post(relay).headers["x-truezero-refusal"] == "upstream_unreachable"
            large = caller.post(relay.base() + CHAT, content=b"x" * 1001)
            assert large.status_code == 413


# --- pace ------------------------------------------------------------------------------------


class Clock:
    """Time that a test turns by hand."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def steps(pace: RateLimiter) -> int:
    """How many are let through until one is refused."""
    for done in range(1_000_000):
        try:
            pace.step()
        except Refusal:
            return done
    raise AssertionError("nothing is ever too often")


def test_ten_seconds_worth_may_come_at_once_and_then_the_rate_holds() -> None:
    clock = Clock()
    pace = RateLimiter(5, clock)
    assert steps(pace) == 50
    clock.now += 1
    assert steps(pace) == 5
    clock.now += 3600
    assert steps(pace) == 50, "an hour's silence is not saved up"


def test_a_refusal_says_after_how_many_seconds_there_is_room() -> None:
    clock = Clock()
    pace = RateLimiter(0.25, clock)
    assert steps(pace) == 2
    told = refused(pace.step)
    assert (told.status, told.code) == (429, "too_many_registrations")
    wait_s = int(dict(told.headers)[b"retry-after"])
    clock.now += wait_s - 1
    refused(pace.step)
    clock.now += 1
    pace.step()


def test_tokens_are_saved_up_to_a_limit_and_come_back_with_time() -> None:
    clock = Clock()
    bucket = TokenBucket(2.0, most=6, clock=clock)
    assert bucket.left == 6
    bucket.take(7)
    assert bucket.left == -1
    bucket.take(-1)
    for passed_s, left in ((0.25, 0.5), (0.25, 1), (1.0, 3), (60.0, 6), (-60.0, 6), (1.0, 6)):
        clock.now += passed_s
        assert bucket.left == left, passed_s


def test_without_a_rate_nothing_is_too_often() -> None:
    pace = RateLimiter(None, Clock())
    for _ in range(100_000):
        pace.step()


def test_registrations_are_paced(tmp_path: Path) -> None:
    with serving(tmp_path, REGISTRATIONS_PER_S="0.2") as service:
        assert service.http.post("/rollouts", json={"id": "a"}).status_code == 201
        assert service.http.post("/rollouts", json={"id": "c"}).status_code == 201
        for _ in range(2):
            answer = service.http.post("/rollouts", json={"id": "b"})
            assert answer.status_code == 429
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.headers["x-truezero-refusal"] == "too_many_registrations"
            assert 1 <= int(answer.headers["retry-after"]) <= 5
        assert service.http.get("/rollouts/b/verdict").status_code == 404
        assert service.call("a").status_code == 200, "calls have no such pace"
        outcome = {"status": "success", "termination_reason": "agent_stop", "prompts_executed": 1}
        assert service.http.post("/rollouts/a/outcome", json=outcome).status_code == 200


def test_both_bounds_are_settings(tmp_path: Path) -> None:
    bounds = {"MAX_CONCURRENT_CALLS": "2", "MAX_CONCURRENT_CALLS_PER_ROLLOUT": "1"}
    go_on = threading.Event()
    with serving(tmp_path, **bounds) as service, ThreadPoolExecutor(2) as agents:
        service.provider.plays(Answer(body=(Wait(go_on), b"{}")))
        calls = [agents.submit(service.call, "a")]
        service.provider.wait_for(1)
        assert service.call("a").headers["x-truezero-refusal"] == "too_many_calls_of_rollout"
        calls.append(agents.submit(service.call, "b"))
        service.provider.wait_for(2)
        assert service.call("c").headers["x-truezero-refusal"] == "too_many_calls"
        go_on.set()
        assert [call.result().status_code for call in calls] == [200, 200]
        assert service.http.get("/rollouts/c/verdict").status_code == 404, "it wrote nothing"


def test_a_rollout_whose_every_call_was_turned_away_is_no_honest_zero(tmp_path: Path) -> None:
    go_on = threading.Event()
    with serving(tmp_path, MAX_CONCURRENT_CALLS="1") as service, ThreadPoolExecutor(1) as agents:
        service.provider.plays(Answer(body=(Wait(go_on), b"{}")))
        holding = agents.submit(service.call, "a")
        service.provider.wait_for(1)
        service.http.post("/rollouts", json={"id": "c"})
        assert [service.call("c").status_code for _ in range(3)] == [503] * 3
        go_on.set()
        holding.result()
        seen = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0.0}}
        result = service.http.post("/rollouts/c/outcome", json=seen).json()
        assert result["rewards"] == {"reward": 0.0}, "as it was reported"
        verdict = service.get("/rollouts/c/verdict")
        found = verdict["health"], verdict["scoreable"], verdict["attributed_to"]
        assert found == ("undecided", "unknown", "proxy")
        assert verdict["failed_requests"] == 0
