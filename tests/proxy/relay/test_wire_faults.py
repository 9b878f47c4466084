"""What becomes of a call when the wire fails, on either side.

``python -m tests.proxy.relay.test_wire_faults`` writes it into docs/measurements/reliability.md.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from classifier.records import Ending
from proxy.relay.context import CallLimits
from tests.fakes import answers, caller
from tests.fakes.certificates import Authority
from tests.fakes.provider import Answer, Cut, Hang, Pause, Provider, Script, closed_port
from tests.fakes.relaying import relaying
from tests.proxy.api.test_routes import Service, serving

ROOT = Path(__file__).parents[3]
DOC = Path(__file__).parent.parent.parent.parent / "docs" / "measurements" / "reliability.md"
CHAT = "/v1/chat/completions"
PLAIN = b'{"model":"gpt-5","messages":[]}'
STREAM = b'{"model":"gpt-5","stream":true,"stream_options":{"include_usage":true},"messages":[]}'
PATIENCE_S = 300
# Of a hasty service: its timeouts, of which that of reading is unlimited by default. Three seconds,
# so that a machine that is busy elsewhere is not taken for a silent provider.
SILENCE_S = "3"

told = answers.chat_stream()
whole = answers.chat()


@dataclass(frozen=True)
class Seen:
    """What an agent saw of one call; ``status`` None: no head."""

    status: int | None
    code: str | None = None  # why the service itself refused
    body: bytes = b""
    cut: bool = False

    def __str__(self) -> str:
        if self.status is None:
            return "its connection closed"
        named = f"{self.status} `{self.code}`" if self.code else str(self.status)
        return named + (", cut where the provider's was" if self.cut else "")


Agent = Callable[[Service, str], str]
LEFT = "what had come by then"


def asking(body: bytes, upstream: str = "openai") -> Agent:
    """An agent that asks and listens to the end."""

    def agent(service: Service, rollout: str) -> str:
        url = f"/r/{rollout}/{upstream}{CHAT}"
        seen = Seen(None)
        with (
            contextlib.suppress(httpx.RemoteProtocolError),
            service.http.stream("POST", url, content=body, timeout=PATIENCE_S) as answer,
        ):
            code = answer.headers.get("x-truezero-refusal")
            seen = Seen(answer.status_code, code, cut=True)
            for _ in answer.iter_raw():
                pass
            seen = Seen(answer.status_code, code)
        return str(seen)

    return agent


def leaving(body: bytes, *, after: bytes = b"", reset: bool = False, upload: int = 0) -> Agent:
    """An agent that hangs up: while uploading, before the head, or after some bytes."""

    def agent(service: Service, rollout: str) -> str:
        head = _head(rollout, b"Content-Length: %d" % (len(body) + upload))
        with _connected(service) as connection:
            connection.sendall(head + body)
            if not upload:
                service.provider.wait_for(1)
            got = b""
            while after not in got:
                got += connection.recv(65536)
            _wait_for(service, rollout, lambda found: found["ending"] is None)
            if reset:
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        if not upload:
            service.provider.wait_until_left()
        return LEFT

    return agent


def draining(service: Service, rollout: str) -> str:
    """An agent that leaves in the middle of a stream that goes on."""
    with _connected(service) as connection:
        connection.sendall(_head(rollout, b"Content-Length: %d" % len(STREAM)) + STREAM)
        got = b""
        while b"data:" not in got:
            got += connection.recv(65536)
    _wait_for(service, rollout, lambda found: found["ending"] is not None)
    return LEFT


def raw(*lines: bytes, body: bytes = b"", path: bytes | None = None) -> Agent:
    """An agent that writes its own HTTP."""

    def agent(service: Service, rollout: str) -> str:
        with _connected(service) as connection:
            connection.sendall(_head(rollout, *lines, path=path) + body)
            connection.settimeout(PATIENCE_S)
            got = b""
            with contextlib.suppress(TimeoutError, ConnectionError):
                while chunk := connection.recv(65536):
                    got += chunk
        statuses = re.findall(rb"HTTP/1\.1 (\d+) ", got)
        return ", ".join(status.decode() for status in statuses) or "its connection closed"

    return agent


def _head(rollout: str, *lines: bytes, path: bytes | None = None) -> bytes:
    target = path or b"/r/%b/openai%b" % (rollout.encode(), CHAT.encode())
    target = target.replace(b"ROLLOUT", rollout.encode())
    return b"\r\n".join((b"POST %b HTTP/1.1" % target, b"Host: x", *lines, b"", b""))


def _connected(service: Service) -> socket.socket:
    url = service.http.base_url
    return socket.create_connection((url.host, url.port or 80), PATIENCE_S)


def _wait_for(service: Service, rollout: str, met: Callable[[dict[str, Any]], bool]) -> None:
    def so_far() -> bool:
        found = service.http.get(f"/rollouts/{rollout}/exchanges")
        return found.is_success and bool(found.json()["items"]) and met(found.json()["items"][-1])

    _until(so_far, rollout)


def _until(so_far: Callable[[], bool], rollout: str) -> None:
    """Ask ever less often: some rows take seconds, and to ask is dear."""
    deadline, wait_s = time.monotonic() + PATIENCE_S, 0.01
    while not so_far():
        assert time.monotonic() < deadline, f"{rollout} does not come so far"
        time.sleep(wait_s)
        wait_s = min(2 * wait_s, 0.5)


def pipelined(service: Service, rollout: str) -> str:
    """Two requests at once, the second before the first is answered."""
    one = _head(rollout, b"Content-Length: %d" % len(PLAIN)) + PLAIN
    last = _head(rollout, b"Content-Length: %d" % len(PLAIN), b"Connection: close") + PLAIN
    with _connected(service) as connection:
        connection.sendall(one + last)
        got = b""
        while chunk := connection.recv(65536):
            got += chunk
    return ", ".join(status.decode() for status in re.findall(rb"HTTP/1\.1 (\d+) ", got))


def head_of(*lines: bytes, status: bytes = b"200 OK") -> bytes:
    return b"\r\n".join((b"HTTP/1.1 " + status, *lines, b"", b""))


@dataclass(frozen=True)
class Row:
    """One fault: what the wire does, and what then has to hold.

    ``recorded``: endings and subcategories of the exchanges, and who counted the tokens where
    that says something. ``asked``: requests that the provider saw. ``by``: the service that
    meets it, one of SERVICES.
    """

    fault: str
    agent: Agent
    seen: str
    recorded: str
    verdict: str
    script: Script | None = None
    asked: int = 1
    by: str = "patient"


def _bomb(megabytes: int) -> bytes:
    """So many megabytes of zeros, packed by gzip."""
    zeros = bytes(1_000_000)
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    packed = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)  # stands by itself
    check = 0
    for _ in range(megabytes):
        check = zlib.crc32(zeros, check)
    end = struct.pack("<II", check, megabytes * len(zeros))
    return b"\x1f\x8b\x08\0\0\0\0\0\x02\xff" + packed * megabytes + packer.flush() + end


BOMB = _bomb(40)  # over twice what is read of a body
LENGTH = b"content-length: %d" % len(whole.content)
SLOWLY = Answer(
    body=(
        *(step for at in range(15) for step in (Pause(0.25), whole.content[at : at + 1])),
        whole.content[15:],
    )
)
TWICE = b'{"a":1}POST /r/smuggled/openai/v1/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n'
TO_ELSEWHERE = b"http://elsewhere.example/r/ROLLOUT/openai" + CHAT.encode()

UNREACHABLE, DISCONNECTED = "502 `upstream_unreachable`", "502 `upstream_disconnected`"
TIMEOUT = "504 `upstream_timeout`"
CUT = "200, cut where the provider's was"
FAILED = "api_error: provider_error"
FINE = "complete, tokens by provider"

# fmt: off
ROWS = (
    Row("the upstream refuses the connection", asking(PLAIN, "refusing"),
        UNREACHABLE, "never_connected: provider_error", FAILED, asked=0),
    Row("the upstream's name does not resolve", asking(PLAIN, "nameless"),
        UNREACHABLE, "never_connected: provider_error", FAILED, asked=0),
    Row("the upstream speaks no TLS", asking(PLAIN, "tls"),
        UNREACHABLE, "never_connected: provider_error", FAILED, asked=0, by="hasty"),
    Row("nobody known signed the upstream's certificate", asking(PLAIN, "self-signed"),
        UNREACHABLE, "never_connected: provider_error", FAILED, asked=0),
    Row("its certificate has expired", asking(PLAIN, "expired"),
        UNREACHABLE, "never_connected: provider_error", FAILED, asked=0),
    Row("its certificate is another host's", asking(PLAIN, "elsewhere"),
        UNREACHABLE, "never_connected: provider_error", FAILED, asked=0),

    Row("it resets before it answers", asking(PLAIN),
        DISCONNECTED, "cut_upstream: provider_error", FAILED, (Cut(reset=True),)),
    Row("it closes before it answers", asking(PLAIN),
        DISCONNECTED, "cut_upstream: provider_error", FAILED, (Cut(),)),
    Row("it resets inside the head", asking(PLAIN),
        DISCONNECTED, "cut_upstream: provider_error", FAILED,
        (b"HTTP/1.1 200 OK\r\ncontent-le", Pause(0.05), Cut(reset=True))),
    Row("it resets behind the head", asking(PLAIN),
        CUT, "cut_upstream: provider_error", FAILED,
        (head_of(LENGTH), Pause(0.05), Cut(reset=True))),
    Row("it resets one byte before the end of a body", asking(PLAIN),
        CUT, "cut_upstream: provider_error", FAILED,
        (head_of(LENGTH) + whole.content[:-1], Pause(0.05), Cut(reset=True))),
    Row("it resets in the middle of a stream", asking(STREAM),
        CUT, "cut_upstream: provider_error", FAILED,
        told.stopping_after(2, Pause(0.05), Cut(reset=True))),
    Row("it resets behind a stream's terminal event", asking(STREAM),
        CUT, FINE, "healthy",
        told.stopping_after(len(told.body), Pause(0.05), Cut(reset=True))),

    Row("it hangs before it answers", asking(PLAIN),
        TIMEOUT, "timed_out: provider_error", FAILED, (Hang(),), by="hasty"),
    Row("it hangs inside the head", asking(PLAIN),
        TIMEOUT, "timed_out: provider_error", FAILED, (b"HTTP/1.1 200 OK\r\ncont", Hang()),
        by="hasty"),
    Row("it hangs behind the head", asking(PLAIN),
        CUT, "timed_out: provider_error", FAILED, (head_of(LENGTH), Hang()), by="hasty"),
    Row("it hangs in the middle of a stream", asking(STREAM),
        CUT, "timed_out: provider_error", FAILED, told.stopping_after(2, Hang()), by="hasty"),
    Row("it sends a byte, and a byte, and a byte", asking(PLAIN),
        "200", FINE, "healthy", SLOWLY, by="hasty"),

    Row("its body is shorter than its content-length", asking(PLAIN),
        CUT, "cut_upstream: provider_error, tokens by provider", FAILED,
        (head_of(b"content-length: 5000") + whole.content, Pause(0.05), Cut())),
    Row("its body is longer than its content-length", asking(PLAIN),
        "200", FINE, "healthy", (head_of(LENGTH) + whole.content + b"and more", Cut())),
    Row("it states two content-lengths", asking(PLAIN),
        DISCONNECTED, "cut_upstream: provider_error", FAILED,
        (head_of(b"content-length: 2", b"content-length: 3") + b"{}", Cut())),
    Row("it states chunks and a content-length", asking(PLAIN), "200", FINE, "healthy",
        (head_of(b"content-length: 9999", b"transfer-encoding: chunked"),
         b"%x\r\n%b\r\n0\r\n\r\n" % (len(whole.content), whole.content), Cut())),
    Row("it states one content-length twice", asking(PLAIN), "200", FINE, "healthy",
        (head_of(LENGTH, LENGTH) + whole.content, Cut())),
    Row("its chunks are no chunks", asking(PLAIN),
        CUT, "cut_upstream: provider_error", FAILED,
        (head_of(b"transfer-encoding: chunked") + b"zz\r\n", Cut())),
    Row("its body inflates a thousand times", asking(PLAIN),
        "200", "complete", "undecided",
        Answer(headers=(*answers.JSON, ("content-encoding", "gzip")), body=(BOMB,))),
    Row("its stream inflates a thousand times", asking(b'{"model":"gpt-5","stream":true}'),
        "200", "complete", "undecided",
        Answer(headers=(*answers.SSE, ("content-encoding", "gzip")), body=(BOMB,))),
    Row("its head never ends", asking(PLAIN),
        DISCONNECTED, "cut_upstream: provider_error", FAILED,
        (b"HTTP/1.1 200 OK\r\nx-a: " + b"a" * 5_000_000, Hang())),
    Row("it speaks no HTTP", asking(PLAIN),
        DISCONNECTED, "cut_upstream: provider_error", FAILED,
        (b"\x00\xff\xfenot http at all\r\n\r\n", Hang())),

    Row("the agent leaves while it uploads", leaving(PLAIN, upload=90),
        LEFT, "left_by_agent", "undecided", (Hang(),), asked=0),
    Row("the agent leaves before the head", leaving(PLAIN),
        LEFT, "left_by_agent", "undecided", (Hang(),)),
    Row("the agent leaves behind the head", leaving(PLAIN, after=b"\r\n\r\n"),
        LEFT, "left_by_agent", "undecided", (head_of(LENGTH), Hang())),
    Row("the agent leaves in the middle of a stream", leaving(STREAM, after=b"data:"),
        LEFT, "left_by_agent", "healthy", told.stopping_after(2, Hang())),
    Row("the agent resets in the middle of a stream", leaving(STREAM, after=b"data:", reset=True),
        LEFT, "left_by_agent", "healthy", told.stopping_after(2, Hang())),
    Row("the agent leaves in the middle, and the answer is drained", draining,
        LEFT, "left_by_agent, tokens by provider", "healthy",
        told.stopping_after(1, Pause(0.3)), by="hasty"),
    Row("the agent leaves in the middle, and draining finds silence", draining,
        LEFT, "left_by_agent", "undecided", told.stopping_after(1, Hang()), by="hasty"),

    Row("the agent pipelines", pipelined,
        "200, 200", f"{FINE}; {FINE}", "healthy", whole, asked=2),
    Row("the agent states a content-length and chunks (CL.TE)",
        raw(b"Content-Length: 6", b"Transfer-Encoding: chunked", body=b"0\r\n\r\nG"),
        "400", "nothing", "unknown", asked=0),
    Row("the agent states chunks and a content-length (TE.CL)",
        raw(b"Transfer-Encoding: chunked", b"Content-Length: 3", body=b"1\r\n{\r\n0\r\n\r\n"),
        "400", "nothing", "unknown", asked=0),
    Row("the agent hides the coding (`Transfer-Encoding: xchunked`)",
        raw(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n"),
        "400", "left_by_agent", "undecided", asked=0),
    Row("the agent states two content-lengths",
        raw(b"Content-Length: 7", b"Content-Length: 80", body=TWICE),
        "400", "nothing", "unknown", asked=0),
    Row("the agent states a content-length that is no number",
        raw(b"Content-Length: 7,7", body=TWICE),
        "400", "nothing", "unknown", asked=0),
    Row("the agent ends a header's line in LF alone", raw(b"X-A: b\nContent-Length: 7", body=TWICE),
        "400", "nothing", "unknown", asked=0),
    Row("the agent names another origin (absolute form)",
        raw(b"Content-Length: 7", b"Connection: close", body=b'{"a":1}', path=TO_ELSEWHERE),
        "200", FINE, "healthy", whole),
    Row("the agent names another host",
        raw(b"Host: 169.254.169.254", b"X-Forwarded-Host: 169.254.169.254", b"Content-Length: 7",
            b"Connection: close", body=b'{"a":1}'),
        "200", FINE, "healthy", whole),
)
# fmt: on


def happened(service: Service, rollout: str, *, recorded: bool) -> tuple[str, str]:
    """What was recorded of a rollout, and its verdict; waits where something is to be recorded."""
    _wait_for_the_end(service, rollout, recorded=recorded)
    found = service.http.get(f"/rollouts/{rollout}/exchanges")
    if found.status_code == 404:
        return "nothing", "unknown"
    verdict = service.get(f"/rollouts/{rollout}/verdict")
    judged = ": ".join(filter(None, (verdict["health"], verdict["subcategory"])))
    return "; ".join(map(_told, found.json()["items"])), judged


def _told(exchange: dict[str, Any]) -> str:
    named = ": ".join(filter(None, (exchange["ending"], exchange["subcategory"])))
    source = exchange["usage_source"]
    return named if source in ("absent", "partial") else f"{named}, tokens by {source}"


def _wait_for_the_end(service: Service, rollout: str, *, recorded: bool) -> None:
    def ended() -> bool:
        found = service.http.get(f"/rollouts/{rollout}/exchanges")
        if not found.is_success:
            return not recorded
        return all(one["ending"] for one in found.json()["items"])

    _until(ended, rollout)


# Those that wait for ever meet nothing that should time out, however busy the machine is.
SERVICES: dict[str, dict[str, str]] = {
    "patient": {"CONNECT_TIMEOUT_S": str(PATIENCE_S)},
    "hasty": {
        "READ_TIMEOUT_S": SILENCE_S, "CONNECT_TIMEOUT_S": SILENCE_S, "DRAIN_ON_DISCONNECT": "true",
    },
}  # fmt: skip


@contextlib.contextmanager
def stage(*kinds: str) -> Iterator[dict[str, Service]]:
    """A service of each of these kinds, and upstreams that cannot be reached."""
    with ExitStack() as stack:
        plain = stack.enter_context(Provider()).url
        settings = {
            "UPSTREAM_REFUSING": f"http://127.0.0.1:{closed_port()}",
            "UPSTREAM_NAMELESS": "http://nowhere.invalid",
            "UPSTREAM_TLS": plain.replace("http:", "https:"),
            **_certified(stack),
        }
        services = {}
        for kind in kinds:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            services[kind] = stack.enter_context(serving(folder, **settings, **SERVICES[kind]))
        yield services


def _certified(stack: ExitStack) -> dict[str, str]:
    """Upstreams that speak TLS and answer, each with another certificate."""
    folders = (stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(2))
    trusted, unknown = (Authority(Path(folder)) for folder in folders)
    stack.enter_context(patch.dict(os.environ, SSL_CERT_FILE=str(trusted.file)))
    certificates = {
        "SOUND": trusted.serving("127.0.0.1"),
        "SELF_SIGNED": unknown.serving("127.0.0.1"),
        "EXPIRED": trusted.serving("127.0.0.1", days=-1),
        "ELSEWHERE": trusted.serving("127.0.0.2"),
    }
    return {
        f"UPSTREAM_{name}": stack.enter_context(Provider(whole, tls=certificate)).url
        for name, certificate in certificates.items()
    }


def play(row: Row, services: dict[str, Service], rollout: str) -> Row:
    """Let it happen: the row as it then should stand."""
    service = services[row.by]
    provider = service.provider
    provider.requests.clear()
    provider.left = 0
    provider.plays(row.script if row.script is not None else whole)
    seen = row.agent(service, rollout)
    recorded, verdict = happened(service, rollout, recorded=row.recorded != "nothing")
    asked = len(provider.requests)
    return replace(row, seen=seen, recorded=recorded, verdict=verdict, asked=asked)


@pytest.fixture(scope="module")
def services() -> Iterator[dict[str, Service]]:
    with stage(*SERVICES) as running:
        yield running


DEAR = (
    "it hangs inside the head", "it hangs behind the head", "it hangs in the middle of a stream",
    "it sends a byte, and a byte, and a byte", "its stream inflates a thousand times",
    "the agent leaves in the middle, and draining finds silence",
)  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=[pytest.mark.slow] * (row.fault in DEAR)) for row in ROWS],
    ids=lambda row: row.fault,
)
def test_what_becomes_of_the_call(row: Row, services: dict[str, Service]) -> None:
    rollout = f"fault-{ROWS.index(row)}"
    assert play(row, services, rollout) == row
    assert services[row.by].http.get("/rollouts/smuggled/verdict").status_code == 404


def test_a_certificate_that_proves_its_host_is_believed(services: dict[str, Service]) -> None:
    """So that the rows about certificates fail for what is wrong with each."""
    assert asking(PLAIN, "sound")(services["patient"], "certified") == "200"


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="takes Linux's /proc")
@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [120, 300])
def test_what_inflates_a_thousand_times_fits_in_little_memory(megabytes: int) -> None:
    """In a process of its own: what other tests left behind would be counted too.

    It rises by two buffers of 64 MiB, and by a third where the second is handed on late.
    """
    asked = f"from {__name__} import rises_mb; print(*rises_mb({megabytes}))"
    done = subprocess.run(
        [sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rises = dict(zip(INFLATING, map(float, done.stdout.split()), strict=True))
    assert {what: rise for what, rise in rises.items() if rise >= 240} == {}


INFLATING = ("its body inflates a thousand times", "its stream inflates a thousand times")


def rises_mb(megabytes: int) -> list[float]:
    """How far a process's peak of memory rises while so much is inflated: a process by row."""
    with get_context("fork").Pool(1, maxtasksperchild=1) as processes:
        asked = [(fault, megabytes) for fault in INFLATING]
        return processes.starmap(_rise_mb, asked, chunksize=1)


