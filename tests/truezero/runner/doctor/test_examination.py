"""The whole of `truezero doctor`: where all is well, what it leaves behind, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.proxy.api.test_routes import Service
from tests.truezero.cli.test_cli import truezero
from tests.truezero.runner.doctor.looking import OPENAI, look
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
