"""Rollouts, outcomes and calls as JSON lines: those that the same list shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from classifier.__main__ import judge_export
from classifier.codec import encode_verdict
from proxy.control import listing
from tests.fakes import answers
from tests.proxy.api.test_routes import Service, problem
from tests.proxy.control.test_batches import ABORTED, CHAT, DEAD, play


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def test_an_export_takes_the_same_query(service: Service) -> None:
    play(service, "fine", batch="b")
    play(service, "dead", DEAD, batch="b")
    told = service.http.get("/rollouts/export?batch=b&health=api_error").text.splitlines()
    assert json.loads(told[0])["id"] == "dead"
    assert not any('"fine"' in line for line in told)
    assert service.http.get("/rollouts/export?batch=b&health=undecided").text == ""


# --- An export has all that judging its rollouts again takes --------------------------------------


def exported(service: Service, **params: str) -> list[dict[str, Any]]:
    answer = service.http.get("/rollouts/export", params=params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


def test_a_rollout_is_followed_by_its_outcome_and_its_calls(service: Service) -> None:
    play(service, "one")
    play(service, "two", DEAD)
    records = exported(service)
    assert [record["record"] for record in records] == ["rollout", "outcome", "exchange"] * 2
    assert [records[0]["id"], records[3]["id"]] == ["one", "two"]
    assert [records[n]["rollout_id"] for n in (1, 2, 4, 5)] == ["one", "one", "two", "two"]


def test_a_filter_is_of_an_export_what_it_was_to_its_batch(service: Service) -> None:
    seen = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0.0}}
    for name in ("failure", "answer"):
        policy = {"content_filter": name}
        service.http.post("/rollouts", json={"id": name, "batch": name, "policy": policy})
        service.provider.plays(answers.FILTERED)
        service.call(name)
        service.http.post(f"/rollouts/{name}/outcome", json=seen)
    lines = [json.dumps(record) for record in exported(service)]
    found = {one.rollout_id: one.scoreable for one in judge_export(lines)}
    assert found == {"failure": "no", "answer": "yes"}


def test_findings_roles_and_time_are_the_same_of_an_export(service: Service) -> None:
    service.http.post("/rollouts", json={"id": "r", "batch": "b", "policy": {"validity": "none"}})
    for rollout in ("r", "s"):
        for role, answer in (("", ABORTED), ("as/judge/", DEAD)):
            service.provider.plays(answer)
            asked = {"model": "gpt-5", "messages": []}
            service.http.post(f"/r/{rollout}/{role}openai{CHAT}", json=asked)
        seen = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0.0}}
        service.http.post(f"/rollouts/{rollout}/outcome", json=seen)
    lines = [json.dumps(record) for record in exported(service)]
    names = (
        "health", "scoreable", "excluded_by", "validity", "validity_coverage", "roles",
        "provider_s", "lost_s", "agent_s", "proof",
    )  # fmt: skip
    for judged in map(encode_verdict, judge_export(lines)):
        verdict = service.get(f"/rollouts/{judged['rollout_id']}/verdict")
        assert {name: judged[name] for name in names} == {name: verdict[name] for name in names}
        assert [found["check"] for found in verdict["validity"]] == [
            "engine_aborted",
            "judge_failed",
        ]
        assert verdict["agent_s"] is not None
        spoilt = ["engine_aborted", "judge_failed"] if verdict["rollout_id"] == "s" else []
        assert verdict["excluded_by"] == spoilt


def test_one_batch_is_exported_alone_and_an_unknown_one_refused(service: Service) -> None:
    play(service, "one")
    play(service, "two", batch="c")
    assert {record.get("id") for record in exported(service, batch="c")} >= {"two"}
    assert all(record.get("rollout_id", "two") == "two" for record in exported(service, batch="c"))
    refused = service.http.get("/rollouts/export", params={"batch": "none"})
    problem(refused, 404, "unknown_batch")


def test_no_rollout_is_lost_between_two_pages(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE", 2)
    service.provider.plays(answers.chat())
    for n in range(5):
        service.http.post("/rollouts", json={"id": f"r{n}"})
    assert [record["id"] for record in exported(service)] == [f"r{n}" for n in range(5)]
