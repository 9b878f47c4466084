"""What an agent saw finished is known after any death, and what was in flight is found lost."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from benchmarks import kill
from tests import forked
from tests.fakes import answers
from tests.fakes.provider import Hang, Provider, Wait, closed_port
from tests.journeys.service import Service

CHAT = "/v1/chat/completions"
PATIENCE_S = 300.0
ASK = {
    "model": "gpt-5",
    "messages": [{"role": "user", "content": "hi"}],
    "stream": True,
    "stream_options": {"include_usage": True},
}


class Agent(threading.Thread):
    """One call under way; ``heard`` once its head is here, ``whole`` when its last byte was."""

    def __init__(self, service: Service, rollout: str) -> None:
        super().__init__(daemon=True)
        self._url = service.base(rollout, "openai") + CHAT
        self.heard = threading.Event()
        self.whole = False
        self.start()

    def run(self) -> None:
        with (
            contextlib.suppress(httpx.TransportError),
            httpx.stream("POST", self._url, json=ASK, timeout=PATIENCE_S) as answer,
        ):
            self.heard.set()
            for _ in answer.iter_raw():
                pass
            self.whole = True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rounds", "workers", "services", "on"),
    [
        (1, 1, 1, None),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((3, 1, 1, None), (2, 2, 1, None), (2, 1, 2, None), (2, 2, 1, "postgresql"))
        ),
    ],
)
@pytest.mark.postgres_smoke
def test_killed_at_random_under_load_it_forgets_nothing(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    rounds: int,
    workers: int,
    services: int,
    on: str | None,
) -> None:
    """``python -m benchmarks.kill`` does so 200 times; figures: measurements/reliability.md."""
    url = on and request.getfixturevalue("postgres_url")
    tally = kill.run(tmp_path, rounds, url=url, workers=workers, services=services)
    assert tally.broken == []
    assert tally.finished > 0
    assert tally.undecided > 0


def shaped(shape: str) -> dict[str, str]:
    """The settings that a service of these processes takes."""
    if shape == "a control process":
        return {"CONTROL_PROCESS": "true", "CONTROL_PORT": str(closed_port()), "WORKERS": "1"}
    return {"WORKERS": "2" if shape == "workers" else "1"}


def children(pid: int) -> list[int]:
    """The processes that serve for this one, which are no zombies."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in found if forked.serves(Path("/proc") / each)]


def wait_until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_until_deaf(service: Service) -> None:
    """Return once a service that was told to stop takes no further connection."""
    port = int(service.url.rpartition(":")[2])
    deadline = time.monotonic() + PATIENCE_S
    with contextlib.suppress(ConnectionRefusedError):
        while True:
            socket.create_connection(("127.0.0.1", port), PATIENCE_S).close()
            assert time.monotonic() < deadline, "it goes on taking calls"
            time.sleep(0.02)


@pytest.mark.parametrize(
    ("how", "shape"),
    [
        (signal.SIGTERM, "one process"),
        (signal.SIGHUP, "one process"),
        (signal.SIGINT, "workers"),
        pytest.param(signal.SIGHUP, "workers", marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, "a control process", marks=pytest.mark.slow),
    ],
)
def test_told_to_stop_it_lets_a_call_end_and_exits_with_0(
    provider: Provider, tmp_path: Path, how: signal.Signals, shape: str
) -> None:
    """The signal goes to every process of the service, as a terminal or systemd sends it."""
    stopping = threading.Event()
    provider.plays(answers.chat_stream().stopping_after(1, Wait(stopping)))
    with Service(tmp_path, provider.url, **shaped(shape)) as service:
        agent = Agent(service, "r")
        assert agent.heard.wait(PATIENCE_S)
        workers = children(service.pid)
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)
        service.send(how)
        if shape == "one process":
            wait_until_deaf(service)
        else:
            wait_until(lambda: len(children(service.pid)) < len(workers))  # an idle one is gone
        stopping.set()
        assert service.wait() == 0
        agent.join(PATIENCE_S)
        assert agent.whole
        with contextlib.closing(sqlite3.connect(service.database)) as kept:
            recorded = kept.execute("SELECT rollout_id, ending, usage_source FROM exchanges")
            assert recorded.fetchall() == [("r", "complete", "provider")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("by", "shape"),
    [
        ("a second signal", "one process"),
        ("a second signal", "workers"),
        ("the end of the grace", "one process"),
    ],
)
def test_a_call_that_does_not_end_is_cut_and_recorded_as_lost(
    provider: Provider, tmp_path: Path, by: str, shape: str
) -> None:
    provider.plays(answers.chat_stream().stopping_after(1, Hang()))
    grace = "600" if by == "a second signal" else "1"
    with Service(tmp_path, provider.url, GRACE_S=grace, **shaped(shape)) as service:
        agent = Agent(service, "r")
        assert agent.heard.wait(PATIENCE_S)
        workers = children(service.pid)
        service.send(signal.SIGTERM)
        if by == "a second signal":
            if shape == "one process":
                wait_until_deaf(service)
            else:
                wait_until(lambda: len(children(service.pid)) < len(workers))
            service.send(signal.SIGTERM)
        assert service.wait(PATIENCE_S) == 0
        agent.join(PATIENCE_S)
        assert not agent.whole
        service.start()
        (exchange,) = service.exchanges("r")
        assert exchange["ending"] == "lost"
        assert service.verdict("r")["health"] == "undecided"


@pytest.mark.slow
def test_what_it_could_not_write_survives_a_kill(provider: Provider, tmp_path: Path) -> None:
    with Service(tmp_path, provider.url) as service:
        with contextlib.closing(sqlite3.connect(service.database, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            for _ in range(5):
                assert httpx.post(service.base("done", "openai") + CHAT, json=ASK).is_success
            provider.plays(answers.chat_stream().stopping_after(1, Hang()))
            assert Agent(service, "under-way").heard.wait(PATIENCE_S)
            service.kill()
        service.start()
        assert [each["ending"] for each in service.exchanges("done")] == ["complete"] * 5
        assert service.verdict("done")["health"] == "healthy"
        assert [each["ending"] for each in service.exchanges("under-way")] == ["lost"]
        assert service.verdict("under-way")["health"] == "undecided"
    assert not list(tmp_path.glob("*.spill"))


@pytest.mark.slow
def test_a_neighbour_on_the_same_file_finds_what_a_killed_process_had_open(
    provider: Provider, tmp_path: Path
) -> None:
    with Service(tmp_path, provider.url) as one, Service(tmp_path, provider.url) as other:
        for service in (one, other):
            assert httpx.post(service.base("both", "openai") + CHAT, json=ASK).is_success
        assert other.verdict("both")["total_requests"] == 2
        provider.plays(answers.chat_stream().stopping_after(1, Hang()))
        assert Agent(one, "r").heard.wait(PATIENCE_S)
        one.kill()
        deadline = time.monotonic() + PATIENCE_S
        while other.exchanges("r")[0]["ending"] is None and time.monotonic() < deadline:
            time.sleep(0.2)
        assert other.exchanges("r")[0]["ending"] == "lost"
        assert other.verdict("r")["health"] == "undecided"
        one.start()
