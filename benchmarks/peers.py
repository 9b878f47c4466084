"""The gateways people use instead: LiteLLM's proxy and Portkey's, where `make peers` put them.

Each is set up as light as it can be: no database, no key of its own, nothing logged, no retries.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import gateways, machine
from benchmarks.subjects import HOME, Pace, Stage, Stand, Subject, clean_env, nginx_binary

LITELLM = HOME / "litellm" / "bin" / "litellm"
PORTKEY = HOME / "portkey" / "node_modules" / "@portkey-ai" / "gateway"
GENTLE = Pace(connections=8, share=0.5, warm_s=3, streams=5, per_s=20)

# A model named outright is found at once, others by their pattern. The price list comes with it.
_LITELLM = """
model_list:
  - model_name: mock-100-10
    litellm_params: &to {{model: openai/mock-100-10, api_base: "{provider}", api_key: sk-bench}}
  - model_name: mock-*
    litellm_params: {{<<: *to, model: openai/mock-*}}
litellm_settings: {{telemetry: false, set_verbose: false, num_retries: 0}}
general_settings: {{disable_spend_logs: true}}
"""
LITELLM_ENV = {
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "ERROR",
    "LITELLM_MODE": "PRODUCTION",
}


@contextlib.contextmanager
def litellm(stage: Stage, *, native: bool = False) -> Iterator[Subject]:
    """LiteLLM's proxy with one worker, with the part of it that is Rust or without.

    Raises:
        FileNotFoundError: it is not installed.
    """
    if not LITELLM.exists():
        raise FileNotFoundError("litellm")
    port = machine.free_port()
    with tempfile.TemporaryDirectory() as home:
        config = Path(home, "config.yaml")
        config.write_text(_LITELLM.format(provider=_origin(stage)))
        where = ["--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
        command: list[str | Path] = [LITELLM, "--config", config, *where, "--telemetry", "False"]
        env = clean_env() | LITELLM_ENV | {"LITELLM_RUST": "true" if native else "false"}
        with machine.running(command, core=stage.core, env=env, cwd=Path(home)) as process:
            machine.wait_for_port(port, process, timeout_s=120)
            name = "litellm-rust" if native else "litellm"
            yield Subject(name=name, port=port, pace=GENTLE, pid=process.pid)


@contextlib.contextmanager
def portkey(stage: Stage) -> Iterator[Subject]:
    """Portkey's gateway; it is told with each request where to go.

    Raises:
        FileNotFoundError: it is not installed, or node is not.
    """
    node = shutil.which("node")
    if node is None or not PORTKEY.exists():
        raise FileNotFoundError("portkey")
    port = machine.free_port()
    script = PORTKEY / "build" / "start-server.js"
    command: list[str | Path] = [node, script, "--headless", f"--port={port}"]
    env = clean_env() | {"NODE_ENV": "production"}
    headers = ("x-portkey-provider: openai", f"x-portkey-custom-host: {_origin(stage)}")
    with machine.running(command, core=stage.core, env=env) as process:
        machine.wait_for_port(port, process)
        yield Subject(name="portkey", port=port, headers=headers, pace=GENTLE, pid=process.pid)


def _origin(stage: Stage) -> str:
    return f"http://127.0.0.1:{stage.provider_port}/v1"


def versions() -> dict[str, str]:
    """Return the installed peers by name."""
    known = {
        "nginx": _nginx(),
        **gateways.versions(),
        "litellm": _litellm(),
        "litellm-rust": _litellm(),
        "portkey": _portkey(),
    }
    return {name: version for name, version in known.items() if version}


def _nginx() -> str | None:
    try:
        binary = nginx_binary()
    except FileNotFoundError:
        return None
    said = subprocess.run([binary, "-v"], capture_output=True, check=True).stderr.decode()
    return said.strip().rpartition("/")[2]


def _litellm() -> str | None:
    python = LITELLM.with_name("python")
    if not LITELLM.exists():
        return None
    ask = (
        "import platform, importlib.metadata as m;"
        "print(m.version('litellm'), 'on CPython', platform.python_version())"
    )
    said = subprocess.run([python, "-c", ask], capture_output=True, check=True)
    return said.stdout.decode().strip()


def _portkey() -> str | None:
    about = PORTKEY / "package.json"
    return str(json.loads(about.read_text())["version"]) if about.exists() else None


STANDS: dict[str, Stand] = {
    "litellm": litellm,
    "litellm-rust": partial(litellm, native=True),
    "portkey": portkey,
}
HINTS = {
    "nginx": "make peers, or Debian: apt-get install nginx",
    "compiled": "make compiled",
    **{name: one.hint for name, one in gateways.GATEWAYS.items()},
    "litellm": "make peers",
    "litellm-rust": "make peers",
    "portkey": "make peers, with node and npm",
}
