"""The operator's key on a socket: a provider gets nothing that the agent shows as its own."""

from __future__ import annotations

from websockets.sync.client import connect
from websockets.typing import Subprotocol

from proxy.routing.headers import key_digest
from tests.fakes.relaying import relaying
from tests.fakes.talker import Talker
from tests.proxy.relay.test_operator_access import DRESSING_REAL


def test_a_socket_takes_the_operators_key_too() -> None:
    offered = [
        "realtime", "openai-insecure-api-key.sk-own", "openai-organization.sk-own",
        "openai-project.sk-own", "openai-beta.realtime-v1",
    ]  # fmt: skip
    with (
        Talker(speaks=["realtime"]) as talker,
        relaying(talker.url, real_keys=DRESSING_REAL, replace_keys=True) as relay,
        connect(
            relay.base().replace("http", "ws") + "/v1/realtime?model=m&api-key=sk-own",
            subprotocols=[Subprotocol(one) for one in offered],
            additional_headers={"api-key": "sk-own", "openai-organization": "sk-own"},
        ),
    ):
        (seen,) = talker.upgrades
        (exchange,) = relay.book.wait_for(1)
    assert seen.headers["authorization"] == "Bearer sk-real"
    assert "sk-own" not in str([*seen.headers.raw_items(), seen.path])
    assert seen.headers["sec-websocket-protocol"] == "realtime, openai-beta.realtime-v1"
    assert exchange.key_digest == key_digest(b"sk-real", b"salt")
