"""A temporary service: it answers inside its block only, and says why it cannot start."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests import forked
from truezero.runner import embedded


@pytest.fixture(autouse=True)
def _forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services that load nothing; journeys of `truezero run` start an interpreter for theirs."""

    def start(command: list[str], **how: Any) -> forked.Process:
        _, _, _, *words = command
        told = {name: how[name] for name in ("cwd", "env", "stdout", "stderr")}
        return forked.start(*words, **told)

    starting = SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr(embedded, "subprocess", starting)


def test_a_service_lives_as_long_as_its_block(tmp_path: Path) -> None:
    with embedded.service(tmp_path / "t.db", tmp_path, {}, cwd=tmp_path) as url:
        assert httpx.get(f"{url}/healthz", timeout=30).json()["status"] == "ok"
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/healthz", timeout=30)
    assert (tmp_path / "t.db").is_file()


def test_what_keeps_it_from_starting_is_its_own_last_line(tmp_path: Path) -> None:
    settings = {"TRUEZERO_WORKERS": "many"}
    with (
        pytest.raises(embedded.EmbeddedStartError, match=r"did not start: .*TRUEZERO_WORKERS"),
        embedded.service(tmp_path / "t.db", tmp_path, settings, cwd=tmp_path),
    ):
        pytest.fail("it started")
