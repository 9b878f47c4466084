"""Budgets over real sockets: counted, refused once, in words that SDKs show and do not retry."""
# ruff: noqa: SLF001
# Private: what an agent is asked at, and a warning that is told once a process.

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from classifier import judge
from proxy.features.budgets import hold
from proxy.features.budgets import registration as budgets
from proxy.features.exports.archive import export_records
from proxy.features.exports.rejudging import rollouts_in
from tests.fakes import answers, caller
from tests.fakes.answers import Api
from tests.fakes.provider import Answer, Hang, Request, Wait
from tests.proxy import inside
from tests.proxy.api.test_routes import ASK, CHAT, Service, problem, serving
from tests.waiting import until

TOKENS = answers.INPUT_TOKENS + answers.OUTPUT_TOKENS


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service for all; every test has a rollout and a batch of its own."""
    folder = tmp_path_factory.mktemp("budgets")
    upstreams = ("OPENAI", "ANTHROPIC", "GEMINI")
    with serving(folder, upstreams=upstreams) as running_service:
        yield running_service


@pytest.fixture
def service(house: Service) -> Service:
    house.provider.plays(answers.healthy)
    house.provider.requests.clear()
    return house


def register(service: Service, **asked: Any) -> dict[str, Any]:
    answer = service.http.post("/rollouts", json=asked)
    assert answer.status_code == 201, answer.text
    registered: dict[str, Any] = answer.json()
    return registered


def ask(registered: dict[str, Any], **how: Any) -> httpx.Response:
    return caller.post(registered["base_urls"]["openai"] + "/chat/completions", json=ASK, **how)


def refusals(service: Service) -> int:
    """How many calls were refused beyond a limit."""
    counts = inside.relaying(service.app).refused.calls.counts
    return counts.get("budget_exceeded", 0)


def exchanges(service: Service, rollout_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.get(f"/rollouts/{rollout_id}/exchanges")["items"]
    return found


def budget(service: Service, kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = service.get(f"/{kind}/{name}/limits")
    return found


def settled(service: Service, kind: str, name: str) -> dict[str, Any]:
    """What is spent once nothing is in flight."""
    until(lambda: budget(service, kind, name)["in_flight"] == 0)
    spent: dict[str, Any] = budget(service, kind, name)["spent"]
    return spent


def finish(service: Service, rollout_id: str) -> dict[str, Any]:
    done = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0.0}}
    answer = service.http.post(f"/rollouts/{rollout_id}/outcome", json=done)
    assert answer.status_code == 200, answer.text
    verdict: dict[str, Any] = service.get(f"/rollouts/{rollout_id}/verdict")
    return verdict


def test_calls_end_at_the_limit_and_are_counted(service: Service) -> None:
    made = register(service, id="calls", limits={"calls": 2})
    assert [ask(made).status_code for _ in range(4)] == [200, 200, 403, 403]
    refused = problem(ask(made), 403, "budget_exceeded")
    assert refused["detail"].startswith("the rollout's limit of 2 calls was spent")
    assert len(service.provider.requests) == 2, "nothing beyond it was sent"
    spent = settled(service, "rollouts", "calls")
    assert (spent["calls"], spent["tokens"]) == (2, 2 * TOKENS)
    assert spent["cost_usd"] > 0
    assert spent["seconds"] > 0


_SHOWN = (
    (Api.CHAT, "PermissionDeniedError"),
    (Api.RESPONSES, "PermissionDeniedError"),
    (Api.MESSAGES, "PermissionDeniedError"),
    (Api.GEMINI, "ClientError"),
    (Api.INTERACTIONS, "PermissionDeniedError"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("api", "kind"), _SHOWN)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_an_sdk_shows_the_sentence_and_does_not_retry(
    service: Service, api: Api, kind: str, streamed: bool
) -> None:
    from tests.journeys import agents  # here: to import the SDKs takes four CPU seconds

    name = f"sdk-{api.value}-{streamed}".replace("/", "-")
    made = register(service, id=name, limits={"calls": 1})
    base = made["base_urls"][agents.UPSTREAM[api]].removesuffix("/v1")
    ask = agents._ASK[api]
    list(ask(base, streamed, 2))
    with pytest.raises(agents.errors(api)) as caught:
        list(ask(base, streamed, 2))
    assert type(caught.value).__name__ == kind
    assert "the rollout's limit of 1 call was spent" in str(caught.value)
    before = refusals(service)
    with pytest.raises(type(caught.value)):
        list(ask(base, streamed, 2))
    assert refusals(service) == before + 1, "one request: none was a retry"
    assert len(service.provider.requests) == 1


def test_parallel_calls_do_not_pass_a_limit_together(service: Service) -> None:
    made = register(service, id="parallel", limits={"tokens": 3 * TOKENS})
    with ThreadPoolExecutor(12) as pool:
        found = [each.status_code for each in pool.map(lambda _: ask(made), range(12))]
    assert sorted(found) == [200] * 3 + [403] * 9
    assert settled(service, "rollouts", "parallel")["tokens"] == 3 * TOKENS


def test_a_batch_shares_its_limit_and_what_others_spent_excludes(service: Service) -> None:
    shared = {"batch": "shared", "batch_limits": {"calls": 5}}
    spender, late = (
        register(service, id="spender", **shared),
        register(service, id="late", **shared),
    )
    never = register(service, id="never", batch="shared")
    assert [ask(spender).status_code for _ in range(4)] == [200] * 4
    assert [ask(late).status_code for _ in range(2)] == [200, 403]
    assert "the batch's limit of 5 calls" in ask(never).json()["error"]["message"]
    for rollout_id, health in (("late", "healthy"), ("never", "not_judged")):
        verdict = finish(service, rollout_id)
        assert (verdict["health"], verdict["scoreable"]) == (health, "no"), rollout_id
        assert verdict["excluded_by"] == ["budget"]
        result = service.get(f"/rollouts/{rollout_id}/result")
        assert result["rewards"] is None
        assert "budget" in result["error"]
    assert finish(service, "spender")["scoreable"] == "yes", "it was refused nothing"
    assert settled(service, "batches", "shared")["calls"] == 5


def test_an_archive_is_judged_alike_by_what_refused_its_calls(service: Service) -> None:
    shared = {"batch": "kept", "batch_limits": {"calls": 1}}
    first, second = (register(service, id=name, **shared) for name in ("kept-1", "kept-2"))
    assert (ask(first).status_code, ask(second).status_code) == (200, 403)
    verdicts = {name: finish(service, name)["excluded_by"] for name in ("kept-1", "kept-2")}
    with export_records(service.database, batch="kept") as records:
        judged = {each.id: judge(each).excluded_by for each in rollouts_in(records)}
    assert {name: list(by) for name, by in judged.items()} == verdicts
    assert verdicts == {"kept-1": [], "kept-2": ["budget"]}


@pytest.mark.parametrize(
    ("policy", "scoreable", "warned"),
    [
        ({}, "yes", []),
        ({"budget": "exclude"}, "no", []),
        ({"budget": "exclude", "agents": "untrusted"}, "yes", ["budget_without_effect"]),
    ],
)
def test_a_rollouts_own_limit_counts_as_running_out_of_steps_does(
    service: Service, policy: dict[str, str], scoreable: str, warned: list[str]
) -> None:
    name = "-".join(("own", *policy.values()))
    made = register(service, id=name, batch=name, policy=policy, limits={"calls": 1})
    assert [each for each in made["warnings"] if each != "no_reference"] == warned
    assert [ask(made).status_code for _ in range(2)] == [200, 403]
    verdict = finish(service, name)
    assert (verdict["health"], verdict["scoreable"]) == ("healthy", scoreable)


def test_what_a_provider_fails_spends_no_call(service: Service) -> None:
    made = register(service, id="failing", limits={"calls": 1})
    service.provider.plays(answers.FAILURES[Api.CHAT][answers.Fault.RATE_LIMIT])
    assert [ask(made).status_code for _ in range(3)] == [429] * 3
    assert settled(service, "rollouts", "failing") == {
        "calls": 0, "tokens": 0, "cost_usd": 0.0, "seconds": 0.0,
    }  # fmt: skip
    service.provider.plays(answers.healthy)
    assert ask(made).status_code == 200


def test_a_failure_that_its_agent_provoked_is_a_call(service: Service) -> None:
    made = register(service, id="provoking", limits={"calls": 3})
    rejects = answers.FAILURES[Api.CHAT][answers.Fault.REJECTED_REQUEST]
    service.provider.plays(rejects)
    assert ask(made).status_code == rejects.status
    assert settled(service, "rollouts", "provoking")["calls"] == 0, "its address may be wrong"
    service.provider.plays(answers.healthy)
    assert ask(made).status_code == 200
    settled(service, "rollouts", "provoking")
    service.provider.plays(rejects)
    assert [ask(made).status_code for _ in range(3)] == [rejects.status] * 2 + [403]
    assert settled(service, "rollouts", "provoking")["tokens"] == TOKENS, "a rejection takes none"


def test_hanging_up_saves_no_tokens(service: Service) -> None:
    made = register(service, id="leaves", limits={"tokens": 5000})
    begun = threading.Event()

    def silent(_request: Request) -> Answer:
        begun.set()
        return answers.chat_stream().stopping_after(1, Hang())

    service.provider.plays(silent)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(made["base_urls"]["openai"] + "/chat/completions", json=ASK, timeout=0.3)
    assert begun.is_set()
    spent = settled(service, "rollouts", "leaves")
    assert spent["calls"] == 1
    assert spent["tokens"] >= 4096, "as many as were reserved"


def test_listing_models_and_other_roles_spend_nothing_of_a_rollout(service: Service) -> None:
    made = register(service, id="free", roles=["judge"], limits={"calls": 1})
    assert ask(made).status_code == 200
    assert ask(made).status_code == 403
    assert ask(made["roles"]["judge"]).status_code == 200
    assert caller.get(made["base_urls"]["openai"] + "/models").status_code != 403
    assert settled(service, "rollouts", "free")["calls"] == 1


def test_a_limited_rollout_opens_no_socket_around_its_limit(service: Service) -> None:
    made = register(service, id="socket", limits={"calls": 1})
    headers = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-version": "13",
               "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="}  # fmt: skip
    answer = caller.get(made["base_urls"]["openai"] + "/responses", headers=headers)
    problem(answer, 426, "no_websocket")


@contextmanager
def in_flight(service: Service, made: dict[str, Any], calls: int = 1) -> Iterator[threading.Event]:
    """Calls that keep their reservations until the event is set."""
    go, before = threading.Event(), len(service.provider.requests)
    service.provider.plays(answers.chat().stopping_after(0, Wait(go)))
    with ThreadPoolExecutor(calls) as pool:
        running = [pool.submit(ask, made) for _ in range(calls)]
        try:
            until(lambda: under_way(service, made["id"]) == calls)
            until(lambda: len(service.provider.requests) >= before + calls)  # all have reserved
            yield go
        finally:
            go.set()
        assert [each.result().status_code for each in running] == [200] * calls


def under_way(service: Service, rollout_id: str) -> int:
    """How many calls of a rollout have begun, those that wait for a limit among them."""
    return inside.calls_under_way(service.app, rollout_id)


def test_a_call_waits_for_what_calls_in_flight_have_reserved(service: Service) -> None:
    made = register(service, id="waits", batch="waiting", limits={"tokens": 1500})
    with in_flight(service, made) as go, ThreadPoolExecutor(1) as pool:
        held = pool.submit(ask, made)
        until(lambda: under_way(service, "waits") == 2)
        go.set()
        assert held.result().status_code == 200, "the first took less than it had reserved"
    first, second = exchanges(service, "waits")
    assert (first["held_s"], second["held_s"] > 0) == (0, True)
    assert second["started_at"] >= first["started_at"] + second["held_s"]
    verdict = finish(service, "waits")
    assert 0 < verdict["held_s"] < second["held_s"], "the first was answered meanwhile"
    assert (verdict["scoreable"], verdict["warnings"]) == ("yes", [])
    batch = service.get("/batches/waiting")
    assert (batch["held_s"], batch["lost_s"]) == (verdict["held_s"], 0)


def test_a_call_that_waited_is_refused_once_the_limit_is_spent(service: Service) -> None:
    made = register(service, id="waited", limits={"calls": 1})
    with in_flight(service, made) as go, ThreadPoolExecutor(1) as pool:
        held = pool.submit(ask, made)
        until(lambda: under_way(service, "waited") == 2)
        go.set()
        problem(held.result(), 403, "budget_exceeded")
    assert len(exchanges(service, "waited")) == 1, "what was not sent is no call"
    assert finish(service, "waited")["held_s"] > 0, "but the wait is none of the agent's time"


def test_a_wait_for_calls_in_flight_is_bounded(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold, "_WAIT_S", 0.1)
    made = register(service, id="bounded", limits={"calls": 1})
    with in_flight(service, made):
        detail = problem(ask(made), 403, "budget_exceeded")["detail"]
    assert detail.startswith("the rollout's limit of 1 call is reserved by calls in flight")


def test_a_call_reserves_what_its_request_lets_be_written(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold, "_WAIT_S", 0.1)
    made = register(service, id="large", limits={"tokens": 20_000})
    url = made["base_urls"]["openai"] + "/chat/completions"
    with in_flight(service, made):  # 4,096 and a prompt
        for more in ({"max_tokens": 16_000}, {"max_tokens": 8_000, "n": 2}):
            problem(caller.post(url, json=ASK | more, timeout=60), 403, "budget_exceeded")


def test_an_agent_that_hangs_up_while_others_had_reserved_the_rest_is_undecided(
    service: Service,
) -> None:
    shared = {"batch": "leaving", "batch_limits": {"calls": 3}}
    spender, late = (register(service, id=f"leaving-{name}", **shared) for name in ("a", "b"))
    assert [ask(each).status_code for each in (spender, late)] == [200] * 2
    settled(service, "batches", "leaving")
    with in_flight(service, spender):
        with pytest.raises(httpx.ReadTimeout):
            ask(late, timeout=caller.LEAVES)
        until(lambda: len(exchanges(service, late["id"])) == 2)
    left = exchanges(service, late["id"])[1]
    assert (left["ending"], left["status"], left["subcategory"]) == ("left_while_held", None, None)
    assert (left["held_s"] > 0, left["model"]) == (True, ASK["model"])
    verdict = finish(service, late["id"])
    assert "left_by_agent" not in verdict["warnings"]
    assert (verdict["health"], verdict["scoreable"]) == ("undecided", "unknown")
    assert verdict["attributed_to"] == "proxy"
    assert settled(service, "batches", "leaving")["calls"] == 3


def test_an_outcome_ends_a_waiting_call_before_it_is_judged(service: Service) -> None:
    shared = {"batch": "ends", "batch_limits": {"calls": 3}}
    spender, late = (register(service, id=f"ends-{name}", **shared) for name in ("a", "b"))
    assert [ask(each).status_code for each in (late, spender)] == [200, 200]
    settled(service, "batches", "ends")
    with in_flight(service, spender), ThreadPoolExecutor(1) as pool:
        held = pool.submit(ask, late)
        until(lambda: under_way(service, "ends-b") == 1)
        verdict = finish(service, "ends-b")
        problem(held.result(), 403, "rollout_ended")
    assert (verdict["scoreable"], verdict["attributed_to"]) == ("unknown", "proxy")
    assert exchanges(service, "ends-b")[1]["ending"] == "closed_at_outcome"


def test_an_agent_that_hangs_up_while_its_own_calls_had_reserved_the_rest_is_undecided(
    service: Service,
) -> None:
    made = register(service, id="reserved", limits={"tokens": 10_000})  # two of 4,096 and a prompt
    assert ask(made).status_code == 200
    settled(service, "rollouts", "reserved")
    with in_flight(service, made, calls=2):
        with pytest.raises(httpx.ReadTimeout):
            ask(made, timeout=caller.LEAVES)
        until(lambda: len(exchanges(service, "reserved")) == 4)
    verdict = finish(service, "reserved")
    assert (verdict["health"], verdict["scoreable"]) == ("undecided", "unknown")
    assert "left_while_held" in verdict["warnings"]


def test_a_limit_that_would_pause_calls_refuses_them_and_warns_once(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    budgets._warn_of.cache_clear()
    limits = {"calls": 1, "on_limit": "pause", "pause_s": 60}
    made = register(service, id="paused", limits=limits)
    assert [ask(made).status_code for _ in range(2)] == [200, 403]
    again = {"id": "paused", "limits": {"calls": 1}}
    assert service.http.post("/rollouts", json=again).status_code == 201, "the same limits"
    shown = budget(service, "rollouts", "paused")["limits"]
    assert (shown["calls"], shown["on_limit"], shown["pause_s"]) == (1, None, None)
    service.http.post("/rollouts/paused/limits", json=limits).raise_for_status()
    assert sorted(each for each in caplog.messages if "gone" in each) == [
        f"`{name}` of limits is gone: calls beyond a limit are refused"
        for name in ("on_limit", "pause_s")
    ]


def test_nobody_spends_anothers_budget(tmp_path: Path) -> None:
    with serving(tmp_path, ADMIN_TOKEN="t0ken") as guarded:
        guarded.http.headers["authorization"] = "Bearer t0ken"
        mine = register(guarded, id="mine", limits={"calls": 1})
        register(guarded, id="other", limits={"calls": 1})
        base = str(guarded.http.base_url)
        forged = f"{base}/r/other/openai{CHAT}"
        key = {"authorization": f"Bearer {mine['key']}", "x-truezero-rollout": "other"}
        assert caller.post(forged, json=ASK).status_code == 403
        assert caller.post(f"{base}/openai{CHAT}", json=ASK, headers=key).status_code in (200, 403)
        assert budget(guarded, "rollouts", "other")["spent"]["calls"] == 0
        assert budget(guarded, "rollouts", "other")["in_flight"] == 0


def test_limits_are_shown_and_changed_only_where_registered(service: Service) -> None:
    register(service, id="plain", batch="plain-batch")
    empty = {"limits": None, "spent": None, "in_flight": 0, "reached_at": None}
    assert budget(service, "rollouts", "plain") == empty
    assert budget(service, "batches", "plain-batch") == empty
    for path in ("/rollouts/plain", "/batches/plain-batch"):
        problem(service.http.post(f"{path}/limits", json={"calls": 1}), 409, "no_limits")
    problem(service.http.get("/rollouts/nobody/limits"), 404, "unknown_rollout")
    problem(service.http.get("/batches/nobody/limits"), 404, "unknown_batch")
    problem(service.http.post("/rollouts", json={"limits": {}}), 422, "invalid")
    register(service, id="first", batch="taken", batch_limits={"calls": 9})
    other = {"id": "second", "batch": "taken", "batch_limits": {"calls": 8}}
    problem(service.http.post("/rollouts", json=other), 409, "batch_policy")
