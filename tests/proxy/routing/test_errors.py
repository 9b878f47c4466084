"""Refusals of the proxy itself, and their response."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from proxy.routing.errors import (
    PROBLEM_TYPE,
    RateLimiter,
    Refusal,
    TokenBucket,
    agents_problem,
    problem,
)
from tests.fakes.provider import Answer, Wait
from tests.proxy.api.test_routes import serving
from tests.proxy.clocks import HandTurned


def test_a_refusal_is_a_problem_document_with_its_own_header() -> None:
    refusal = Refusal(
        404, "unknown_upstream", "no such upstream", ((b"retry-after", b"1"),), {"rollout": "r1"}
    )
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
        "rollout": "r1",
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


def test_a_refusal_reads_as_its_detail() -> None:
    assert str(Refusal(400, "bad_path", "no dots")) == "no dots"


# --------------------------------------------------------------------------------------------------
# How much one process takes on: who is turned away, with which words, and who gets the place


def refused(take: Callable[[], None]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        take()
    return caught.value


# --- pace ------------------------------------------------------------------------------------


def steps(pace: RateLimiter) -> int:
    """How many are let through until one is refused."""
    for done in range(1_000_000):
        try:
            pace.step()
        except Refusal:
            return done
    raise AssertionError("nothing is ever too often")


def test_ten_seconds_worth_may_come_at_once_and_then_the_rate_holds() -> None:
    clock = HandTurned()
    pace = RateLimiter(5, clock)
    assert steps(pace) == 50
    clock.now += 1
    assert steps(pace) == 5
    clock.now += 3600
    assert steps(pace) == 50, "an hour's silence is not saved up"


def test_a_refusal_says_after_how_many_seconds_there_is_room() -> None:
    clock = HandTurned()
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
    clock = HandTurned()
    bucket = TokenBucket(2.0, most=6, clock=clock)
    assert bucket.left == 6
    bucket.take(7)
    assert bucket.left == -1
    bucket.take(-1)
    for passed_s, left in ((0.25, 0.5), (0.25, 1), (1.0, 3), (60.0, 6), (-60.0, 6), (1.0, 6)):
        clock.now += passed_s
        assert bucket.left == left, passed_s


def test_without_a_rate_nothing_is_too_often() -> None:
    pace = RateLimiter(None, HandTurned())
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
