"""What docker-compose.yml and deploy/ say of one service and of a cluster fits it, and itself."""

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

FILES: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text())
    for path in (ROOT / "docker-compose.yml", *(ROOT / "deploy" / "compose").glob("*.yml"))
}
SINGLE, COMPOSE, MONITORING = (
    FILES[name]["services"] for name in ("docker-compose", "cluster", "monitoring")
)
OURS = [
    service
    for file in FILES.values()
    for service in file["services"].values()
    if service.get("image") == "truezero"
]
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
    assert len(OURS) == 6
    wanted = {"context": ".", "args": ["COMPILE=${TRUEZERO_COMPILE-}"]}
    assert all(service["build"] == wanted for service in OURS)
    image = (ROOT / "Makefile").read_text().partition("\nimage:")[2].partition("\n\n")[0]
    assert "--build-arg COMPILE=$(COMPILE)" in image
    assert "\nCOMPILE ?= 1\n" in (ROOT / "Makefile").read_text()


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def test_every_setting_of_a_file_that_may_be_absent_reaches_the_services() -> None:
    for service in OURS:
        assert service["env_file"] == [{"path": ".env", "required": False}]


def test_nginx_asks_each_service_and_each_keeps_its_own_spill() -> None:
    told = COMPOSE["gateway"]["environment"]["TRUEZERO_REPLICAS"]
    assert [f"server {name}:8383 " in told for name in REPLICAS] == [True] * 3
    shared = "token:/token:ro"
    volumes = [set(COMPOSE[name]["volumes"]) - {shared} for name in REPLICAS]
    assert all(shared in COMPOSE[name]["volumes"] for name in REPLICAS)
    own = set[str]().union(*volumes)
    assert [len(each) for each in volumes] == [1, 1, 1]
    assert len(own) == 3
    assert all(volume.endswith(":/data") for volume in own)


def test_no_variable_must_be_set_and_all_services_have_one_token() -> None:
    for file in (ROOT / "docker-compose.yml", *(ROOT / "deploy" / "compose").glob("*.yml")):
        assert ":?" not in file.read_text()
    for service in OURS:
        assert service["environment"]["TRUEZERO_ADMIN_TOKEN_FILE"] == "/token/admin-token"
        assert any(volume.startswith("token:/token") for volume in service["volumes"])
    writers = [service for service in OURS if "token:/token" in service["volumes"]]
    assert writers == [SINGLE["truezero"], COMPOSE["token"], MONITORING["token"]]
    assert "--make-token" in (ROOT / "Dockerfile").read_text().splitlines()[-1]


ODD = r"a:b\c%s"  # a token that a shell, printf and a file of passwords must not change
READERS: list[tuple[dict[str, Any], dict[str, tuple[str, str]]]] = [
    (COMPOSE, {"postgres": ("0", ODD), "pgpass": ("10001", r"*:*:*:*:a\:b\\c%s" + "\n")}),
    (MONITORING, {"prometheus": ("65534", ODD), "grafana": ("472", ODD)}),
]


@pytest.mark.parametrize(("services", "expected"), READERS, ids=["cluster", "monitoring"])
def test_what_makes_the_token_reaches_nobody_and_leaves_each_reader_its_own_file(
    services: dict[str, Any], expected: dict[str, tuple[str, str]], tmp_path: Path
) -> None:
    """Its script is run with a truezero and a chown of our own."""
    token = services["token"]
    assert (token["network_mode"], token["cap_drop"]) == ("none", ["ALL"])
    assert "restart" not in token
    bin_, kept = tmp_path / "bin", tmp_path / "token"
    for folder in (bin_, kept):
        folder.mkdir()
    (bin_ / "truezero").write_text(f"#!/bin/sh\nprintf '%s\\n' '{ODD}'\n")
    (bin_ / "chown").write_text(f'#!/bin/sh\necho "$1 ${{2##*/}}" >> {tmp_path}/owners\n')
    for tool in bin_.iterdir():
        tool.chmod(0o755)
    (script,) = token["command"]
    script = script.replace("$$", "$").replace("/token/", f"{kept}/")
    subprocess.run(
        [*token["entrypoint"], script], check=True,
        env={"PATH": f"{bin_}:{os.environ['PATH']}"},
    )  # fmt: skip
    owners = (line.split() for line in (tmp_path / "owners").read_text().splitlines())
    owner_of = {name.removesuffix(".new"): owner for owner, name in owners}
    written = {file.name: (owner_of[file.name], file.read_text()) for file in kept.iterdir()}
    assert written == expected
    assert {file.stat().st_mode & 0o777 for file in kept.iterdir()} == {0o600}


def test_only_nginx_is_reached_from_outside_and_only_from_this_machine() -> None:
    for name in ("postgres", *REPLICAS):
        assert "ports" not in COMPOSE[name]
    for service in (SINGLE["truezero"], COMPOSE["gateway"]):
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def unset(told: dict[str, Any]) -> dict[str, str]:
    """Return an environment as it is where no variable is set."""
    values = {name: str(value) for name, value in told.items()}
    while any("${" in value for value in values.values()):
        values = {
            name: re.sub(r"\$\{\w+:-([^${}]*)\}", r"\1", value) for name, value in values.items()
        }
    return values


def test_calls_may_end_before_compose_kills() -> None:
    for name in REPLICAS:
        grace_s = int(unset(COMPOSE[name]["environment"])["TRUEZERO_GRACE_S"])
        assert grace_s < seconds(COMPOSE[name]["stop_grace_period"])


def test_calls_may_end_before_kubernetes_kills() -> None:
    grace_s = int(environment()["TRUEZERO_GRACE_S"])
    wait_s = 10
    assert f"time.sleep({wait_s})" in CONTAINER["lifecycle"]["preStop"]["exec"]["command"][-1]
    assert wait_s + grace_s < POD["terminationGracePeriodSeconds"]


def environment() -> dict[str, str]:
    return {one["name"]: one.get("value", "set-by-a-secret") for one in CONTAINER["env"]}


@pytest.mark.parametrize(
    "told",
    [
        environment(),
        *(unset(service["environment"]) for service in (SINGLE["truezero"], COMPOSE["replica-1"])),
    ],
)
def test_every_variable_is_a_setting(told: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "admin-token").write_text("t0ken")
    given = {name: value.replace("/token/", f"{tmp_path}/") for name, value in told.items()}
    settings = load({}, given)
    assert settings.port == 8383
    assert settings.spill_dir == told.get("TRUEZERO_SPILL_DIR")


def test_what_compose_reads_of_the_same_file_is_no_setting_and_stops_no_service() -> None:
    assert load({}, {"TRUEZERO_COMPILE": "1", "TRUEZERO_REPLICAS": "server a:1;"}) == load({}, {})


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
