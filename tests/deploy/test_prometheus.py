"""The alerts in deploy/ ask for metrics that exist, and Prometheus runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Provider, closed_port
from tests.features.metrics.test_metrics import METRIC, NAMES, SUFFIXES
from tests.journeys.service import ROOT, Service

DEPLOY = ROOT / "deploy"
RULES, CASES = DEPLOY / "prometheus" / "rules.yml", DEPLOY / "prometheus" / "rules.test.yml"
TOKEN, PATIENCE_S = "prometheus-token", 60.0


def read(path: Path) -> Mapping[str, Any]:
    found = yaml.safe_load(path.read_text("utf-8"))
    assert isinstance(found, dict)
    return found


def alerts() -> dict[str, Mapping[str, Any]]:
    (group,) = read(RULES)["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def test_every_rule_asks_for_metrics_that_exist_and_says_what_to_do() -> None:
    assert len(alerts()) >= 10
    runbook = (ROOT / "docs/operations/runbook.md").read_text("utf-8")
    headings = re.findall(r"^## (.+)$", runbook, re.MULTILINE)
    sections = {re.sub(r"[^a-z_ ]", "", each.lower()).replace(" ", "-") for each in headings}
    for name, rule in alerts().items():
        asked = {SUFFIXES.sub("", metric) for metric in METRIC.findall(rule["expr"])}
        assert asked <= NAMES, name
        assert asked or "up{" in rule["expr"], name
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description", "runbook"}
        page, _, section = rule["annotations"]["runbook"].partition("#")
        assert page == "docs/operations/runbook.md"
        assert section in sections, name


def test_every_rule_has_a_case_where_it_fires_and_one_where_it_does_not() -> None:
    expected: dict[str, set[bool]] = {}
    for case in read(CASES)["tests"]:
        for each in case["alert_rule_test"]:
            expected.setdefault(each["alertname"], set()).add(bool(each["exp_alerts"]))
    fires = {name for name, seen in expected.items() if True in seen}
    rests = {name for name, seen in expected.items() if False in seen}
    assert fires == alerts().keys()
    assert alerts().keys() - rests == set()


def test_the_documentation_lists_every_alert() -> None:
    text = (DEPLOY.parent / "docs/operations/observability.md").read_text("utf-8")
    assert re.findall(r"^\| `(Truezero\w+)` \|", text, re.MULTILINE) == list(alerts())


def test_compose_hands_prometheus_the_rules_its_configuration_names() -> None:
    config = read(DEPLOY / "prometheus.yml")
    (named,) = config["rule_files"]
    assert config["scrape_configs"][0]["job_name"] == "truezero", "as the rules expect"
    volumes = read(DEPLOY / "compose" / "monitoring.yml")["services"]["prometheus"]["volumes"]
    assert f"./deploy/prometheus/rules.yml:{named}:ro" in volumes


# --- Debian's own Prometheus ------------------------------------------------------------------


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        absent = f"{name} is not installed here (Debian: apt-get install prometheus)"
        if os.environ.get("CI"):
            pytest.fail(absent)
        pytest.skip(absent)
    return found


def promtool(*arguments: str | Path) -> str:
    done = subprocess.run(
        [tool("promtool"), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_promtool_accepts_the_rules_and_each_case_of_them() -> None:
    assert f"{len(alerts())} rules found" in promtool("check", "rules", RULES)
    assert "SUCCESS" in promtool("test", "rules", CASES)


@contextmanager
def prometheus(home: Path, target: str) -> Iterator[httpx.Client]:
    """Debian's Prometheus with the shipped configuration: another target, every second."""
    (home / "token").write_text(TOKEN)
    config = (DEPLOY / "prometheus.yml").read_text("utf-8")
    for shipped, here in (
        ("/token/prometheus", str(home / "token")),
        ("truezero:8383", target),
        ("/etc/prometheus/rules.yml", str(RULES)),
        ("15s", "1s"),
    ):
        assert shipped in config, shipped
        config = config.replace(shipped, here)
    (home / "prometheus.yml").write_text(config)
    promtool("check", "config", home / "prometheus.yml")
    port = closed_port()
    with (home / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                tool("prometheus"),
                f"--config.file={home}/prometheus.yml",
                f"--storage.tsdb.path={home}/data",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stderr=log,
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v1/", timeout=10) as client:
            yield client
    finally:
        process.terminate()
        process.wait(60)


def loaded(client: httpx.Client) -> dict[str, Mapping[str, Any]]:
    """Rules as Prometheus has them, by name; none while it starts."""
    try:
        answer = client.get("rules")
    except httpx.TransportError:
        return {}
    groups = answer.json()["data"]["groups"] if answer.is_success else []
    return {rule["name"]: rule for group in groups for rule in group["rules"]}


@pytest.mark.slow
def test_debians_prometheus_loads_the_rules_and_an_open_breaker_fires(tmp_path: Path) -> None:
    provider = Provider()
    with provider, Service(tmp_path, provider.url, ADMIN_TOKEN=TOKEN) as service:
        service.http.headers["authorization"] = f"Bearer {TOKEN}"
        with prometheus(tmp_path, service.url.removeprefix("http://")) as client:
            _wait(lambda: loaded(client).keys() == alerts().keys(), client)
            _wait(lambda: _up(client), client)
            assert _state(client) == "inactive"
            provider.plays(lambda _: answers.FAILURES[Api.CHAT][Fault.AUTH])
            for number in range(6):
                _fail(service, f"r{number}")
            assert [lane["phase"] for lane in service.get("/batches/b/breaker")["lanes"]] == [
                "open"
            ]
            _wait(lambda: _state(client) == "firing", client)
            (alert,) = loaded(client)["TruezeroBreakerOpen"]["alerts"]
    assert alert["annotations"]["summary"] == "Lanes stopped by a breaker: 1"


def _fail(service: Service, rollout: str) -> None:
    registered = service.register(id=rollout, batch="b", task=rollout)
    if registered["admitted"]:
        base = registered["base_urls"]["openai"]
        body = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}
        httpx.post(f"{base}/chat/completions", json=body, timeout=PATIENCE_S)
        service.outcome(rollout, status="success", prompts_executed=1, rewards={"reward": 0.0})
        service.verdict(rollout)


def _state(client: httpx.Client) -> str:
    return str(loaded(client)["TruezeroBreakerOpen"]["state"])


def _up(client: httpx.Client) -> bool:
    answer = client.get("query", params={"query": 'up{job="truezero"}'})
    return any(each["value"][1] == "1" for each in answer.json()["data"]["result"])


def _wait(until: Any, client: httpx.Client) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < deadline, json.dumps(loaded(client))
        time.sleep(0.1)
