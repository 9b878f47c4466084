"""Neither side of an upgrade chooses an origin: whatever it writes, nobody else is asked."""

from __future__ import annotations

import pytest

from tests.fakes import caller
from tests.fakes.agent_sockets import UPGRADE
from tests.fakes.provider import Provider
from tests.fakes.relaying import relaying
from tests.fakes.talker import Talker
from tests.proxy.routing.test_no_other_origin import own


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_answer_to_an_upgrade_leads_elsewhere(elsewhere: Provider, status: int) -> None:
    with Talker() as talker, relaying(talker.url) as relay:
        talker.refuses(status, Location=elsewhere.url.replace("http", "ws") + "/v1/responses")
        answer = caller.get(relay.base() + "/v1/responses", headers=UPGRADE, follow_redirects=False)
        assert answer.status_code == status
        assert len(talker.upgrades) == 1


@pytest.mark.parametrize("path", ["//ELSEWHERE/v1/responses", "/@ELSEWHERE/v1/responses"])
def test_no_path_of_an_upgrade_leads_elsewhere(elsewhere: Provider, path: str) -> None:
    path = path.replace("ELSEWHERE", own(elsewhere))
    with Talker() as talker, relaying(talker.url) as relay:
        head = f"GET /r/r1/openai{path} HTTP/1.1\r\nHost: {own(elsewhere)}\r\n"
        more = "".join(f"{name}: {value}\r\n" for name, value in UPGRADE.items())
        talker.refuses(403)
        assert relay.raw((head + more + "\r\n").encode()).startswith(b"HTTP/1.1 403 ")
        (upgrade,) = talker.upgrades
        assert upgrade.path == path
        assert upgrade.headers["host"] == talker.url.removeprefix("http://")
