"""PostgreSQL stops, freezes, cuts connections: agents are served, nothing is lost or made up."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.postgres import Server
from tests.proxy.test_api import Service, serving
from tests.proxy.test_storage_faults import ready, slowest_of, wait_until_ready

CALLS = 10


@contextlib.contextmanager
def stopped(server: Server) -> Iterator[None]:
    server.stop()
    yield
    server.start()


@contextlib.contextmanager
def killed(server: Server) -> Iterator[None]:
    server.kill()
    yield
    server.start()


@contextlib.contextmanager
def frozen(server: Server) -> Iterator[None]:
    """It accepts what is sent and never answers, as a server behind a broken network."""
    server.freeze()
    try:
        yield
    finally:
        server.thaw()


FAULTS: dict[str, Callable[[Server], AbstractContextManager[None]]] = {
    "stopped": stopped, "killed": killed, "frozen": frozen,
}  # fmt: skip


@pytest.fixture
def service(tmp_path: Path, postgres_url: str) -> Iterator[Service]:
    settings = {"DATABASE_URL": postgres_url, "SPILL_DIR": str(tmp_path / "kept")}
    with serving(tmp_path, **settings) as running_service:
        yield running_service


@pytest.mark.parametrize("fault", FAULTS)
def test_agents_are_served_and_nothing_is_lost(
    service: Service, postgres_server: Server, tmp_path: Path, fault: str
) -> None:
    assert service.call("before").status_code == 200
    with FAULTS[fault](postgres_server):
        assert service.call("during").status_code == 200  # the one that finds out
        slowest_of(CALLS, service, "during")
        assert service.call("before").status_code == 200
        assert service.http.get("/healthz").status_code == 200
        told = ready(service)
        assert (told["status"], told["recorder"], told["gaps"]) == ("not_ready", False, 0)
        assert told["waiting"] >= CALLS + 2
        assert list((tmp_path / "kept").glob("*.spill"))
    wait_until_ready(service, 20)
    verdict = service.get("/rollouts/during/verdict")
    assert (verdict["health"], verdict["total_requests"]) == ("healthy", CALLS + 1)
    assert service.get("/rollouts/before/verdict")["total_requests"] == 2
    assert not list((tmp_path / "kept").glob("*.spill"))


def test_a_rollout_touched_meanwhile_is_undecided(
    service: Service, postgres_server: Server
) -> None:
    service.call("before")
    with stopped(postgres_server):
        service.call("before")
        service.call("during")
        healths = {service.get(f"/rollouts/{r}/verdict")["health"] for r in ("before", "during")}
        assert healths == {"undecided"}
        untouched = service.http.get("/rollouts/other/verdict")
        assert untouched.status_code == 503


def test_connections_that_were_cut_cost_no_call(
    service: Service, postgres_server: Server, postgres_url: str
) -> None:
    service.call("r")
    name = postgres_url.rpartition("@/")[2].partition("?")[0]
    with postgres_server.connect() as operator:
        for expected in range(2, 6):
            cut = operator.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = %s",
                (name,),
            ).fetchone()
            assert cut is not None
            assert cut[0] >= 1
            assert service.call("r").status_code == 200
            assert ready(service)["gaps"] == 0
            verdict = service.get("/rollouts/r/verdict")
            assert (verdict["health"], verdict["total_requests"]) == ("healthy", expected)


def test_a_commit_cut_in_the_middle_is_written_whole(
    service: Service, postgres_server: Server, postgres_url: str
) -> None:
    """The recorder's statement waits for a lock; its connection is killed there."""
    service.call("r")
    name = postgres_url.rpartition("@/")[2].partition("?")[0]
    with postgres_server.connect(name) as other, postgres_server.connect() as operator:
        with other.transaction():
            other.execute("LOCK TABLE open_calls IN ACCESS EXCLUSIVE MODE")
            answer = _in_background(lambda: service.call("r").status_code)
            _until(lambda: _cut_waiting(operator, name) > 0)
        assert answer() == 200
    wait_until_ready(service)
    verdict = service.get("/rollouts/r/verdict")
    assert (verdict["health"], verdict["total_requests"]) == ("healthy", 2)


def _in_background(work: Callable[[], int]) -> Callable[[], int]:
    """Begin something; what is returned waits for its answer."""
    answers: list[int] = []
    thread = threading.Thread(target=lambda: answers.append(work()))
    thread.start()

    def answer() -> int:
        thread.join(10)
        return answers[0]

    return answer


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def _cut_waiting(operator: psycopg.Connection[tuple[Any, ...]], name: str) -> int:
    row = operator.execute(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE datname = %s AND wait_event_type = 'Lock'",
        (name,),
    ).fetchone()
    return int(row[0]) if row else 0
