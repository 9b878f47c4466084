"""The compose profile `cluster` on loopback: nginx, three services, PostgreSQL, all Debian's.

``python -m tests.cluster`` starts it to be looked at. It reads nginx's configuration from
deploy/, renders nothing of its own into it but addresses, and judges nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import httpx

from tests.fakes import answers
from tests.fakes.provider import Provider, closed_port
from tests.journeys.service import ROOT, Service
from tests.postgres import Server, binaries

TEMPLATE = ROOT / "deploy" / "nginx" / "truezero.conf.template"
TOKEN = "cluster-token"
REPLICAS = 3

# What nginx's own image puts around a file in conf.d, and folders that need no root.
_AROUND = """
daemon off; pid {home}/pid; error_log {home}/error.log notice; worker_processes 2;
worker_shutdown_timeout 5s;
events {{ worker_connections 4096; }}
http {{
  client_body_temp_path {home}/body; proxy_temp_path {home}/proxy;
  fastcgi_temp_path {home}/fastcgi; uwsgi_temp_path {home}/uwsgi; scgi_temp_path {home}/scgi;
  include {home}/truezero.conf;
}}
"""


def nginx_binary() -> str | None:
    """Where nginx is; None where it is not."""
    return shutil.which("nginx") or shutil.which("/usr/sbin/nginx")


class Gateway:
    """nginx with the project's configuration, in front of services on loopback ports."""

    def __init__(self, ports: list[int]) -> None:
        self._home = home = Path(tempfile.mkdtemp(prefix="truezero-nginx-"))
        home.chmod(0o777)  # started by root, its workers are somebody else
        self.port = closed_port()
        self._process: subprocess.Popen[bytes] | None = None
        replicas = " ".join(
            f"server 127.0.0.1:{port} max_fails=5 fail_timeout=1s;" for port in ports
        )
        rendered = rendered_template(LISTEN=f"127.0.0.1:{self.port}", REPLICAS=replicas)
        (home / "truezero.conf").write_text(rendered)
        (home / "nginx.conf").write_text(_AROUND.format(home=home))

    def __enter__(self) -> Self:
        binary = nginx_binary()
        assert binary is not None, "nginx is not installed here (Debian: apt-get install nginx)"
        self._process = subprocess.Popen(
            [binary, "-p", self._home, "-c", "nginx.conf", "-e", self._home / "error.log"],
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 300
        while not _listens(self.port):
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, "nginx does not answer"
            time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(300)
        shutil.rmtree(self._home, ignore_errors=True)

    def log(self) -> str:
        return (self._home / "error.log").read_text(errors="replace")


class Cluster:
    """Three services behind nginx on one PostgreSQL; the admin token is ``TOKEN``.

    ``settings`` are further ``TRUEZERO_`` variables of the services, without that prefix.
    """

    def __init__(self, home: Path, provider_url: str, server: Server, **settings: str) -> None:
        self._stack = ExitStack()
        self.server = server
        self.database = url = self._stack.enter_context(server.database(prepared=False))
        shared = {"DATABASE_URL": url, "ADMIN_TOKEN": TOKEN, "LOG_LEVEL": "warning", **settings}
        self.services: list[Service] = []
        ports = [closed_port() for _ in range(REPLICAS)]
        for number, port in enumerate(ports, start=1):
            folder = home / f"replica-{number}"
            folder.mkdir()
            service = Service(folder, provider_url, **shared, PORT=str(port))
            service.http.headers["authorization"] = f"Bearer {TOKEN}"
            self.services.append(service)
        self.gateway = Gateway(ports)
        self.url = f"http://127.0.0.1:{self.gateway.port}"
        self.http = httpx.Client(
            base_url=self.url, timeout=300, headers={"authorization": f"Bearer {TOKEN}"}
        )

    def __enter__(self) -> Self:
        self.server.settle()  # another test may have started it anew just now
        with self._stack:
            starting = [threading.Thread(target=service.start) for service in self.services]
            for thread in starting:  # all of them at once, as compose starts them
                thread.start()
            for thread in starting:
                thread.join()
            for service in self.services:
                self._stack.callback(service.stop)
            self._stack.enter_context(self.gateway)
            self._stack.callback(self.http.close)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def register(self, **asked: object) -> dict[str, Any]:
        """Announce a rollout, through nginx."""
        answer = self.http.post("/rollouts", json=asked)
        assert answer.is_success, answer.text
        found = answer.json()
        assert isinstance(found, dict)
        return found

    def ready(self) -> bool:
        """Whether each service has a database and owes it nothing."""
        with contextlib.suppress(httpx.TransportError):
            return all(service.http.get("/readyz").is_success for service in self.services)
        return False

    def wait_until_ready(self, timeout_s: float = 30) -> float:
        """Return after how many seconds each service was ready, or fail."""
        began = time.monotonic()
        while not self.ready():
            assert time.monotonic() - began < timeout_s, "the services do not become ready"
            time.sleep(0.05)
        return time.monotonic() - began


def rendered_template(**values: str) -> str:
    """nginx's configuration with its variables set, as its image's entry point sets them."""
    text = TEMPLATE.read_text()
    for name, value in values.items():
        text = text.replace(f"${{TRUEZERO_{name}}}", value)
    return text


@contextlib.contextmanager
def running(provider_url: str, **settings: str) -> Iterator[Cluster]:
    """A cluster and a PostgreSQL server of its own, in a folder that goes."""
    programs = binaries()
    assert programs is not None, "PostgreSQL is not installed here"
    server = Server(programs)
    try:
        server.create()
        with ExitStack() as stack:
            home = stack.enter_context(tempfile.TemporaryDirectory(prefix="truezero-cluster-"))
            yield stack.enter_context(Cluster(Path(home), provider_url, server, **settings))
    finally:
        server.destroy()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    stopped = threading.Event()
    for how in (signal.SIGINT, signal.SIGTERM):
        signal.signal(how, lambda *_: stopped.set())
    with Provider(answers.healthy) as provider, running(provider.url) as cluster:
        lines = [f"nginx on {cluster.url}, admin token {TOKEN}, OpenAI is {provider.url}"]
        lines += [f"  {service.url}  pid {service.pid}" for service in cluster.services]
        print(*lines, "Ctrl-C ends it", sep="\n", flush=True)  # noqa: T201
        stopped.wait()


if __name__ == "__main__":
    main()
