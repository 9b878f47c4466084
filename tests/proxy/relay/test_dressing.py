"""With the operator's key a provider gets nothing that the agent shows as its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from proxy.relay.operator_access import operator_headers
from proxy.routing.headers import key_digest
from proxy.routing.target import Addresses
from proxy.routing.upstreams import Auth
from tests.fakes import answers, caller
from tests.fakes.provider import Provider
from tests.fakes.relaying import KEYRING, Book, Relaying, make_context, relaying
from tests.fakes.talker import Talker
from tests.proxy.relay.test_operator_access import Credentials

CHAT = "/v1/chat/completions"
ASK = {"model": "gpt-5", "messages": []}
REAL = {"openai": "sk-real", "anthropic": "sk-ant", "gemini": "g-real"}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider(answers.healthy) as running:
        yield running


@pytest.fixture(scope="module")
def relay(provider: Provider) -> Iterator[Relaying]:
    with relaying(provider.url, real_keys=REAL, replace_keys=True) as running:
        yield running


SHOWN = {
    "authorization": "Bearer sk-own",
    "x-api-key": "sk-own",
    "x-goog-api-key": "sk-own",
    "api-key": "sk-own",
    "API_KEY": "sk-own",
    "cookie": "session=sk-own",
    "openai-organization": "org-sk-own",
    "OpenAI-Project": "proj-sk-own",
    "openai_project": "proj-sk-own",
    "x-goog-user-project": "p-sk-own",
    "x-amz-security-token": "sk-own",
    "x-http-method-override": "DELETE-sk-own",
}


def test_all_that_an_agent_shows_is_replaced(provider: Provider, relay: Relaying) -> None:
    expected = {
        "openai": ("authorization", "Bearer sk-real"),
        "anthropic": ("x-api-key", "sk-ant"),
        "gemini": ("x-goog-api-key", "g-real"),
    }
    kept = {"x-session-id": "kept", "anthropic-beta": "kept", "traceparent": "kept"}
    for upstream, (name, real) in expected.items():
        url = relay.base(upstream=upstream) + CHAT + "?key=sk-own&alt=sse&api_key=sk-own"
        caller.post(url, json=ASK, headers={**SHOWN, **kept})
        seen = provider.requests[-1]
        assert [value for header, value in seen.headers if header.lower() == name] == [real]
        assert seen.target == CHAT + "?alt=sse"
        assert "sk-own" not in str(seen)
        assert {name: seen.header(name) for name in kept} == kept


def test_a_connection_header_takes_no_key_away(provider: Provider, relay: Relaying) -> None:
    headers = {"connection": "authorization, x-mine", "x-mine": "1"}
    caller.post(relay.base() + CHAT, json=ASK, headers=headers)
    assert provider.requests[-1].header("authorization") == "Bearer sk-real"
    assert provider.requests[-1].header("x-mine") is None


def test_whoever_calls_the_exchange_names_the_operators_key(relay: Relaying) -> None:
    before = len(relay.book.exchanges)
    minted = f"Bearer {KEYRING.mint('r2')}"
    caller.post(relay.base() + CHAT, json=ASK)
    caller.post(relay.base() + CHAT, json=ASK, headers={"authorization": "Bearer sk-own"})
    caller.post(relay.base("r2") + CHAT, json=ASK, headers={"authorization": minted})
    digests = {each.key_digest for each in relay.book.wait_for(before + 3)[before:]}
    assert digests == {key_digest(b"sk-real", b"salt")}


def test_a_refused_call_is_told_so_and_neither_sent_nor_recorded(
    provider: Provider, relay: Relaying
) -> None:
    sent, recorded = len(provider.requests), len(relay.book.exchanges)
    answer = caller.get(relay.base() + "/v1/files", headers={"authorization": "Bearer sk-own"})
    assert (answer.status_code, answer.headers["x-truezero-refusal"]) == (403, "path_not_allowed")
    assert (len(provider.requests), len(relay.book.exchanges)) == (sent, recorded)


def test_a_socket_takes_the_operators_key_too() -> None:
    offered = [
        "realtime", "openai-insecure-api-key.sk-own", "openai-organization.sk-own",
        "openai-project.sk-own", "openai-beta.realtime-v1",
    ]  # fmt: skip
    with (
        Talker(speaks=["realtime"]) as talker,
        relaying(talker.url, real_keys=REAL, replace_keys=True) as relay,
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


def test_a_signer_adds_its_credential_where_no_key_is_set() -> None:
    signer = Credentials(found=True)
    rows: tuple[tuple[dict[str, Any], object], ...] = (
        ({"real_keys": {"vertex": "token"}, "signers": {Auth.GOOGLE: signer}}, None),
        ({"signers": {Auth.GOOGLE: signer}}, signer),
    )
    for rules, adds in rows:
        context = make_context("http://provider", Book(), replace_keys=True, **rules)
        target = Addresses(context.upstreams, KEYRING).read(b"/r/r1/vertex/v1/models", b"", [])
        headers, left = operator_headers(context, target, [(b"x-goog-api-key", b"own")])
        assert left is adds
        assert (b"x-goog-api-key", b"own") not in headers
