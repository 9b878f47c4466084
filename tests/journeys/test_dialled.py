"""A service dials its upstreams, its webhook and its sinks, where they are set, and nobody else."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests import forked
from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Answer, Provider
from tests.features.alerts.test_webhook_settings import SECRET
from tests.journeys.dialled import dialled
from tests.journeys.service import Service
from tests.proxy.web.test_pages import PAGES
from tests.waiting import until

CHAT = "/v1/chat/completions"
TOKEN = "t0ken-of-the-operator"

WAYS = """
import asyncio, contextlib, socket, sys
from pathlib import Path
from tests.journeys.dialled import record
record(Path(sys.argv[1]))
import httpx, uvloop

async def by_the_loop(port):
    loop = asyncio.get_running_loop()
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()
    with socket.socket() as raw:
        raw.setblocking(False)
        await loop.sock_connect(raw, ("127.0.0.1", port))
    await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=("127.0.0.1", port))
    await loop.getaddrinfo("localhost", port)

port = int(sys.argv[2])
httpx.get(f"http://127.0.0.1:{port}/")
with socket.socket(type=socket.SOCK_DGRAM) as raw:
    raw.sendto(b"", ("127.0.0.1", port))
with contextlib.suppress(OSError):
    socket.gethostbyname("name.invalid")
uvloop.run(by_the_loop(port))
"""


class Recorded(Service):
    """A service in an interpreter of its own, which writes down whom it dials."""

    def start(self) -> None:
        words = ("-m", "tests.journeys.dialled", str(self.record), "serve", "--port", self.port)
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen(  # type: ignore[assignment]  # which it is used as
                [sys.executable, *words], cwd=self.home, env=self._environment(),
                stdout=log, stderr=log,
            )  # fmt: skip
        self._wait_until_alive()

    @property
    def record(self) -> Path:
        return self.home / "dialled"

    @property
    def port(self) -> str:
        return str(self._port)

    def load_pages(self) -> None:
        """Load every page of the dashboard, and what each names of ours."""
        named = set[str]()
        for path in (*PAGES, "/help", "/docs", "/help/llms.txt", "/openapi.json", "/metrics"):
            answer = self.http.get(path, follow_redirects=True)
            assert answer.is_success, path
            named |= set(re.findall(r'(?:src|href)="(/ui/static/[^"]+)"', answer.text))
        assert named
        for path in named:
            assert self.http.get(path).is_success


@pytest.mark.slow
def test_the_record_misses_no_way_to_dial(tmp_path: Path, provider: Provider) -> None:
    port = urlsplit(provider.url).port
    subprocess.run(
        [sys.executable, "-c", WAYS, str(tmp_path / "dialled"), str(port)],
        cwd=forked.ROOT, check=True,
    )  # fmt: skip
    here = ["127.0.0.1", port]
    assert {(what, str(whom)) for what, whom in dialled(tmp_path / "dialled")} >= {
        ("socket.connect", str(here)), ("socket.sendto", str(here)),
        ("socket.gethostbyname", "name.invalid"), ("create_connection", str(here)),
        ("sock_connect", str(here)), ("create_datagram_endpoint", str(here)),
        ("getaddrinfo", "localhost"),
    }  # fmt: skip


def addresses(record: Path) -> tuple[set[int], set[object]]:
    """The ports on loopback that were dialled, and whatever else was dialled or looked up."""
    ports, others = set[int](), set[object]()
    for _, whom in dialled(record):
        match whom:
            case ["127.0.0.1" | "localhost", int(port), *_] if port:
                ports.add(port)
            case "127.0.0.1" | "localhost":  # looked up
                pass
            case _:
                others.add(str(whom))
    return ports, others


@pytest.mark.slow
@pytest.mark.promise
def test_a_service_dials_what_is_set_and_nobody_else(tmp_path: Path) -> None:
    dead = answers.FAILURES[Api.CHAT][Fault.AUTH]
    with (
        Provider(answers.healthy) as provider,
        Provider(Answer()) as collector,
        Provider(Answer()) as receiver,
        Recorded(
            tmp_path, provider.url, ADMIN_TOKEN=TOKEN, KEY_OPENAI="sk-good", BREAKER_THRESHOLD="1",
            WEBHOOK_URL=receiver.url, WEBHOOK_SECRET=SECRET, OTLP_ENDPOINT=collector.url,
        ) as service,
    ):  # fmt: skip
        service.http.headers["authorization"] = f"Bearer {TOKEN}"
        for name, streams in (("whole", False), ("streamed", True), ("dead", False)):
            if name == "dead":
                provider.plays(dead)
            rollout = service.register(
                id=name, batch="b", task=name, model="gpt-5", upstream="openai",
                **({"policy": {"agents": "untrusted"}} if name == "whole" else {}),
            )  # fmt: skip
            ask(service, rollout, streams=streams)
            service.outcome(name, status="success", termination_reason="agent_stop")
            assert service.verdict(name, wait="settled")["rollout_id"] == name
        service.load_pages()
        service.http.get("/batches/b/card")
        receiver.wait_for(1)
        collector.wait_for(1)
        service.stop()
        ports, others = addresses(service.record)
        set_ones = {urlsplit(each.url).port for each in (provider, collector, receiver)}
    assert (ports, others) == (set_ones, set())


def ask(service: Service, rollout: dict[str, Any], *, streams: bool) -> None:
    base = rollout["base_urls"]["openai"].removesuffix("/v1")
    body = {"model": "gpt-5", "stream": streams, "messages": [{"role": "user", "content": "hi"}]}
    service.http.post(base + CHAT, json=body)


@pytest.mark.slow
@pytest.mark.promise
def test_a_service_that_nobody_calls_dials_nobody(tmp_path: Path) -> None:
    with Provider() as unasked, Recorded(tmp_path, unasked.url) as service:
        service.register(id="dead", batch="b", model="gpt-5", upstream="openai")
        service.outcome("dead", status="success", termination_reason="agent_stop")
        until(lambda: service.verdict("dead")["health"] != "undecided")
        service.load_pages()
        service.stop()
        assert addresses(service.record) == (set(), set())
        assert unasked.connections == 0
