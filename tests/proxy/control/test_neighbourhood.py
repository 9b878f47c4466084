"""A verdict stands on what other rollouts got at the time, in the service and in an export."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from classifier.__main__ import judge_export
from classifier.codec import encode_verdict
from classifier.records import RolloutRecord
from classifier.verdicts import Policy
from proxy.control.judge import with_neighbours
from proxy.store.database import Database
from proxy.store.tables import CommitBatch
from tests.builders import STARTED, exchange, outcome
from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.proxy.api.test_routes import Service, problem

DEAD = answers.FAILURES[Api.CHAT][Fault.AUTH]
DOWN = answers.FAILURES[Api.CHAT][Fault.PROVIDER_ERROR]
UNTRUSTED = {"agents": "untrusted"}


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both(BREAKER_THRESHOLD="3")


def call(service: Service, name: str, answer: object = None, **sent: Any) -> None:
    service.provider.plays(answer or answers.chat())  # type: ignore[arg-type]
    asked = {"model": "gpt-5", "messages": [], **sent.pop("body", {})}
    path = f"/r/{name}/{sent.pop('upstream', 'openai')}/v1/chat/completions"
    service.http.post(path, json=asked, **sent)


def report(service: Service, name: str, reward: float = 0.0) -> dict[str, Any]:
    seen = {"status": "success", "prompts_executed": 1, "rewards": {"reward": reward}}
    return dict(service.http.post(f"/rollouts/{name}/outcome", json=seen).json())


def register(service: Service, name: str, **facts: Any) -> None:
    asked = {"id": name, "batch": "b", "model": "gpt-5", "upstream": "openai", **facts}
    assert service.http.post("/rollouts", json=asked).status_code == 201


def test_a_batch_has_one_policy(service: Service) -> None:
    register(service, "r1", policy=UNTRUSTED)
    register(service, "r1", policy=UNTRUSTED)
    register(service, "r2")
    register(service, "r3", batch="other", policy={"agents": "trusted"})
    for name in ("r1", "r4"):
        asked = {"id": name, "batch": "b", "model": "gpt-5", "upstream": "openai",
                 "policy": {"agents": "trusted"}}  # fmt: skip
        problem(service.http.post("/rollouts", json=asked), 409, "batch_policy")
    assert [
        item["id"] for item in service.http.get("/rollouts", params={"batch": "b"}).json()["items"]
    ] == ["r1", "r2"]
    bad = {"policy": {"agents": "friendly"}}
    problem(service.http.post("/rollouts", json=bad), 422, "invalid")
    report(service, "joined")
    exported = service.http.get("/rollouts/export").text.splitlines()
    trust = {line["id"]: line["agents"] for line in map(json.loads, exported) if "id" in line}
    assert trust == {"r1": "untrusted", "r2": "untrusted", "r3": "trusted", "joined": "trusted"}


def test_an_outcome_registers_under_its_batchs_policy(service: Service) -> None:
    register(service, "r1", policy=UNTRUSTED)
    call(service, "late", DEAD)
    for name in ("late", "unseen"):
        seen = {"status": "agent_error", "error": "it crashed", "batch": "b", "model": "gpt-5"}
        service.http.post(f"/rollouts/{name}/outcome", json=seen)
    exported = service.http.get("/rollouts/export?batch=b").text.splitlines()
    trust = {line["id"]: line.get("agents") for line in map(json.loads, exported)
             if line["record"] == "rollout"}  # fmt: skip
    assert trust == dict.fromkeys(("r1", "late", "unseen"), "untrusted")
    assert service.get("/rollouts/unseen/verdict")["scoreable"] == "yes"


def test_bogus_keys_take_no_reward_and_open_no_breaker(service: Service) -> None:
    good, bad = {"authorization": "Bearer sk-good"}, {"authorization": "Bearer sk-bogus"}
    for n in range(5):
        register(service, f"r{n}", task=f"t{n}", policy=UNTRUSTED)
        call(service, f"r{n}", headers=good)
        call(service, f"r{n}", DEAD, headers=bad)
        call(service, f"r{n}", DEAD, headers=bad)
        assert service.get(f"/rollouts/r{n}/verdict")["doomed"] is False
        told = report(service, f"r{n}")
        assert (told["health"], told["scoreable"]) == ("healthy", "yes")
        assert (told["rewards"], told["attributed_to"]) == ({"reward": 0.0}, "agent")
        assert "provoked_suspected" in told["warnings"]
        assert told["own_failure_info"]["provoked"] is True
    lanes = service.get("/batches/b/breaker")["lanes"]
    assert all(lane["phase"] == "closed" for lane in lanes)
    summary, checked = service.get("/batches/b"), service.get("/batches/b/check")
    assert (summary["score_effective"], summary["retry"]) == (0.0, [])
    assert checked["lines"][0].startswith("t0: its reward counts: provoked, it is suspected (")


def test_what_others_saw_is_found_and_judged_alike_from_an_export(service: Service) -> None:
    for name in ("r1", "r2", "r3"):
        register(service, name, policy=UNTRUSTED)
        call(service, name)
    for name in ("r1", "r2", "r3"):
        call(service, name, DOWN, body={"user": name})
    told = {name: report(service, name) for name in ("r1", "r2", "r3")}
    for result in told.values():
        assert (result["health"], result["corroborated"]) == ("api_error", True)
        assert result["attributed_to"] == "provider"
    call(service, "r9")  # answered later, which changes no final verdict
    again = service.get("/rollouts/r1/verdict")
    assert (again["health"], again["corroborated"]) == ("api_error", True)
    exported = service.http.get("/rollouts/export?batch=b").text.splitlines()
    rejudged = {v.rollout_id: encode_verdict(v) for v in judge_export(exported)}
    unjudged = {"cost_usd": None, "judged_at": None}  # prices and the time are the service's
    for name in told:
        live = service.get(f"/rollouts/{name}/verdict")
        assert {**rejudged[name], **unjudged} == {**live, **unjudged}


def test_a_failure_while_others_are_answered_keeps_its_reward(service: Service) -> None:
    for name in ("r1", "r2"):
        register(service, name, policy=UNTRUSTED)
    call(service, "r1")
    call(service, "r1", answers.FAILURES[Api.CHAT][Fault.RATE_LIMIT])
    call(service, "r2")
    told = report(service, "r1")
    assert (told["health"], told["corroborated"], told["attributed_to"]) == (
        "healthy", False, "agent"
    )  # fmt: skip
    register(service, "t1", batch="trusting")
    call(service, "t1")
    call(service, "t1", answers.FAILURES[Api.CHAT][Fault.RATE_LIMIT])
    trusted = report(service, "t1")
    assert (trusted["health"], trusted["corroborated"]) == ("api_error", False)


def test_bounded_rows_are_read_around_the_last_failures(database_url: str) -> None:
    database = Database(database_url)
    database.prepare()

    def commit(name: str, at: float, status: int = 200, **said: Any) -> None:
        made = exchange(status, rollout_id=name, id=f"{name}{at:g}", at=at, **said)
        database.calls.write(CommitBatch(recorded=[made]), worker="w")

    for n in range(12):
        commit(f"before{n}", 50.0 - n)
        commit(f"after{n}", 101.0 + n)
    commit("elsewhere", 99.0, upstream="other")
    near = database.calls.near(
        since=STARTED, at=STARTED + 100, until=STARTED + 160, upstreams={"openai"}, limit=5
    )
    assert {x.rollout_id for x in near} == {
        *(f"before{n}" for n in range(4)), *(f"after{n}" for n in range(5))
    }  # fmt: skip
    calls = tuple(exchange(500, id=f"f{n}", at=100.0 + n, took=0.1) for n in range(30))
    failing = RolloutRecord(id="r1", exchanges=calls, outcome=outcome())
    found = with_neighbours(failing, database, agents="untrusted").neighbours
    assert set(found) == {f"f{n}" for n in range(10, 30)}
    assert found["f10"].answered == 13  # of those before, one ended within a minute
    running = replace(failing, outcome=None)
    assert with_neighbours(running, database, agents=Policy().agents) is running
    assert with_neighbours(running, database, agents="untrusted").neighbours
    database.close()


@pytest.mark.parametrize("caller_keys", ["pass", "replace"])
def test_the_wire_tells_whose_key_chose_what_and_which_model_nobody_can_name(
    on_both: Callable[..., Service], caller_keys: str
) -> None:
    service = on_both(KEY_OPENAI="sk-operators", CALLER_KEYS=caller_keys)
    sent: tuple[tuple[dict[str, str], bytes], ...] = (
        ({}, b'{"model":"gpt-5","messages":[]}'),
        ({"authorization": "Bearer sk-own"}, b'{"model":"gpt-5","messages":[]}'),
        ({"openai-organization": "org-1"}, b'{"model":"gpt-5","messages":[]}'),
        ({"openai-beta": "x"}, b'{"model":"gpt-5","messages":[]}'),
        ({}, b'{"model":"gpt-5","messages":[],"service_tier":"flex"}'),
        ({}, b'{"model":"gpt-5","messages":[],"model":"nope"}'),
    )
    register(service, "r1")
    for headers, body in sent:
        service.provider.plays(answers.chat())
        service.http.post("/r/r1/openai/v1/chat/completions", content=body, headers=headers)
    report(service, "r1")
    exported = map(json.loads, service.http.get("/rollouts/export").text.splitlines())
    calls = [line for line in exported if line["record"] == "exchange"]
    replaced = caller_keys == "replace"
    assert [x["key_source"] for x in calls] == (
        ["operator"] * 6 if replaced else ["added", "override", *["added"] * 4]
    )
    assert [x["model_ambiguous"] for x in calls] == [*[False] * 5, True]
    chosen = [x["selector_digest"] for x in calls]
    assert chosen[0] is chosen[1] is chosen[5] is None
    assert (chosen[2] is None) is replaced, "the operator's account stands, whatever was asked"
    assert None not in chosen[3:5]
    assert chosen[3] != chosen[4]
    assert [x["held"] for x in calls] == [False] * 6


def test_two_keys_that_spell_model_keep_the_reward_of_a_trusted_agent(service: Service) -> None:
    register(service, "r1")
    call(service, "r1")
    service.provider.plays(answers.FAILURES[Api.CHAT][Fault.MODEL_NOT_FOUND])
    body = b'{"model":"nope","messages":[],"model":"gpt-5"}'
    service.http.post("/r/r1/openai/v1/chat/completions", content=body)
    told = report(service, "r1")
    assert (told["health"], told["scoreable"], told["attributed_to"]) == ("healthy", "yes", "agent")
    assert "failed_by_agent" in told["warnings"]
    (line,) = service.get("/batches/b/check")["lines"]
    assert line == "r1: its reward counts: the agent failed its own calls (1 of 2 calls failed)"
