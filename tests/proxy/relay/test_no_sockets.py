"""A service that takes no WebSockets tells agents to ask over HTTP."""

from __future__ import annotations

from proxy.inbound.http import HttpProtocol
from tests.fakes import answers, caller
from tests.fakes.agent_sockets import UPGRADE, refusal
from tests.fakes.provider import Provider
from tests.fakes.relaying import Protocol, relaying

NONE = Protocol(http=HttpProtocol, ws="none")


def test_an_upgrade_is_refused_and_counted_and_the_provider_is_not_asked() -> None:
    with Provider(answers.healthy) as provider, relaying(provider.url, protocol=NONE) as relay:
        answer = refusal(relay)
        assert (answer.status_code, answer.json()["code"]) == (426, "no_websocket")
        assert answer.headers["x-truezero-refusal"] == "no_websocket"
        assert (answer.headers["upgrade"], answer.headers["connection"]) == ("HTTP/1.1", "close")
        assert provider.requests == []
        asked = caller.post(relay.base() + "/v1/responses", json={"model": "gpt-5", "input": "hi"})
        assert asked.status_code == 200
        assert relay.book.only.method == "POST"


def test_an_upgrade_to_something_else_is_a_plain_request() -> None:
    with Provider(answers.healthy) as provider, relaying(provider.url, protocol=NONE) as relay:
        answer = caller.get(relay.base() + "/v1/models", headers={**UPGRADE, "upgrade": "h2c"})
        assert "x-truezero-refusal" not in answer.headers
        assert [each.method for each in provider.requests] == ["GET"]
