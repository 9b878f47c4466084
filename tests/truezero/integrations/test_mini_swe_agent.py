"""An instance under a rollout, with a runner in miniature; the package is not needed here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.truezero import driving
from tests.truezero.sdk.test_client import VERDICT
from truezero import Client, models
from truezero.integrations import mini_swe_agent
from truezero.integrations.mini_swe_agent import (
    UnderRollout,
    ending,
    is_false_empty,
    outcome,
    reach,
    rollout_model,
    with_our_class,
)

URLS = {"openai": "http://p/r/1/openai/v1", "together": "http://p/r/1/together/v1"}


def test_a_key_that_the_environment_has_stays() -> None:
    told = reach("openai", URLS, "tz-1", {"OPENAI_API_KEY": "sk-own"})
    assert told == {"api_base": URLS["openai"]}


def test_where_there_is_no_key_the_rollouts_own_is_given() -> None:
    told = reach("together_ai", URLS, "tz-1", {"OPENAI_API_KEY": "sk-own"})
    assert told == {"api_base": URLS["together"], "api_key": "tz-1"}


@pytest.mark.parametrize("provider", ["watsonx", "anthropic"])
def test_a_provider_without_an_upstream_is_refused(provider: str) -> None:
    with pytest.raises(RuntimeError, match=f"no upstream for LiteLLM's provider '{provider}'"):
        reach(provider, URLS, "tz-1", {})


def test_a_configuration_keeps_all_but_who_makes_the_model() -> None:
    config: dict[str, Any] = {
        "agent": {"step_limit": 5},
        "model": {"model_name": "m", "model_class": "own"},
    }
    ours = with_our_class(config)
    assert ours["agent"] == {"step_limit": 5}
    assert ours["model"] == {
        "model_name": "m",
        "model_class": "truezero.integrations.mini_swe_agent.rollout_model",
        "truezero_base": "own",
    }
    assert config["model"]["model_class"] == "own"


def test_a_model_outside_of_an_instance_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"python -m truezero\.integrations\.mini_swe_agent"):
        rollout_model(model_name="openai/gpt-5")


@pytest.mark.parametrize(
    ("info", "status", "reason"),
    [
        ({"exit_status": "Submitted"}, "success", "agent_stop"),
        ({"exit_status": "LimitsExceeded"}, "success", "max_steps"),
        ({"exit_status": "TimeExceeded"}, "task_timeout", None),
        ({"exit_status": "RepeatedFormatError"}, "agent_error", None),
        ({"exit_status": "AuthenticationError"}, "unknown_execution_error", None),
        ({}, "unknown_execution_error", None),
        (None, "setup_failed", None),
    ],
)
def test_an_exit_status_says_how_an_instance_ended(
    info: Mapping[str, Any] | None, status: str, reason: str | None
) -> None:
    seen = outcome(info)
    assert (seen["status"], seen.get("termination_reason")) == (status, reason)


@pytest.mark.parametrize("info", [None, {}, {"exit_status": ""}, {"exit_status": "KeyError"}])
def test_an_exception_is_no_ending_of_the_agents_own(info: Mapping[str, Any] | None) -> None:
    assert ending(info) is None


def test_of_an_exit_status_that_is_prose_nothing_is_told() -> None:
    assert outcome({"exit_status": "Error: sk-secret"})["error"] == "unknown"


# --- the runner, in miniature --------------------------------------------------------------

Agent = Callable[[str], dict[str, Any] | None]


class Runner:
    """What mini-SWE-agent's runner does to its files."""

    def __init__(self, home: Path, agent: Agent) -> None:
        self.home = home
        self.agent = agent
        self.predictions = home / "preds.json"

    def process(
        self, instance: Mapping[str, Any], home: Path, config: dict[str, Any], progress: Any
    ) -> None:
        name = instance["instance_id"]
        rollout = mini_swe_agent._running.rollout
        info = self.agent(rollout.base_urls["openai"])
        if info is not None:
            trajectory = home / name / f"{name}.traj.json"
            trajectory.parent.mkdir(exist_ok=True)
            trajectory.write_text(json.dumps({"info": info}))
        self._write({**self.read(), name: (info or {}).get("submission", "")})

    def forget(self, path: Path, name: str) -> None:
        assert path == self.predictions
        self._write({key: value for key, value in self.read().items() if key != name})

    def read(self) -> dict[str, Any]:
        found: dict[str, Any] = (
            json.loads(self.predictions.read_text()) if self.predictions.exists() else {}
        )
        return found

    def run(self, client: Client, name: str) -> None:
        self.ended: list[tuple[str, str]] = []
        progress = SimpleNamespace(on_instance_end=lambda *told: self.ended.append(told))
        self.last = UnderRollout(self.process, client, batch="b", forget=self.forget)
        self.last({"instance_id": name}, self.home, {"model": {}}, progress)

    def _write(self, predictions: dict[str, Any]) -> None:
        self.predictions.write_text(json.dumps(predictions))


