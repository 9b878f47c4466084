"""The application: agents are served while the control plane is still being built."""
# ruff: noqa: SLF001
# Private: a look-up and an answer, without a call.

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy import control_plane
from proxy.app import (
    call_limits,
    control_auth,
    local_names,
    new_id,
    open_spill,
    rollout_access,
    spill_place,
    unattributed_calls,
)
from proxy.relay.admission import AccessUnknownError
from proxy.settings import load
from proxy.store.database import Database
from tests.proxy.api.test_routes import PATIENCE_S, Service, problem, serving


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A control plane that is made only once this is set."""
    real, free = control_plane.build, threading.Event()

    def build(*args: Any, **kwargs: Any) -> control_plane.ControlPlane:
        assert free.wait(PATIENCE_S)
        return real(*args, **kwargs)

    monkeypatch.setattr(control_plane, "build", build)
    yield free
    free.set()


def test_agents_are_served_while_the_control_plane_is_made(
    tmp_path: Path, held: threading.Event
) -> None:
    with serving(tmp_path) as service:
        for _ in range(3):
            assert service.call().status_code == 200
        held.set()
        assert service.get("/rollouts/r1/verdict")["total_requests"] == 3


def test_whoever_asks_too_early_waits(tmp_path: Path, held: threading.Event) -> None:
    paths = ["/readyz", "/healthz", "/rollouts", "/ui/rollouts"]
    with serving(tmp_path) as service, ThreadPoolExecutor(len(paths)) as threads:
        asked = [(path, threads.submit(service.http.get, path)) for path in paths]
        assert service.call().status_code == 200
        assert [path for path, one in asked if one.done()] == []
        held.set()
        answered = [(path, one.result(PATIENCE_S).status_code) for path, one in asked]
    assert answered == [(path, 200) for path in paths]


def test_a_stranger_is_refused_at_once(tmp_path: Path, held: threading.Event) -> None:
    with serving(tmp_path, ADMIN_TOKEN="t0ken") as service:
        problem(service.http.get("/rollouts"), 401, "unauthorized")
        assert not held.is_set()
        held.set()  # without which the service does not end


def test_where_registration_is_required_a_call_waits_until_it_can_be_looked_up(
    tmp_path: Path, held: threading.Event
) -> None:
    with (
        serving(tmp_path, REQUIRE_REGISTRATION="true") as service,
        ThreadPoolExecutor() as threads,
    ):
        asked = threads.submit(service.call)
        for _ in range(5):  # these come later, and are answered
            problem(service.http.post("/r/r1/nope/v1/x"), 404, "unknown_upstream")
        assert not asked.done()
        held.set()
        problem(asked.result(PATIENCE_S), 401, "unregistered_rollout")


def test_a_control_plane_that_cannot_be_made_is_not_ready_and_agents_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real, mended = control_plane.build, threading.Event()

    def build(*args: Any, **kwargs: Any) -> object:
        if not mended.is_set():
            raise OSError("too many open files")
        return real(*args, **kwargs)

    monkeypatch.setattr(control_plane, "build", build)
    with serving(tmp_path) as service:
        assert service.call().status_code == 200
        assert asked(service, "/readyz").status_code == 500
        mended.set()
        codes = [asked(service, "/readyz").status_code for _ in range(2)]
        assert codes[-1] == 200, "the first may have joined an attempt that was failing already"
    assert "cannot build the control plane" in caplog.text


def asked(service: Service, path: str) -> httpx.Response:
    return service.http.get(path)


@pytest.mark.parametrize(
    ("settings", "status", "code"),
    [({}, 404, "unknown_upstream"), ({"ADMIN_TOKEN": "t0ken"}, 400, "no_rollout")],
)
def test_a_client_at_the_services_own_address_is_told_the_path(
    tmp_path: Path, settings: dict[str, str], status: int, code: str
) -> None:
    with serving(tmp_path, **settings) as service:
        answer = service.http.post("/v1/chat/completions", json={"model": "m", "messages": []})
        problem(answer, status, code)
        assert " /r/{rollout}/openai/v1/chat/completions, " in answer.json()["detail"]


def test_every_refusal_is_counted_and_logged_by_its_code(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="truezero")
    with serving(tmp_path, REQUIRE_REGISTRATION="true") as service:
        assert service.app is not None
        for _ in range(3):
            problem(service.http.post("/openai/v1/x?k=s3cret"), 400, "no_rollout")
        problem(service.http.post("/r/s3cret/nowhere/v1/x"), 404, "unknown_upstream")
        problem(service.http.get("/rollouts/s3cret/verdict"), 404, "unknown_rollout")
        problem(service.http.get("/rollouts", headers={"host": "s3cret.example"}), 403,
                "unknown_host")  # fmt: skip
        with socket.create_connection(("127.0.0.1", service.http.base_url.port or 0)) as agent:
            agent.sendall(b"s3cret\r\n\r\n")
            assert agent.recv(65536).startswith(b"HTTP/1.1 400")
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"https://127.0.0.1:{service.http.base_url.port}/healthz", verify=False)
        refused = service.app.refused
        assert refused.unattributed is None
        assert refused.calls.counts == {
            "no_rollout": 3, "unknown_upstream": 1, "invalid_http": 1, "tls_spoken": 1,
        }  # fmt: skip
        assert refused.control.counts == {"unknown_rollout": 1, "unknown_host": 1}
    lines = [line for line in caplog.messages if line.startswith("refused ")]
    assert [line.rpartition(" ")[2] for line in lines] == [
        "no_rollout", "unknown_upstream", "unknown_rollout", "unknown_host", "invalid_http",
        "tls_spoken",
    ]  # fmt: skip
    assert "s3cret" not in caplog.text


# --- Parts of the service as its settings ask for them --------------------------------------------


def test_ids_sort_by_time() -> None:
    ids = [new_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert {len(each) for each in ids} == {24}
    assert [each[:13] for each in ids] == sorted(each[:13] for each in ids)


@pytest.mark.parametrize(("drains", "seconds"), [(True, 60.0), (False, 0.0)])
def test_a_response_is_read_on_only_where_that_is_asked_for(drains: bool, seconds: float) -> None:
    assert call_limits(load({"drain_on_disconnect": drains}, {})).drain_s == seconds


def test_limits_are_those_of_the_settings() -> None:
    limits = call_limits(
        load(
            {"connect_timeout_s": 1, "read_timeout_s": 2, "write_timeout_s": 3, "body_limit": 4}, {}
        )
    )
    assert (limits.connect_s, limits.read_s, limits.write_s, limits.body_bytes) == (1, 2, 3, 4)


def test_spill_files_lie_beside_the_database_or_in_the_folder_of_the_settings(
    tmp_path: Path,
) -> None:
    url = str(tmp_path / "t.db")
    database = Database(url)
    assert spill_place(database, load({"database_url": url}, {})) == tmp_path / "t.db"
    elsewhere = load({"database_url": url, "spill_dir": str(tmp_path / "spill")}, {})
    place = spill_place(database, elsewhere)
    assert place is not None
    assert place.parent == tmp_path / "spill"
    assert open_spill(place, "w") is not None
    assert open_spill(None, "w") is None
    database.close()


def test_a_rollouts_access_is_unknown_while_the_database_is_away(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "missing" / "t.db"))
    access: Any = rollout_access(database, [], agents="trusted")
    with pytest.raises(AccessUnknownError):
        access._look_up("r")
    with pytest.raises(AccessUnknownError):
        access._answered("r", "openai", "digest")
    database.close()


def test_sessions_are_of_the_token_of_the_settings() -> None:
    one, other = (control_auth(load({"admin_token": t}, {}), b"secret") for t in ("one", "other"))
    session = one.sessions.issue(0.0, "nonce")
    assert one.sessions.holds(session, 0.0)
    assert not other.sessions.holds(session, 0.0)


def test_calls_that_name_no_rollout_are_let_in_where_one_user_makes_them() -> None:
    for flags, let_in in (
        ({}, True),
        ({"public_url": "https://proxy.example/x"}, True),
        ({"admin_token": "t0ken"}, False),
        ({"require_registration": True}, False),
    ):
        assert (unattributed_calls(load(flags, {})) is not None) is let_in, flags
    exposed = load({}, {}).model_copy(update={"host": "0.0.0.0"})
    assert unattributed_calls(exposed) is None
    assert local_names(load({"public_url": "https://proxy.example/x"}, {})).knows("proxy.example:1")
