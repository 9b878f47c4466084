"""A temporary service: it answers inside its block only, and says why it cannot start."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from truezero.runner import embedded


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
