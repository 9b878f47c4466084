"""Traces as verifiers saves them, and what is reported of each; the package is not needed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from tests.truezero import driving
from truezero import Client, ServiceError
from truezero.integrations.verifiers import (
    main,
    outcome,
    rewards_of,
    settle,
    settle_run,
    task_of,
)


def trace(name: str = "t1", **facts: Any) -> dict[str, Any]:
    whole = {"id": name, "task": {"data": {"id": f"task-{name}"}}, "ok": True, "rewards": {}}
    return {**whole, **facts}


def test_rewards_are_weighted_and_their_sum_is_the_reward() -> None:
    scored = {"solved": {"score": 1.0, "weight": 2.0}, "short": {"score": 0.5}, "late": None}
    assert rewards_of(scored) == {"solved": 2.0, "short": 0.5, "reward": 2.5}


@pytest.mark.parametrize("rewards", [{}, {"solved": None}])
def test_what_was_not_scored_is_null(rewards: dict[str, Any]) -> None:
    assert rewards_of(rewards) is None


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ({"data": {"id": "i", "name": "n", "idx": 3}, "key": "k"}, "i"),
        ({"data": {"name": "n", "idx": 3}, "key": "k"}, "n"),
        ({"data": {"idx": 3}, "key": "k"}, "k"),
        ({"data": {"idx": 0}}, "0"),
        ({}, None),
    ],
)
def test_a_task_is_called_what_lasts_longest(task: dict[str, Any], name: str | None) -> None:
    assert task_of({"task": task}) == name


@pytest.mark.parametrize(
    ("facts", "status", "reason"),
    [
        ({}, "success", "agent_stop"),
        ({"stop_condition": "max_turns"}, "success", "max_steps"),
        ({"ok": False}, "success", "unknown"),
        ({"is_timeout": True, "ok": False}, "task_timeout", None),
        ({"ok": False, "errors": [{"type": "HarnessError"}]}, "agent_error", None),
        ({"ok": False, "errors": [{"type": "SandboxError"}]}, "environment_error", None),
        ({"ok": False, "errors": [{"type": "ProviderError"}]}, "unknown_execution_error", None),
        ({"errors": [{"type": "SandboxError"}]}, "success", "agent_stop"),  # mended by a retry
    ],
)
def test_a_trace_says_how_it_ended(facts: dict[str, Any], status: str, reason: str | None) -> None:
    seen = outcome(trace(**facts))
    assert (seen["status"], seen.get("termination_reason")) == (status, reason)


def test_of_a_traces_error_only_the_type_is_told() -> None:
    error = {"type": "ProviderError", "message": "sk-secret"}
    assert outcome(trace(ok=False, errors=[error]))["error"] == "ProviderError"


# --- reported ------------------------------------------------------------------------------


def call(url: str, session: str, key: str, *, role: str = "agent") -> None:
    headers = {
        "authorization": f"Bearer {key}", "X-Session-ID": session, "x-truezero-role": role,
    }  # fmt: skip
    asked = {"model": "gpt-5", "messages": []}
    httpx.post(f"{url}/openai/v1/chat/completions", json=asked, headers=headers, timeout=60)


class Live(SimpleNamespace):
    """A live trace, as far as it is looked at."""

    def model_dump(self, *, exclude: set[str]) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in exclude}


def test_a_live_trace_without_a_model_loses_its_rewards(url: str) -> None:
    with Client(url) as client:
        call(url, "lost", "sk-dead")
        live = Live(
            **trace("lost", rewards={"solved": {"score": 0.0}}), info={}, nodes=["a prompt"]
        )
        settled = settle(client, live, batch="traces")
        [item] = client.rollouts(batch="traces", task="task-lost")
    assert not settled.measured
    assert (live.rewards, live.ok) == ({"solved": None}, False)
    assert live.info["truezero"]["health"] == "api_error"
    assert (item.task, item.health) == ("task-lost", "api_error")


def test_a_live_trace_that_a_dead_judge_scored_loses_its_rewards(url: str) -> None:
    with Client(url) as client:
        call(url, "trace-misjudged", "sk-good")
        call(url, "trace-misjudged", "sk-dead", role="judge")
        live = Live(**trace("trace-misjudged", rewards={"solved": {"score": 0.0}}), info={})
        settled = settle(client, live, batch="traces")
    assert (settled.verdict.health, settled.result.rewards) == ("healthy", None)
    assert (settled.measured, live.rewards, live.ok) == (False, {"solved": None}, False)
    assert live.info["truezero"] == {"health": "healthy", "error": settled.result.error}
    assert "role judge did not reach its model" in str(settled.why)


def test_a_live_trace_with_a_model_stays_as_it_is(url: str) -> None:
    with Client(url) as client:
        call(url, "kept", "sk-good")
        live = Live(**trace("kept", rewards={"solved": {"score": 0.0}}), info={})
        settled = settle(client, live, batch="traces")
    assert settled.result.rewards == {"solved": 0.0, "reward": 0.0}
    assert (live.rewards, live.ok, live.info) == ({"solved": {"score": 0.0}}, True, {})


def test_a_saved_run_is_reported_and_says_what_is_no_measurement(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = tmp_path / "run"
    saved.mkdir()
    lines = [{"traces": [trace("good")]}, {"traces": [trace("dead"), trace("mute")]}]
    (saved / "traces.jsonl").write_text("\n\n".join(map(json.dumps, lines)) + "\n")
    monkeypatch.setenv("TRUEZERO_URL", url)
    call(url, "good", "sk-good")
    call(url, "dead", "sk-dead")
    for _ in range(2):  # reporting again is harmless
        done = CliRunner().invoke(main, [str(saved)])
        assert done.exit_code == 1, done.output
        assert "task-dead dead: api_error [auth, permanent]: HTTP 401" in done.output
        assert "task-mute mute: suspected_api_error: a prompt" in done.output
        assert done.output.splitlines()[-1] == "measured: 1 of 3 traces"
    with Client(url) as client:
        assert len(client.rollouts(batch="run")) == 3


def test_a_saved_run_numbers_the_samples_of_a_task(url: str, tmp_path: Path) -> None:
    """In the order in which they were saved; those that were registered keep their numbers."""
    names = ("one", "two", "three", "four")
    lines = [{"traces": [trace(name, task={"data": {"id": "twice"}})]} for name in names]
    (tmp_path / "traces.jsonl").write_text("\n".join(map(json.dumps, [*lines, {"traces": [
        trace("alone")
    ]}])))  # fmt: skip
    with Client(url) as client:
        for name in (*names, "alone"):
            call(url, name, "sk-good")
        client.register(id="two", batch="sampled", task="twice", repeat=0)
        for _ in range(2):
            assert all(one.measured for one in settle_run(client, tmp_path, batch="sampled"))
        numbers = {item.id: item.repeat for item in client.rollouts(batch="sampled")}
        [group] = client.groups("sampled", task="twice")
    assert numbers == {"one": 1, "two": 0, "three": 2, "four": 3, "alone": None}
    assert (group.wanted, group.repeats, group.settled) == (4, [0, 1, 2, 3], True)


def test_where_a_token_is_asked_for_a_trace_is_named_by_its_rollouts_address(
    tmp_path: Path,
) -> None:
    asked, token = {"model": "gpt-5", "messages": []}, "token-of-the-admin"
    own = {"authorization": "Bearer sk-good", "X-Session-ID": "named"}
    with (
        driving.service(tmp_path, admin_token=token) as (url, _, _),
        Client(url, token) as client,
    ):
        registered = client.register(batch="keyed", task="one")
        base = registered.base_urls["openai"]
        httpx.post(f"{base}/chat/completions", json=asked, headers=own).raise_for_status()
        live = Live(**trace("named", rewards={"solved": {"score": 1.0}}), info={})
        assert settle(client, live, rollout_id=registered.id).measured
        assert live.info == {"truezero": {"rollout": registered.id}}
        saved = {"traces": [live.model_dump(exclude=set())]}
        (tmp_path / "traces.jsonl").write_text(json.dumps(saved))
        assert [one.measured for one in settle_run(client, tmp_path, batch="keyed")] == [True]
        items = client.rollouts(batch="keyed")
        sources = {call.attribution_source for call in client.exchanges(registered.id)}
    assert [(item.id, item.task) for item in items] == [(registered.id, "one")]
    assert sources == {"path"}


# --- a service that is away, or asked for nothing -----------------------------------------------


def asking(base_url: str, name: str) -> Live:
    """A live trace whose client asks at this address."""
    config = {"client": {"base_url": base_url}}
    rewards = {"solved": {"score": 1.0}}
    return Live(**trace(name, rewards=rewards, agent={"config": config}), info={})


def test_a_trace_whose_client_asks_another_server_stays_as_it_is_with_one_warning(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Client(url) as client:
        for name in ("there-1", "there-2"):
            live = asking("http://elsewhere.example/v1?key=sk-secret", name)
            settle(client, live, batch="elsewhere")
            assert (live.rewards, live.ok) == ({"solved": {"score": 1.0}}, True)
    [said] = caplog.messages
    assert said == (
        "no call came through truezero, rewards stay as they are: base_url of the client is "
        f"http://elsewhere.example/v1, is it to be {url}/openai/v1?"
    )


def test_a_trace_that_should_have_asked_the_service_and_did_not_loses_its_rewards(
    url: str,
) -> None:
    with Client(url) as client:
        live = asking(f"{url}/openai/v1", "unheard")
        assert not settle(client, live, batch="silent").measured
    assert (live.rewards, live.ok) == ({"solved": None}, False)


def test_a_trace_of_which_the_service_cannot_tell_loses_its_rewards() -> None:
    gone = "http://127.0.0.1:9"
    with Client(gone) as client:
        live = asking(f"{gone}/openai/v1", "untold")
        with pytest.raises(ServiceError, match="cannot reach"):
            settle(client, live, batch="untold")
    assert (live.rewards, live.ok) == ({"solved": None}, False)
    assert live.info["truezero"]["error"].startswith("not measured: cannot reach")


@pytest.mark.parametrize("served", [True, False])
def test_a_saved_run_without_any_call_or_service_is_one_sentence(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: bool
) -> None:
    lines = [{"traces": [trace(f"saved-{number}")]} for number in range(3)]
    (tmp_path / "traces.jsonl").write_text("\n".join(map(json.dumps, lines)))
    monkeypatch.setenv("TRUEZERO_URL", url if served else "http://127.0.0.1:9")
    done = CliRunner().invoke(main, [str(tmp_path)])
    [said] = done.output.splitlines()
    assert done.exit_code == 1
    assert said.startswith(
        "no call of this run came through truezero" if served
        else "truezero: not reported: cannot reach a truezero service"
    )  # fmt: skip