def _rise_mb(fault: str, megabytes: int) -> float:
    (row,) = (row for row in ROWS if row.fault == fault)
    assert isinstance(row.script, Answer)
    inflating = replace(row, script=replace(row.script, body=(_bomb(megabytes),)))
    with stage(row.by) as services:
        Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
        before = _peak_mb()
        assert play(inflating, services, "inflating") == inflating
        return _peak_mb() - before


def _peak_mb() -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1000


def test_a_stream_under_way_does_not_hold_its_request() -> None:
    body = b'{"model": "m", "stream": true, "messages": [{"content": "' + b"x" * 1_000_000 + b'"}]}'
    with (
        Provider(told.stopping_after(1, Hang())) as provider,
        relaying(provider.url, upstreams={"openai": {"include_usage": True}}) as relay,
        caller.Client() as agent,
        ExitStack() as streams,
    ):
        tracemalloc.start()
        try:
            for _ in range(6):
                answer = streams.enter_context(
                    agent.stream("POST", relay.base() + CHAT, content=body)
                )
                next(answer.iter_raw())
            taken = tracemalloc.take_snapshot()
        finally:
            tracemalloc.stop()
    ours = taken.filter_traces(
        [tracemalloc.Filter(False, "*/asyncio/streams.py")]
    )  # the provider's
    held = sum(trace.size for trace in ours.traces)
    assert held < 3 * len(body), f"six streams hold {held} bytes"


