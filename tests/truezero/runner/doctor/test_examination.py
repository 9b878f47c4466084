"""The whole of `truezero doctor`, what its options ask for, base URLs, installation, providers."""

from __future__ import annotations

import importlib.machinery
import json
from pathlib import Path

import pytest

from tests.fakes.provider import Provider, closed_port
from tests.proxy.api.test_routes import Service, serving
from tests.truezero.cli.test_cli import truezero
from tests.truezero.runner.doctor.looking import OPENAI, lists, look
from truezero import Client
from truezero.runner import doctor
from truezero.runner.doctor import Wanted


def test_where_all_is_well_nothing_has_failed(client: Client) -> None:
    environment = {**OPENAI, "OPENAI_BASE_URL": f"{client.url}/r/x/openai/v1"}
    found = look(client, environment, Wanted(models=(("openai", "gpt-5"),)))
    assert not doctor.failed(list(found.values())), found
    assert list(found) == [
        "package", "service", "ready", "OPENAI_BASE_URL", "token", "openai key", "openai/gpt-5",
    ]  # fmt: skip
    assert {check.health for check in found.values()} == {"ok"}
    assert "2 models" in found["openai key"].told


def test_no_inference_is_asked_for_and_nothing_is_the_agents(
    client: Client, service: Service
) -> None:
    before = {rollout.id for rollout in client.rollouts()}
    look(client, OPENAI, Wanted(models=(("openai", "gpt-5"), ("openai", "an-alias"))))
    assert {request.method for request in service.provider.requests} == {"GET"}
    (rollout,) = (rollout for rollout in client.rollouts() if rollout.id not in before)
    assert rollout.id.startswith("doctor-"), "in lists it is seen whose it is"
    calls = client.exchanges(rollout.id)
    assert {call.role for call in calls} == {"doctor"}
    assert len(calls) == 2
    verdict = client.verdict(rollout.id)
    assert (verdict.health, verdict.provisional) == ("not_judged", False)


@pytest.mark.slow
def test_the_command_prints_a_line_for_each_check(tmp_path: Path, service: Service) -> None:
    environment = {"TRUEZERO_URL": str(service.http.base_url), "OPENAI_API_KEY": "sk-alive"}
    well = truezero("doctor", "--model", "openai/gpt-5", folder=tmp_path, **environment)
    assert well.returncode == 0, well.stdout + well.stderr
    assert "ok       openai/gpt-5: the model exists" in well.stdout
    ill = truezero("doctor", "--json", "--model", "openai/gpt-9", folder=tmp_path, **environment)
    assert ill.returncode == 1
    assert json.loads(ill.stdout)[-1]["health"] == "failed"
    assert "sk-alive" not in well.stdout + ill.stdout


def test_a_wrong_command_line_is_one_sentence(tmp_path: Path) -> None:
    said = truezero("doctor", "--model", "gpt-5", folder=tmp_path)
    assert said.returncode == 2
    assert len(said.stderr.strip().splitlines()) == 1
    assert "UPSTREAM/MODEL" in said.stderr


def test_a_model_needs_its_upstream() -> None:
    named = doctor.wanted(["groq"], ["openrouter/openai/gpt-5"], ask=True)
    assert named == Wanted(upstreams=("groq",), models=(("openrouter", "openai/gpt-5"),), ask=True)
    for wrong in ("gpt-5", "/gpt-5", "openai/"):
        with pytest.raises(ValueError, match="UPSTREAM/MODEL"):
            doctor.wanted([], [wrong], ask=False)


def test_a_base_url_that_leads_past_the_proxy(client: Client, service: Service) -> None:
    found = look(client, {"ANTHROPIC_BASE_URL": service.provider.url})["ANTHROPIC_BASE_URL"]
    assert found.health == "failed"
    assert "bypass the proxy" in found.told


def test_a_base_url_that_leads_nowhere(client: Client) -> None:
    nowhere = f"http://127.0.0.1:{closed_port()}/r/x/openai/v1"
    found = look(client, {"OPENAI_BASE_URL": nowhere})["OPENAI_BASE_URL"]
    assert found.health == "failed"
    assert "cannot reach" in found.told


def test_no_base_url_is_no_failure(client: Client) -> None:
    assert look(client)["base URLs"].health == "skipped"


def test_another_project_that_owns_the_name_proxy(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "owners", lambda _package: ["proxy.py", "truezero"])
    found = look(client)["package"]
    assert found.health == "failed"
    assert "pip uninstall proxy.py" in found.told


def test_another_package_in_front_of_ours(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "proxy" / "__init__.py"
    spec = importlib.machinery.ModuleSpec("proxy", None, origin=str(other))
    monkeypatch.setattr("truezero.runner.doctor.util.find_spec", lambda _name: spec)
    found = look(client)["package"]
    assert found.health == "failed"
    assert str(other) in found.told


@pytest.mark.slow
def test_who_owns_a_package_is_read_from_what_is_installed() -> None:
    assert doctor.owners("pytest") == ["pytest"]
    assert doctor.owners("no_such_package") == []


def test_each_provider_is_asked_in_its_own_way(tmp_path: Path) -> None:
    with Provider(lists) as provider:
        upstreams = {f"UPSTREAM_{name}": provider.url for name in ("ANTHROPIC", "GEMINI", "GROQ")}
        with (
            serving(tmp_path, **upstreams) as service,
            Client(str(service.http.base_url)) as client,
        ):
            keys = ("ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GROQ_API_KEY")
            environment = dict.fromkeys(keys, "sk-alive")
            wanted = Wanted(models=(("gemini", "gemini-3-pro"), ("groq", "gpt-5")))
            found = look(client, environment, wanted)
    assert {name for name, check in found.items() if check.health == "failed"} == set()
    assert {"anthropic key", "gemini key", "groq key", "gemini/gemini-3-pro", "groq/gpt-5"} <= set(
        found
    )
    asked = {request.target: request for request in provider.requests}
    assert set(asked) == {"/v1/models?limit=1000", "/v1beta/models?pageSize=1000", "/v1/models"}
    anthropic = asked["/v1/models?limit=1000"]
    assert anthropic.header("x-api-key") == "sk-alive"
    assert anthropic.header("anthropic-version") == "2023-06-01"
    assert asked["/v1beta/models?pageSize=1000"].header("x-goog-api-key") == "sk-alive"
