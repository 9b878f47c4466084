"""A socket goes to no address that calls may not go to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.agent_sockets import UPGRADE
from tests.fakes.talker import Talker
from tests.proxy.routing.test_address_guard import led_there


@pytest.mark.parametrize("allowed", [False, True])
def test_a_socket_goes_there_as_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    toml = f"[upstreams.named]\nallow_link_local = {str(allowed).lower()}\n"
    (tmp_path / "truezero.toml").write_text(toml)
    with Talker() as talker, led_there(tmp_path, monkeypatch, talker.url) as service:
        with service.http.stream("GET", "/r/r1/named/v1/responses", headers=UPGRADE) as answer:
            assert answer.status_code == (101 if allowed else 502)
        assert len(talker.upgrades) == allowed