def test_draining_ends_when_its_time_is_over() -> None:
    silent, drain_s = told.stopping_after(1, Hang()), 0.5
    limits, began = CallLimits(drain_s=drain_s), time.monotonic()
    with Provider(silent) as provider, relaying(provider.url, limits=limits) as relay:
        with caller.stream("POST", relay.base() + CHAT, content=STREAM) as answer:
            next(answer.iter_raw())
        provider.wait_until_left()
        over = time.monotonic()
        exchange = relay.book.only
    assert exchange.ending is Ending.LEFT_BY_AGENT
    assert exchange.timing.duration_s is not None
    assert exchange.timing.duration_s <= over - drain_s - began, (
        "it ended for the agent when the agent left"
    )


def test_an_agent_that_had_the_terminal_event_left_nothing() -> None:
    late = told.stopping_after(len(told.body), Hang())
    with Provider(late) as provider, relaying(provider.url, limits=CallLimits(drain_s=60)) as relay:
        with caller.stream("POST", relay.base() + CHAT, content=STREAM) as answer:
            heard = b""
            for chunk in answer.iter_raw():
                heard += chunk
                if b"[DONE]" in heard:
                    break
        provider.wait_until_left()
        assert relay.book.only.ending is Ending.COMPLETE


def table() -> str:
    """Return the table of the page: faults with the same result share a line."""
    results: dict[tuple[str, str, str], list[str]] = {}
    for row in ROWS:
        results.setdefault((str(row.seen), row.recorded, row.verdict), []).append(row.fault)
    head = [
        "| the agent saw | recorded | verdict | faults (it: the upstream) |",
        "|---|---|---|---|",
    ]
    rows = [f"| {' | '.join(same)} | {'; '.join(faults)} |" for same, faults in results.items()]
    return "\n".join(head + rows)


def between() -> str:
    found = re.search("<!-- wire -->\n(.*?)\n<!-- /wire -->", DOC.read_text(), re.DOTALL)
    assert found is not None, f"{DOC.name} has no table of the wire's faults"
    return found[1]


def test_the_documents_table_is_this_one() -> None:
    assert between() == table(), "run python -m tests.proxy.relay.test_wire_faults"


if __name__ == "__main__":
    marked = "<!-- wire -->\n{}\n<!-- /wire -->"
    DOC.write_text(DOC.read_text().replace(marked.format(between()), marked.format(table())))
