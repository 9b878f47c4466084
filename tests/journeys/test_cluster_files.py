"""What deploy/ and docker-compose.yml say of a cluster fits the service, and itself."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.settings import load
from tests.journeys.service import ROOT

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
REPLICAS = ("replica-1", "replica-2", "replica-3")
MANIFESTS: dict[str, Any] = {
    manifest["kind"]: manifest
    for path in sorted(Path(ROOT, "deploy", "kubernetes").glob("*.yaml"))
    for manifest in yaml.safe_load_all(path.read_text())
}
POD = MANIFESTS["Deployment"]["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def test_a_build_is_plain_python_unless_it_is_asked_to_compile() -> None:
    """The first build of a newcomer takes a minute, not ten."""
    assert "\nARG COMPILE=\n" in (ROOT / "Dockerfile").read_text()
    built = [service["build"] for service in COMPOSE.values() if "build" in service]
    assert len(built) >= 3
    assert {arg for each in built for arg in each["args"]} == {"COMPILE=${TRUEZERO_COMPILE-}"}
    image = (ROOT / "Makefile").read_text().partition("\nimage:")[2].partition("\n\n")[0]
    assert "--build-arg COMPILE=$(COMPILE)" in image
    assert "\nCOMPILE ?= 1\n" in (ROOT / "Makefile").read_text()


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def test_without_a_profile_compose_starts_sqlite_alone() -> None:
    default = {name for name, service in COMPOSE.items() if "profiles" not in service}
    assert default == {"truezero"}
    cluster = {
        name for name, service in COMPOSE.items() if "cluster" in service.get("profiles", ())
    }
    assert cluster == {"gateway", "postgres", "token", *REPLICAS}


def test_each_waits_until_what_it_needs_is_well() -> None:
    def waits_for(name: str) -> dict[str, str]:
        return {on: how["condition"] for on, how in COMPOSE[name]["depends_on"].items()}

    assert waits_for("gateway") == dict.fromkeys(REPLICAS, "service_healthy")
    for replica in REPLICAS:
        assert waits_for(replica) == {
            "postgres": "service_healthy", "token": "service_completed_successfully",
        }  # fmt: skip
    for name in ("postgres", "prometheus", "grafana"):
        assert waits_for(name) == {"token": "service_completed_successfully"}
    assert COMPOSE["postgres"]["healthcheck"]  # a service's is in its image


def test_nginx_asks_each_service_and_each_keeps_its_own_spill() -> None:
    (told,) = (line for line in COMPOSE["gateway"]["environment"] if "TRUEZERO_REPLICAS" in line)
    assert [f"server {name}:8383 " in told for name in REPLICAS] == [True] * 3
    shared = "token:/token:ro"
    volumes = [set(COMPOSE[name]["volumes"]) - {shared} for name in REPLICAS]
    assert all(shared in COMPOSE[name]["volumes"] for name in REPLICAS)
    own = set[str]().union(*volumes)
    assert [len(each) for each in volumes] == [1, 1, 1]
    assert len(own) == 3
    assert all(volume.endswith(":/data") for volume in own)


def listed(service: dict[str, Any]) -> dict[str, str | None]:
    """The environment of a service, written either way."""
    given = service.get("environment", {})
    if isinstance(given, dict):
        return given
    return {name: value if equals else None for name, equals, value in
            (line.partition("=") for line in given)}  # fmt: skip


def test_no_variable_must_be_set_and_all_services_have_one_token() -> None:
    assert ":?" not in (ROOT / "docker-compose.yml").read_text()
    for name in ("truezero", "token", *REPLICAS):
        told, volumes = listed(COMPOSE[name]), COMPOSE[name]["volumes"]
        assert told["TRUEZERO_ADMIN_TOKEN"] == "${TRUEZERO_ADMIN_TOKEN:-}"
        assert told["TRUEZERO_ADMIN_TOKEN_FILE"] == "/token/admin-token"
        assert any(volume.startswith("token:/token") for volume in volumes)
    writers = {
        name for name, service in COMPOSE.items() if "token:/token" in service.get("volumes", ())
    }
    assert writers == {"truezero", "token"}, "the others may only read"
    assert "--make-token" in (ROOT / "Dockerfile").read_text().splitlines()[-1]


def test_what_makes_the_token_reaches_nobody_and_leaves_each_reader_its_own_file(
    tmp_path: Path,
) -> None:
    """Its script is run with a truezero and a chown of our own."""
    token = COMPOSE["token"]
    assert (token["network_mode"], token["cap_drop"]) == ("none", ["ALL"])
    assert "restart" not in token
    bin_, kept = tmp_path / "bin", tmp_path / "token"
    for folder in (bin_, kept):
        folder.mkdir()
    odd = r"a:b\c%s"
    (bin_ / "truezero").write_text(f"#!/bin/sh\nprintf '%s\\n' '{odd}'\n")
    (bin_ / "chown").write_text(f'#!/bin/sh\necho "$1 ${{2##*/}}" >> {tmp_path}/owners\n')
    for tool in bin_.iterdir():
        tool.chmod(0o755)
    (script,) = token["command"]
    script = script.replace("$$", "$").replace("/token/", f"{kept}/")
    subprocess.run(
        [*token["entrypoint"], script], check=True,
        env={"PATH": f"{bin_}:{os.environ['PATH']}"},
    )  # fmt: skip
    files = {file.name: file.read_text() for file in kept.iterdir()}
    assert files == {
        "postgres": odd, "prometheus": odd, "grafana": odd, "pgpass": r"*:*:*:*:a\:b\\c%s" + "\n",
    }  # fmt: skip
    assert {file.stat().st_mode & 0o777 for file in kept.iterdir()} == {0o600}
    assert set((tmp_path / "owners").read_text().splitlines()) == {
        "0 postgres.new", "10001 pgpass.new", "65534 prometheus.new", "472 grafana.new",
    }  # fmt: skip


def test_only_nginx_is_reached_from_outside_and_only_from_this_machine() -> None:
    for name in ("postgres", *REPLICAS):
        assert "ports" not in COMPOSE[name]
    assert all(port.startswith("127.0.0.1:") for port in COMPOSE["gateway"]["ports"])


def test_calls_may_end_before_compose_kills() -> None:
    for name in REPLICAS:
        grace_s = int(COMPOSE[name]["environment"]["TRUEZERO_GRACE_S"])
        assert grace_s < seconds(COMPOSE[name]["stop_grace_period"])


def test_calls_may_end_before_kubernetes_kills() -> None:
    grace_s = int(environment()["TRUEZERO_GRACE_S"])
    wait_s = 10
    assert f"time.sleep({wait_s})" in CONTAINER["lifecycle"]["preStop"]["exec"]["command"][-1]
    assert wait_s + grace_s < POD["terminationGracePeriodSeconds"]


def environment() -> dict[str, str]:
    return {one["name"]: one.get("value", "set-by-a-secret") for one in CONTAINER["env"]}


@pytest.mark.parametrize("told", [environment(), COMPOSE["replica-1"]["environment"]])
def test_every_variable_is_a_setting(told: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "admin-token").write_text("t0ken")
    given = {name: str(value) for name, value in told.items() if value is not None}
    given = {name: value.replace("/token/", f"{tmp_path}/") for name, value in given.items()}
    given = {name: re.sub(r"\$\{\w+:-(.*?)\}", r"\1", value) for name, value in given.items()}
    settings = load({}, given)
    assert settings.grace_s > 0
    assert settings.spill_dir == "/data/spill"


def test_kubernetes_keeps_two_of_at_least_three_and_scales_by_a_metric_that_is_told() -> None:
    scaler = MANIFESTS["HorizontalPodAutoscaler"]["spec"]
    kept = MANIFESTS["PodDisruptionBudget"]["spec"]["minAvailable"]
    assert (kept, scaler["minReplicas"]) == (2, 3)
    assert "replicas" not in MANIFESTS["Deployment"]["spec"]
    (metric,) = scaler["metrics"]
    name = metric["pods"]["metric"]["name"].removeprefix("truezero_")
    assert f'("{name}",' in (ROOT / "proxy" / "telemetry" / "metrics.py").read_text()


def test_all_of_kubernetes_means_the_same_pods_and_port() -> None:
    labels = MANIFESTS["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for kind in ("Deployment", "PodDisruptionBudget"):
        assert MANIFESTS[kind]["spec"]["selector"]["matchLabels"] == labels
    assert MANIFESTS["Service"]["spec"]["selector"] == labels
    for spread in POD["topologySpreadConstraints"]:
        assert spread["labelSelector"]["matchLabels"] == labels
    assert CONTAINER["ports"] == [{"name": "http", "containerPort": 8383}]
    assert MANIFESTS["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == "truezero"


def test_nobodys_root_writes_where_it_may_and_nowhere_else() -> None:
    assert POD["securityContext"]["runAsUser"] == 10001  # the image's
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"]
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert "--uid 10001" in dockerfile
    mounts = {mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert mounts == {"/data", "/tmp"}
    named = {volume["name"] for volume in POD["volumes"]}
    assert {mount["name"] for mount in CONTAINER["volumeMounts"]} == named


def test_probes_ask_what_needs_no_token() -> None:
    probes = {name: probe for name, probe in CONTAINER.items() if name.endswith("Probe")}
    paths = {name: probe["httpGet"]["path"] for name, probe in probes.items()}
    assert paths == {
        "startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz",
    }  # fmt: skip
    assert {probe["httpGet"]["port"] for probe in probes.values()} == {"http"}
