"""A service that is away, another one, of another version, cannot write or wants a token."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.fakes.provider import closed_port
from tests.proxy.api.test_routes import Service, serving
from tests.truezero.runner.doctor.looking import OPENAI, look
from truezero import Client
from truezero.runner.doctor import Wanted, examine, uncounted


def test_calls_that_name_no_rollout_and_how_they_name_one(tmp_path: Path) -> None:
    with serving(tmp_path) as nameless, Client(str(nameless.http.base_url)) as asking:
        assert "rollouts" not in look(asking)
        for _ in range(2):
            assert nameless.http.post("/openai/v1/chat/completions", json={}).is_success
        check = look(asking)["rollouts"]
    assert check.health == "failed"
    for words in ("2 calls", f"{asking.url}/r/ROLLOUT/UPSTREAM/", "x-truezero-key"):
        assert words in check.told


def test_questions_at_paths_that_are_not_read() -> None:
    counted = 'truezero_unread_questions_total{upstream="openai"} 2.0\n'
    transport = httpx.MockTransport(lambda _: httpx.Response(200, text=counted * 2))
    with httpx.Client(transport=transport) as http:
        (check,) = uncounted("http://service", http)
    assert (check.name, check.health) == ("paths", "failed")
    assert "4 calls" in check.told


def test_a_service_that_is_not_there() -> None:
    with Client(f"http://127.0.0.1:{closed_port()}") as client:
        found = look(client)
    assert list(found) == ["package", "service"]
    assert "truezero serve" in found["service"].told
    assert found["service"].health == "failed"


def test_something_else_at_the_address(service: Service) -> None:
    with Client(service.provider.url) as client:
        assert "is not a truezero service" in look(client)["service"].told


def test_another_version(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.greet()  # the service knows its own from its first answer on
    monkeypatch.setattr("truezero.sdk.addresses._version", lambda: "9.9.9")
    found = look(client)["service"]
    assert found.health == "failed"
    assert "9.9.9" in found.told


def test_a_token_that_is_wrong_or_missing(tmp_path: Path) -> None:
    with serving(tmp_path, ADMIN_TOKEN="s3cret-token") as service:
        for token in ("wrong", None):
            with Client(str(service.http.base_url), token) as client:
                found = look(client, OPENAI)
            assert found["service"].health == "ok"
            assert found["token"].health == "failed"
            assert "wrong or missing: set TRUEZERO_ADMIN_TOKEN" in found["token"].told
            assert "openai key" not in found
        with Client(str(service.http.base_url), "s3cret-token") as client:
            assert look(client)["token"].health == "ok"


@pytest.mark.parametrize(
    ("ready", "told"),
    [
        ({"status": "not_ready", "database": False, "recorder": True}, "database is unavailable"),
        ({"status": "not_ready", "database": True, "recorder": False}, "recorder is unavailable"),
        ({"status": "ready", "database": True, "recorder": True}, "since start: 7"),
    ],
)
def test_a_service_that_cannot_write(client: Client, ready: dict[str, object], told: str) -> None:
    answer = httpx.Response(503, json={"gaps": 7, "waiting": 0, **ready})
    transport = httpx.MockTransport(lambda _request: answer)
    found = {c.name: c for c in examine(client, Wanted(), {}, transport=transport)}
    assert told in found["ready"].told
    assert found["ready"].health == ("ok" if ready["status"] == "ready" else "failed")
