"""Rollouts: registration, outcomes, lists and exchanges."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from proxy.control import rollouts
from proxy.control.queries import Service as ControlService
from proxy.control.rollouts import access_of
from proxy.routing.errors import Refusal
from proxy.routing.keys import Keyring
from proxy.routing.upstreams import allow_list
from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.proxy.api.test_routes import ASK, Service, problem
from tests.proxy.conftest import Services
from truezero.models import RolloutRegistered, RolloutRequest

TOKEN = {"authorization": "Bearer t0ken"}


def called(service: Service) -> None:
    """Have a rollout of batch b make a call, which fails for a while."""
    service.http.post("/rollouts", json={"id": "called", "batch": "b"})
    service.provider.plays(answers.FAILURES[Api.CHAT][Fault.PROVIDER_ERROR])
    asked = {"model": "gpt-5", "messages": []}
    service.http.post("/r/called/openai/v1/chat/completions", json=asked)


def test_a_role_gets_access_of_its_own(services: Services) -> None:
    service = services(ADMIN_TOKEN="t0ken")
    asked = {"id": "r", "upstream": "anthropic", "roles": ["judge", "user"]}
    got = service.http.post("/rollouts", json=asked, headers=TOKEN).json()
    keyring = set()
    for role, access in got["roles"].items():
        base = access["base_urls"]["openai"]
        assert base.endswith(f"/as/{role}/openai/v1")
        assert access["env"]["OPENAI_BASE_URL"] == base
        keyring |= {access["key"], base}
        assert service.http.post(f"{base}/chat/completions", json=ASK).status_code == 200
    assert len(keyring) == 4
    assert got["key"] not in keyring
    agents = got["base_urls"]["openai"].replace("/openai/v1", "/as/judge/openai/v1")
    assert service.http.post(f"{agents}/chat/completions", json=ASK).status_code == 403, (
        "the agent's secret opens the upstream it was registered for"
    )
    calls = service.http.get("/rollouts/r/exchanges", headers=TOKEN).json()["items"]
    assert [call["role"] for call in calls] == ["judge", "user"]


def test_the_public_address_can_differ_from_the_runners(services: Services) -> None:
    service = services(PUBLIC_URL="http://host.docker.internal:8383/")
    got = service.http.post("/rollouts", json={"id": "r"}).json()
    assert got["base_urls"]["openai"] == "http://host.docker.internal:8383/r/r/openai/v1"


def test_a_batch_has_one_reward_range_which_its_first_registration_states(service: Service) -> None:
    asked = {"id": "r0", "batch": "b", "reward_range": [-1, 1]}
    for _ in range(2):
        assert service.http.post("/rollouts", json=asked).status_code == 201
    assert service.http.post("/rollouts", json={"id": "r1", "batch": "b"}).status_code == 201
    other = {"id": "r2", "batch": "b", "reward_range": [0, 1]}
    refused = problem(service.http.post("/rollouts", json=other), 409, "batch_policy")
    assert refused["detail"] == (
        "batch 'b' was registered with reward_range [-1.0,1.0], not with reward_range [0.0,1.0]: "
        "it is one for all of its rollouts; leave it out, or begin a new batch"
    )
    assert service.http.post("/rollouts", json={**other, "batch": "b2"}).status_code == 201
    bulk = {"rollouts": [{**asked, "id": "r3"}, {**other, "id": "r4"}]}
    items = service.http.post("/rollouts/bulk", json=bulk).json()["items"]
    assert [item["status"] for item in items] == [201, 409]
    records = map(json.loads, service.http.get("/rollouts/export?batch=b").text.splitlines())
    assert [(r["id"], r["reward_range"]) for r in records if r["record"] == "rollout"] == [
        ("r0", [-1.0, 1.0]), ("r1", [-1.0, 1.0]), ("r3", [-1.0, 1.0]),
    ]  # fmt: skip


def test_a_rollout_of_its_own_calls_may_be_given_a_reward_range(service: Service) -> None:
    service.http.post("/r/r/openai/v1/chat/completions", json=ASK)
    asked = {"id": "r", "reward_range": [0, 1], "client_cache": True}
    for _ in range(2):
        assert service.http.post("/rollouts", json=asked).status_code == 201
    (record, *_) = map(json.loads, service.http.get("/rollouts/export").text.splitlines())
    assert (record["reward_range"], record["client_cache"]) == ([0.0, 1.0], True)


def test_a_clients_own_cache_is_a_fact_of_its_rollout(service: Service) -> None:
    asked = {"id": "r", "batch": "b", "client_cache": True}
    assert service.http.post("/rollouts", json=asked).status_code == 201
    other = {**asked, "client_cache": False}
    problem(service.http.post("/rollouts", json=other), 409, "rollout_exists")
    assert service.http.post("/rollouts", json={**other, "id": "r2"}).status_code == 201
    for said in ({}, {"client_cache": False}):
        again = {"id": "r2", "batch": "b", **said}
        assert service.http.post("/rollouts", json=again).status_code == 201


def test_a_rollout_may_be_registered_with_fallbacks_of_its_model(service: Service) -> None:
    asked = {"id": "r", "batch": "b", "model": ["gpt-5", "o5", "gpt-5"]}
    for _ in range(2):
        assert service.http.post("/rollouts", json=asked).status_code == 201
    for other in ("gpt-5", ["o5", "gpt-5"], None):
        again = service.http.post("/rollouts", json={**asked, "model": other})
        problem(again, 409, "rollout_exists")
    assert [item["model"] for item in service.get("/rollouts")["items"]] == ["gpt-5"]
    (record,) = map(json.loads, service.http.get("/rollouts/export?batch=b").text.splitlines())
    assert (record["model"], record["fallbacks"]) == ("gpt-5", ["o5"])
    assert report(service, "r", model=["gpt-5", "o5"]).status_code == 200
    problem(report(service, "r", model="gpt-5"), 409, "rollout_exists")


def test_a_rollout_with_fallbacks_is_held_by_the_breaker_of_its_model(service: Service) -> None:
    called(service)
    for number in range(5):
        named = {"id": f"r{number}", "batch": "b", "upstream": "openai", "model": ["gpt-5", "o5"]}
        service.http.post("/rollouts", json=named)
        report(service, f"r{number}")
    (lane,) = service.get("/batches/b/breaker")["lanes"]
    assert (lane["lane"], lane["phase"]) == ("openai/gpt-5/-", "open")
    for model, admitted in ((["gpt-5", "o4"], False), (["o5", "gpt-5"], True), ("gpt-5", False)):
        answer = service.http.post("/rollouts", json={"batch": "b", "model": model})
        assert answer.json()["admitted"] is admitted, model


def test_exchanges_come_oldest_first_in_pages(service: Service) -> None:
    made = [service.call().headers["x-truezero-exchange"] for _ in range(5)]
    first = service.get("/rollouts/r1/exchanges", limit=3)
    rest = service.get("/rollouts/r1/exchanges", limit=3, after=first["next"])
    calls = first["items"] + rest["items"]
    assert [call["id"] for call in calls] == made
    assert rest["next"] is None
    assert [call["number"] for call in calls] == [1, 2, 3, 4, 5]
    page = service.http.get("/ui/rollouts/r1", params={"show": "all"}).text
    for call in calls:
        own = page.partition(f'id="call-{call["number"]}"')[2].partition("</li>")[0]
        assert call["id"] in own, "the page calls it by the same number"


# --- outcomes of rollouts that nobody registered ---------------------------------------------


def report(service: Service, rollout: str, **said: Any) -> httpx.Response:
    zero = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0}}
    return service.http.post(f"/rollouts/{quote(rollout, safe='')}/outcome", json=zero | said)


def listed(service: Service, name: str) -> dict[str, Any]:
    (item,) = (each for each in service.get("/rollouts")["items"] if each["id"] == name)
    return {key: item[key] for key in ("batch", "task", "repeat", "attempt", "model", "registered")}


NAMED: dict[str, Any] = {"batch": "b", "task": "t", "repeat": 3, "attempt": 1, "model": "gpt-5"}


def test_an_outcome_registers_a_rollout_that_made_no_call_and_finds_it(service: Service) -> None:
    result = report(service, "a/b", **NAMED).json()
    assert (result["error_category"], result["rewards"]) == ("suspected_api_error", None)
    assert result["suspected_api_error_info"] is not None
    assert listed(service, "a/b") == {**NAMED, "registered": True}
    verdict = service.get("/rollouts/a%2Fb/verdict")
    assert (verdict["rule"], verdict["batch"]) == ("zero_signal", "b")
    assert (verdict["provisional"], verdict["scoreable"]) == (False, "no")
    summary = service.get("/batches/b")
    assert (summary["total"], summary["health"]) == (1, {"suspected_api_error": 1})
    assert not service.get("/batches/b/check")["valid"]
    assert report(service, "a/b", **NAMED).json() == result
    assert report(service, "a/b").json() == result  # what it leaves out does not differ


def test_outcomes_of_unregistered_rollouts_count_once_each_and_stop_nothing(
    service: Service,
) -> None:
    called(service)
    named = {"batch": "b", "model": "gpt-5"}
    for name in ("r1", "r2", "r2", "r3", "r3", "r4"):
        assert report(service, name, **named).status_code == 200
    (lane,) = service.get("/batches/b/breaker")["lanes"]
    assert (lane["phase"], lane["streak"]) == ("closed", 4)
    report(service, "r5", **named)
    (lane,) = service.get("/batches/b/breaker")["lanes"]
    assert (lane["phase"], lane["tripped_by"]) == ("closed", ["r1", "r2", "r3", "r4", "r5"])


@pytest.mark.postgres_smoke
def test_a_batchs_policy_says_which_finding_takes_a_score_and_lists_find_them(
    service: Service,
) -> None:
    whole = answers.chat()
    assert isinstance(whole.body[0], bytes)
    body = (whole.body[0].replace(b'"stop"', b'"abort"'), *whole.body[1:])
    aborted = replace(whole, body=body)
    for name, policy in (("strict", {}), ("lenient", {"validity": "none"})):
        asked = {"id": name, "batch": name, "policy": policy}
        assert service.http.post("/rollouts", json=asked).status_code == 201
        service.provider.plays(aborted)
        service.call(name)
        reported = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 1.0}}
        service.http.post(f"/rollouts/{name}/outcome", json=reported)
    service.provider.plays(whole)
    service.call("whole")
    found = {name: service.get(f"/rollouts/{name}/verdict") for name in ("strict", "lenient")}
    assert [verdict["scoreable"] for verdict in found.values()] == ["no", "yes"]
    for verdict in found.values():
        (finding,) = verdict["validity"]
        assert (finding["check"], finding["level"]) == ("engine_aborted", "invalid")
    for value, expected in (
        ("engine_aborted", ["strict", "lenient"]), ("invalid", ["strict", "lenient"]),
        ("suspect", []), ("starved", []),
    ):  # fmt: skip
        items = service.get("/rollouts", validity=value)["items"]
        assert [item["id"] for item in items] == expected, value
        assert all(item["validity"] == ["invalid", "engine_aborted"] for item in items)
    problem(service.http.get("/rollouts?validity=mostly"), 422, "invalid")
    other = {"id": "r3", "batch": "lenient", "policy": {"validity": "suspect"}}
    assert (
        "policy.validity 'none'"
        in problem(service.http.post("/rollouts", json=other), 409, "batch_policy")["detail"]
    )


def test_registration_warns_of_what_has_no_effect_on_untrusted_agents(service: Service) -> None:
    warnings = {}
    for name, policy in (
        ("plain", {}), ("trusted", {"max_steps": "exclude"}),
        ("untrusted", {"agents": "untrusted"}),
        ("both", {"agents": "untrusted", "max_steps": "exclude"}),
    ):  # fmt: skip
        asked = {"id": name, "batch": name, "policy": policy}
        warnings[name] = service.http.post("/rollouts", json=asked).json()["warnings"]
    again = service.http.post("/rollouts", json={"id": "again", "batch": "both"}).json()
    assert again["warnings"] == ["max_steps_without_effect"], "its batch says so"
    assert warnings == {
        "plain": [], "trusted": [], "untrusted": [], "both": ["max_steps_without_effect"]
    }  # fmt: skip


def test_without_reference_calls_registration_and_verdict_say_so(services: Services) -> None:
    service = services(REFERENCE_CALLS="false", AGENTS="untrusted")
    registered = service.http.post("/rollouts", json={"id": "alone"}).json()
    assert registered["warnings"] == ["no_reference"]
    service.provider.plays(answers.FAILURES[Api.CHAT][Fault.PROVIDER_ERROR])
    service.call("alone")
    reported = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0.0}}
    result = service.http.post("/rollouts/alone/outcome", json=reported).json()
    verdict = service.get("/rollouts/alone/verdict")
    assert result["rewards"] == {"reward": 0.0}
    assert (verdict["provisional"], verdict["attributed_to"]) == (False, "agent")
    assert "no_reference" in verdict["warnings"]


def test_registration_says_for_which_upstreams_no_reference_can_be_asked(
    services: Services,
) -> None:
    service = services(AGENTS="untrusted", KEY_OPENAI="sk-operator")
    warned = {
        upstream: service.http.post(
            "/rollouts", json={"id": f"to-{upstream}", "upstream": upstream}
        ).json()["warnings"]
        for upstream in ("openai", "anthropic", "vllm", None)
    }
    assert warned == {"openai": [], "anthropic": ["no_reference"], "vllm": [], None: []}


def test_a_batch_says_whether_a_filter_on_its_requests_is_a_failure_or_the_answer(
    service: Service,
) -> None:
    reported = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0.0}}
    found = {}
    for name, policy in (
        ("plain", {}), ("failure", {"content_filter": "failure"}),
        ("answer", {"content_filter": "answer"}), ("untrusted", {"agents": "untrusted"}),
    ):  # fmt: skip
        asked = {"id": name, "batch": name, "policy": policy}
        assert service.http.post("/rollouts", json=asked).status_code == 201
        service.provider.plays(answers.FILTERED)
        service.call(name)
        result = service.http.post(f"/rollouts/{name}/outcome", json=reported).json()
        verdict = service.get(f"/rollouts/{name}/verdict")
        assert "content_filter" in verdict["warnings"]
        found[name] = (verdict["health"], verdict["fingerprint"], result["rewards"])
    failed = ("api_error", "rejected_request:400", None)
    kept = ("healthy", None, {"reward": 0.0})
    assert found == {"plain": failed, "failure": failed, "answer": kept, "untrusted": kept}
    again = {"id": "answer-2", "batch": "answer"}
    assert service.http.post("/rollouts", json=again).status_code == 201
    other = {"id": "answer-3", "batch": "answer", "policy": {"content_filter": "failure"}}
    answer = service.http.post("/rollouts", json=other)
    assert "policy.content_filter 'answer'" in problem(answer, 409, "batch_policy")["detail"]
    wrong = {"id": "w", "policy": {"content_filter": "null"}}
    problem(service.http.post("/rollouts", json=wrong), 422, "invalid")


def test_the_service_may_say_what_a_filter_is_to_batches_that_do_not(services: Services) -> None:
    service = services(CONTENT_FILTER="answer")
    service.provider.plays(answers.FILTERED)
    for name, policy in (("r1", {}), ("r2", {"content_filter": "failure"})):
        service.http.post("/rollouts", json={"id": name, "batch": name, "policy": policy})
        service.call(name)
    service.call("unregistered")
    healths = {item["id"]: item["health"] for item in service.get("/rollouts")["items"]}
    assert healths == {"r1": "healthy", "r2": "api_error", "unregistered": "healthy"}


# --- Keys and base URLs of a rollout's agent and of its other roles -------------------------------

KEYRING = Keyring(b"s" * 32)
UPSTREAMS = allow_list({})


def urls(**how: object) -> dict[str, str]:
    proven, role = bool(how.get("proven")), str(how.get("role", "agent"))
    access = access_of(KEYRING, UPSTREAMS, "a/b", role=role, public_url="http://p", proven=proven)
    assert access.env["OPENAI_BASE_URL"] == access.base_urls["openai"]
    assert access.key == KEYRING.mint("a/b", role)
    return access.base_urls


def test_a_base_url_names_the_rollout_and_the_role() -> None:
    secret, judges = KEYRING.secret_of("a/b"), KEYRING.secret_of("a/b", "judge")
    assert urls()["openai"] == "http://p/r/a%2Fb/openai/v1"
    assert urls(proven=True)["anthropic"] == f"http://p/r/a%2Fb~{secret}/anthropic"
    assert urls(role="judge")["openai"] == "http://p/r/a%2Fb/as/judge/openai/v1"
    proven = urls(role="judge", proven=True)["openai"]
    assert proven == f"http://p/r/a%2Fb~{judges}/as/judge/openai/v1"


def test_an_upstream_without_an_address_has_no_base_url() -> None:
    assert "azure" not in urls()
    assert "mistral" in urls()


# --- Registrations at once: each is answered, and one that is refused keeps no other back ---------

URL = "http://proxy"


async def test_each_of_many_is_answered_as_it_would_be_alone(
    service: Service, control: ControlService
) -> None:
    requests = [
        RolloutRequest(id="a", batch="b", roles=["judge"]),
        RolloutRequest(id="b", upstream="nowhere"),
        RolloutRequest(id="a", batch="c"),
        RolloutRequest(id="unattributed"),
        RolloutRequest(model=["m", "n"]),
    ]
    done = await rollouts.register_all(control, requests, public_url=URL)
    alone = [service.http.post("/rollouts", json=each.model_dump()) for each in requests[:4]]
    assert [each.status for each in done if isinstance(each, Refusal)] == [422, 409, 422]
    assert [answer.status_code for answer in alone] == [201, 422, 409, 422]
    for each, answer in zip(done, alone, strict=False):
        if isinstance(each, Refusal):
            assert (each.code, each.detail) == (answer.json()["code"], answer.json()["detail"])
        else:
            assert (each.id, each.key) == (answer.json()["id"], answer.json()["key"])
            assert each.base_urls["openai"] == f"{URL}/r/a/openai/v1"
            assert set(each.roles) == {"judge"}
    assert isinstance(done[-1], RolloutRegistered)
    assert done[-1].id not in ("a", "b")