def calling(key: str, info: dict[str, Any]) -> Agent:
    def agent(base_url: str) -> dict[str, Any]:
        driving.call(base_url, key)
        return info

    return agent


EMPTY = {"exit_status": "AuthenticationError", "submission": ""}
GAVE_UP = {"exit_status": "LimitsExceeded", "submission": ""}
PATCH = {"exit_status": "Submitted", "submission": "diff"}


@pytest.mark.slow
def test_only_an_empty_prediction_without_a_model_goes(url: str, tmp_path: Path) -> None:
    cases: list[tuple[str, Agent, list[str]]] = [
        ("an empty one of a failure", calling("sk-dead", EMPTY), []),
        ("whatever made it, it is no empty one", calling("sk-dead", PATCH), ["diff"]),
        ("the model's own failure counts", calling("sk-good", GAVE_UP), [""]),
        ("a patch", calling("sk-good", PATCH), ["diff"]),
        ("nobody asked a model", lambda _url: dict(EMPTY), []),
        ("the agent was not started", lambda _url: None, []),
    ]
    with Client(url) as client:
        for number, (case, agent, left) in enumerate(cases):
            home = tmp_path / str(number)
            home.mkdir()
            runner = Runner(home, agent)
            runner.run(client, f"it-{number}")
            assert runner.read() == {f"it-{number}": patch for patch in left}, case


def test_an_instance_run_again_is_a_further_attempt(url: str, tmp_path: Path) -> None:
    with Client(url) as client:
        Runner(tmp_path, calling("sk-dead", EMPTY)).run(client, "again")
        Runner(tmp_path, calling("sk-good", PATCH)).run(client, "again")
        items = [(item.attempt, item.health) for item in client.rollouts(batch="b", task="again")]
    assert items == [(0, "api_error"), (1, "healthy")]


def test_an_instance_that_an_open_breaker_holds_is_not_run(tmp_path: Path) -> None:
    with driving.service(tmp_path, breaker_threshold="1") as (url, provider, _):
        with Client(url) as client:
            runner = Runner(tmp_path, calling("sk-dead", EMPTY))
            runner.run(client, "it-1")
            runner.run(client, "it-2")
            assert runner.ended == [("it-2", "skipped: breaker open")]
            assert runner.last.unmeasured == {"skipped: breaker open": 1}
        assert (len(provider.requests), runner.read()) == (1, {})


def test_an_instance_that_the_service_did_not_judge_leaves_no_empty_prediction(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, info, left in (("none", EMPTY, {}), ("some", PATCH, {"some": "diff"})):
        with Client(url) as client:

            def leaving(base_url: str, info: dict[str, Any] = info, client: Client = client) -> Any:
                driving.call(base_url, "sk-good")
                monkeypatch.setattr(client, "_http", httpx.Client(base_url="http://127.0.0.1:9"))
                return info

            runner = Runner(tmp_path, leaving)
            runner.run(client, name)
            assert runner.read() == left
            assert (runner.last.away, runner.last.unmeasured) == (
                True,
                {"truezero service away": 1},
            )
            assert runner.ended == [], "the runner has said so itself"


def test_an_instance_is_not_run_while_the_service_is_away(tmp_path: Path) -> None:
    with Client("http://127.0.0.1:9") as client:
        runner = Runner(tmp_path, calling("sk-good", PATCH))
        runner.run(client, "it-1")
    assert runner.ended == [("it-1", "truezero service away")]
    assert runner.read() == {}


def test_an_empty_prediction_without_a_measurement_is_false_and_a_patch_never() -> None:
    spoilt = {"health": "healthy", "error_category": None, "scoreable": "no", "total_requests": 3}
    for said, info, false in (
        (spoilt, {"submission": ""}, True),
        (spoilt, {"submission": "diff"}, False),
        ({**spoilt, "scoreable": "yes"}, {"submission": ""}, False),
        ({**spoilt, "scoreable": "unknown"}, {"submission": ""}, False),
    ):
        verdict = models.Verdict.model_validate({**VERDICT, **said})
        assert is_false_empty(verdict, info) is false, (said, info)
