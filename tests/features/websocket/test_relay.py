"""Sockets through the relay: messages unchanged, refusals at once, one honest ending each."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection
from websockets.sync.server import ServerConnection
from websockets.typing import Subprotocol

from classifier.records import Attribution, Ending, Exchange, Kind
from classifier.verdicts import Subcategory
from proxy.features.websocket.relay import WebSocketRelay
from proxy.outbound import dial
from proxy.relay.context import CallLimits, RefusedRequests, UnattributedCalls
from proxy.routing.address_guard import LocalNames
from proxy.routing.errors import Refusal
from proxy.routing.headers import Pairs
from proxy.routing.target import Target
from proxy.routing.upstreams import Auth
from tests.fakes import answers, caller
from tests.fakes.agent_sockets import PATH, PATIENCE_S, UPGRADE, mute, opened, refusal
from tests.fakes.provider import Provider, closed_port
from tests.fakes.relaying import (
    H11,
    HTTPTOOLS,
    KEYRING,
    Book,
    Protocol,
    Relaying,
    make_context,
    relaying,
)
from tests.fakes.talker import (
    RESPONSES,
    RESPONSES_FAILED,
    Message,
    Talker,
    answering,
    create,
    event,
    realtime,
)


@pytest.fixture
def talker() -> Iterator[Talker]:
    with Talker() as running:
        yield running


@pytest.fixture
def relay(talker: Talker) -> Iterator[Relaying]:
    with relaying(talker.url) as running:
        yield running


def problem(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    code = str(answer.json()["code"])
    assert answer.headers["x-truezero-refusal"] == code
    return answer.status_code, code


def endless_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for the provider's close waits longer than anybody here has patience."""
    monkeypatch.setattr("proxy.features.websocket.connector._CLOSE_S", 100 * PATIENCE_S)


def calls(exchanges: list[Exchange]) -> list[Exchange]:
    return [one for one in exchanges if one.method == "WEBSOCKET"]


def closing(of: ClientConnection | ServerConnection) -> tuple[int, str] | None:
    """The close frame that came; None where the connection was lost."""
    with pytest.raises(ConnectionClosed) as closed:
        of.recv(timeout=PATIENCE_S)
    frame = closed.value.rcvd
    return None if frame is None else (frame.code, frame.reason)


# --- messages --------------------------------------------------------------------------------

ODD: tuple[Message, ...] = (
    '{ "type":"response.create",\r\n "model" : "gpt-5"  }',
    "no JSON at all",
    "",
    "žluťoučký 🐎",
    b"",
    b"\x00\xff binary",
    b'{"type":"response.create"}',
    "x" * 3_000_000,
)


@pytest.mark.parametrize("message", ODD, ids=lambda message: repr(message[:12]))
@pytest.mark.parametrize("path", [PATH, "/v1/realtime", "/else"])
def test_messages_pass_unchanged_both_ways(
    talker: Talker, relay: Relaying, message: Message, path: str
) -> None:
    with opened(relay, path) as agent:
        agent.send(message)
        assert agent.recv(timeout=PATIENCE_S) == message


@pytest.mark.parametrize("protocol", [HTTPTOOLS, H11], ids=["httptools", "h11"])
def test_a_socket_is_relayed_on_uvicorns_own_protocol_classes(
    talker: Talker, protocol: Protocol
) -> None:
    talker.script = answering(RESPONSES)
    with relaying(talker.url, protocol=protocol) as relay:
        with opened(relay) as agent:
            agent.send(create())
            assert [agent.recv(timeout=PATIENCE_S) for _ in RESPONSES] == RESPONSES
        upgrade, call = relay.book.wait_for(2)
        assert problem(refusal(relay, base=relay.url + "/r/r1/nowhere"))[0] == 404
        talker.refuses(401, b'{"error":{}}', content_type="application/json")
        answer = refusal(relay)
    assert (upgrade.status, upgrade.ending) == (101, Ending.COMPLETE)
    assert (call.method, call.ending) == ("WEBSOCKET", Ending.COMPLETE)
    assert call.usage.output_tokens is not None
    assert (answer.status_code, answer.content) == (401, b'{"error":{}}')


async def test_a_server_that_cannot_send_a_response_declines_the_socket(talker: Talker) -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    scope = {
        "type": "websocket", "raw_path": b"/r/r1/nowhere/v1/x", "query_string": b"",
        "headers": [], "subprotocols": [],
    }  # fmt: skip
    relay = WebSocketRelay(make_context(talker.url, Book()))
    await relay(scope, receive, send)
    await relay({**scope, "extensions": {"websocket.http.response": {}}}, receive, send)
    assert [message["type"] for message in sent] == [
        "websocket.close", "websocket.http.response.start", "websocket.http.response.body",
    ]  # fmt: skip


def test_many_messages_keep_their_order(talker: Talker, relay: Relaying) -> None:
    def burst(end: ServerConnection) -> None:
        for number in range(2000):
            end.send(str(number))

    talker.script = burst
    with opened(relay) as agent:
        assert [agent.recv(timeout=PATIENCE_S) for _ in range(2000)] == [
            str(n) for n in range(2000)
        ]


def test_a_message_in_fragments_arrives_whole(talker: Talker, relay: Relaying) -> None:
    def both(end: ServerConnection) -> None:
        end.send(iter(["frag", "men", "ted"]))
        end.send(end.recv())

    talker.script = both
    with opened(relay) as agent:
        assert agent.recv(timeout=PATIENCE_S) == "fragmented"
        agent.send(iter([b"a", b"b"]))
        assert agent.recv(timeout=PATIENCE_S) == b"ab"


def test_compression_is_agreed_hop_by_hop(talker: Talker, relay: Relaying) -> None:
    with opened(relay, compression="deflate", user_agent_header=None) as agent:
        agent.send("a" * 10_000)
        assert agent.recv(timeout=PATIENCE_S) == "a" * 10_000
        assert agent.response is not None
        assert "sec-websocket-extensions" not in agent.response.headers
    (seen,) = talker.upgrades
    assert "permessage-deflate" in seen.headers["sec-websocket-extensions"]
    assert "user-agent" not in seen.headers, "an agent without a name stays without one"


# --- the upgrade -----------------------------------------------------------------------------


def test_an_upgrade_carries_what_the_agent_sent_and_nothing_more(
    talker: Talker, relay: Relaying
) -> None:
    headers = [
        ("authorization", "Bearer k"), ("openai-beta", "responses_websockets=2026-02-06"),
        ("session_id", "s1"), ("x-a", "1"), ("x-a", "2"), ("x-truezero-role", "judge"),
    ]  # fmt: skip
    with opened(relay, PATH + ";p?a=%2F&b", additional_headers=headers, user_agent_header="codex"):
        (seen,) = talker.upgrades
    assert "sec-websocket-extensions" not in seen.headers
    assert seen.path == PATH + ";p?a=%2F&b"
    own = [(n.lower(), v) for n, v in seen.headers.raw_items() if not n.lower().startswith("sec-")]
    assert sorted(own) == sorted(
        [
            ("host", talker.url.removeprefix("http://")), ("upgrade", "websocket"),
            ("connection", "Upgrade"), ("user-agent", "codex"), *headers[:5],
        ]
    )  # fmt: skip


def test_the_answer_to_an_upgrade_comes_with_its_headers(talker: Talker, relay: Relaying) -> None:
    talker.headers = {"x-codex-turn-state": "t1", "x-request-id": "req_1"}
    with opened(relay) as agent:
        assert agent.response is not None
        assert agent.response.headers["x-codex-turn-state"] == "t1"
        (upgrade,) = relay.book.exchanges
        assert agent.response.headers["x-truezero-exchange"] == upgrade.id
    assert (upgrade.kind, upgrade.status, upgrade.ending) == (Kind.PROBE, 101, Ending.COMPLETE)
    assert (upgrade.provider_request_id, upgrade.cause) == ("req_1", None)


def test_the_provider_chooses_among_the_agents_subprotocols() -> None:
    with Talker(speaks=["realtime"]) as talker, relaying(talker.url) as relay:
        offered = [Subprotocol("other"), Subprotocol("realtime")]
        with opened(relay, subprotocols=offered) as agent:
            assert agent.subprotocol == "realtime"
        assert talker.upgrades[0].headers["sec-websocket-protocol"] == "other, realtime"


def test_no_ping_is_sent_that_the_provider_did_not_send(talker: Talker, relay: Relaying) -> None:
    talker.script = lambda end: end.send("alive" if end.ping().wait(PATIENCE_S) else "dead")
    with opened(relay) as agent:
        assert agent.recv(timeout=PATIENCE_S) == "alive"  # the relay's own end answers pings


def test_a_minted_key_is_replaced_by_the_real_one(talker: Talker) -> None:
    minted = KEYRING.mint("r7")
    with relaying(talker.url, real_keys={"openai": "sk-real"}, proof_required=True) as relay:
        key = [("authorization", f"Bearer {minted}")]
        with opened(relay, base=f"{relay.url}/openai", additional_headers=key):
            pass
        assert talker.upgrades[0].headers["authorization"] == "Bearer sk-real"
        assert relay.book.only.rollout_id == "r7"
        assert relay.book.only.attribution is Attribution.MINTED_KEY


def test_a_socket_that_names_no_rollout_is_no_page_of_another_site(talker: Talker) -> None:
    refused = RefusedRequests(unattributed=UnattributedCalls(LocalNames()))
    with relaying(talker.url, refused=refused, real_keys={"openai": "sk-real"}) as relay:
        with opened(relay, base=f"{relay.url}/openai"):
            pass
        (upgrade,) = talker.upgrades
        assert "authorization" not in upgrade.headers
        assert relay.book.only.rollout_id == "unattributed"
        foreign = {**UPGRADE, "origin": "https://site.example"}
        response = caller.get(f"{relay.url}/openai{PATH}", headers=foreign)
        assert response.headers["x-truezero-refusal"] == "cross_origin"
        assert len(talker.upgrades) == 1
    assert refused.calls.counts == {"cross_origin": 1}


def test_a_browsers_minted_key_is_found_among_its_subprotocols() -> None:
    hidden = Subprotocol("openai-insecure-api-key." + KEYRING.mint("r7"))
    with (
        Talker(speaks=["realtime"]) as talker,
        relaying(talker.url, real_keys={"openai": "sk-real"}) as relay,
        opened(relay, base=f"{relay.url}/openai", subprotocols=[Subprotocol("realtime"), hidden]),
    ):
        (seen,) = talker.upgrades
        assert seen.headers["sec-websocket-protocol"] == "realtime"
        assert seen.headers["authorization"] == "Bearer sk-real"
        assert relay.book.only.rollout_id == "r7"


def test_a_browsers_own_key_stays_the_only_one() -> None:
    own = [Subprotocol("realtime"), Subprotocol("openai-insecure-api-key.sk-own")]
    with (
        Talker(speaks=["realtime"]) as talker,
        relaying(talker.url, real_keys={"openai": "sk-real"}) as relay,
        opened(relay, subprotocols=own),
    ):
        assert "authorization" not in talker.upgrades[0].headers
        assert "sk-own" in talker.upgrades[0].headers["sec-websocket-protocol"]


class Token:
    """A signer that has a token, or a refusal."""

    whole_body = False

    def __init__(self, refusal: Refusal | None = None) -> None:
        self._refusal = refusal

    async def sign(self, *, headers: Pairs, **_: object) -> Pairs:
        if self._refusal is not None:
            raise self._refusal
        return [*headers, (b"authorization", b"Bearer token")]


def test_an_upstream_with_tokens_of_the_services_own_gets_one(talker: Talker) -> None:
    with (
        relaying(talker.url, signers={Auth.GOOGLE: Token()}) as relay,
        opened(relay, base=relay.base(upstream="vertex")),
        opened(relay, base=relay.base(upstream="openai")),
    ):
        tokens = [seen.headers.get("authorization") for seen in talker.upgrades]
    assert tokens == ["Bearer token", None]


def test_without_a_token_nothing_is_asked(talker: Talker) -> None:
    missing = Refusal(501, "upstream_credentials_missing", "install this")
    with relaying(talker.url, signers={Auth.GOOGLE: Token(missing)}) as relay:
        answer = refusal(relay, base=relay.base(upstream="vertex"))
        assert problem(answer) == (501, "upstream_credentials_missing")
        assert relay.book.only.ending is Ending.NEVER_CONNECTED
    assert talker.upgrades == []


# --- what the proxy refuses ------------------------------------------------------------------


def test_what_a_request_would_be_refused_for_a_socket_is(talker: Talker) -> None:
    async def nobody(_: str) -> None:
        raise Refusal(401, "unregistered_rollout", "not announced")

    with relaying(talker.url, proof_required=True) as relay:
        assert problem(refusal(relay)) == (403, "unproven_rollout")
    with relaying(talker.url, admits=nobody) as relay:
        assert problem(refusal(relay)) == (401, "unregistered_rollout")
        assert problem(refusal(relay, base=relay.base(upstream="nowhere")))[0] == 404
        assert relay.book.exchanges == []
    assert talker.upgrades == []


class Ruled:
    """What is known of rollouts: the calls of one are under a rule."""

    def concerns(self, _: Target) -> bool:
        return True

    async def admit(self, _: Target) -> None:
        return None

    async def rules(self, target: Target) -> dict[Any, bool]:
        rule = Mock(why_no_socket="is counted")
        return {rule: True} if target.rollout_id == "ruled" else {}


def test_an_agent_under_a_rule_is_sent_to_http(talker: Talker) -> None:
    with relaying(talker.url, access=Ruled()) as relay:
        assert problem(refusal(relay, base=relay.base("ruled"))) == (426, "no_websocket")
        assert talker.upgrades == []
        with opened(relay, base=relay.base("other")):
            assert len(talker.upgrades) == 1


# --- what the provider refuses ---------------------------------------------------------------


@pytest.mark.parametrize("path", [PATH, "/v1/realtime?model=gpt-realtime"])
@pytest.mark.parametrize("status", [200, 302, 400, 401, 403, 426, 429, 500, 503])
def test_a_refusal_of_the_upgrade_passes_unchanged(
    talker: Talker,
    relay: Relaying,
    status: int,
    path: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endless_close(monkeypatch)
    body = b'{"error": {"message": "no"} }'
    elsewhere = closed_port()
    talker.refuses(status, body, x_a="1", location=f"http://127.0.0.1:{elsewhere}/v1/responses")
    answer = refusal(relay, path)
    assert (answer.status_code, answer.content, answer.headers["x-a"]) == (status, body, "1")
    assert "x-truezero-refusal" not in answer.headers
    assert answer.headers["x-truezero-exchange"] == relay.book.only.id
    assert (relay.book.only.status, relay.book.only.response_bytes) == (status, len(body))


@pytest.mark.parametrize("status", [404, 405, 501])
def test_where_there_is_no_socket_the_agent_is_sent_to_http(
    talker: Talker, relay: Relaying, status: int
) -> None:
    talker.refuses(status, b"nothing here")
    answer = refusal(relay)
    assert problem(answer) == (426, "no_websocket")
    assert str(status) in answer.json()["detail"]
    assert answer.headers["x-truezero-exchange"] == relay.book.only.id
    assert (relay.book.only.status, relay.book.only.kind) == (status, Kind.PROBE)


@pytest.mark.parametrize("status", [404, 405, 501])
def test_realtime_has_no_http_to_be_sent_to(talker: Talker, relay: Relaying, status: int) -> None:
    talker.refuses(status, b"nothing here")
    answer = refusal(relay, "/v1/realtime")
    assert (answer.status_code, answer.content) == (status, b"nothing here")
    assert relay.book.only.kind is Kind.INFERENCE


def error(code: str, kind: str = "invalid_request_error") -> bytes:
    return json.dumps({"error": {"message": "no", "type": kind, "code": code}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "kind", "subcategory"),
    [
        (401, error("invalid_api_key"), Kind.INFERENCE, Subcategory.AUTH),
        (401, b"", Kind.PROBE, Subcategory.AUTH),
        (403, b"<html>no sockets here</html>", Kind.PROBE, Subcategory.AUTH),
        (400, error("bad"), Kind.PROBE, Subcategory.REJECTED_REQUEST),
        (429, error("insufficient_quota"), Kind.INFERENCE, Subcategory.QUOTA),
        (429, b"", Kind.INFERENCE, Subcategory.RATE_LIMIT),
        (503, b"", Kind.INFERENCE, Subcategory.PROVIDER_ERROR),
    ],
)
def test_a_refusal_counts_where_it_proves_that_no_model_is_reached(
    talker: Talker,
    relay: Relaying,
    status: int,
    body: bytes,
    kind: Kind,
    subcategory: Subcategory,
) -> None:
    talker.refuses(status, body)
    refusal(relay)
    upgrade = relay.book.only
    assert upgrade.cause is not None
    assert (upgrade.kind, upgrade.cause.subcategory) == (kind, subcategory)


def test_an_upstream_that_is_not_there_is_told_at_once() -> None:
    with relaying(f"http://127.0.0.1:{closed_port()}") as relay:
        assert problem(refusal(relay)) == (502, "upstream_unreachable")
        exchange = relay.book.only
    assert (exchange.ending, exchange.status) == (Ending.NEVER_CONNECTED, None)
    assert exchange.cause is not None
    assert (exchange.kind, exchange.cause.transient) == (Kind.INFERENCE, True)


def test_our_own_lack_of_descriptors_is_no_failure_of_a_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def short(_: dial.Address) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(dial, "_connected", short)
    with relaying(f"http://127.0.0.1:{closed_port()}") as relay:
        assert problem(refusal(relay)) == (503, "out_of_resources")
        exchange = relay.book.only
    assert (exchange.ending, exchange.cause) == (Ending.LOST, None)
    assert exchange.kind is Kind.INFERENCE


@pytest.mark.parametrize("answer", [b"", b"no HTTP\r\n\r\n", b"HTTP/1.1 101 Yes\r\n\r\n"])
def test_an_answer_that_is_none_is_a_cut(answer: bytes) -> None:
    with mute(answer) as url, relaying(url) as relay:
        assert problem(refusal(relay)) == (502, "upstream_disconnected")
        assert relay.book.only.ending is Ending.CUT_UPSTREAM


def test_a_handshake_has_its_time() -> None:
    with mute(None) as url, relaying(url, limits=CallLimits(connect_s=0.2)) as relay:
        assert problem(refusal(relay)) == (504, "upstream_timeout")
        assert relay.book.only.ending is Ending.TIMED_OUT


def test_an_agent_that_does_not_wait_for_the_handshake_is_noted() -> None:
    with mute(None) as url, relaying(url) as relay:
        with pytest.raises(TimeoutError), opened(relay, open_timeout=1):
            pass
        exchange = relay.book.only
    assert (exchange.ending, exchange.kind) == (Ending.LEFT_BY_AGENT, Kind.PROBE)
    assert exchange.cause is None


# --- calls -----------------------------------------------------------------------------------


def test_each_response_is_recorded_before_its_last_message(talker: Talker, relay: Relaying) -> None:
    talker.script = answering(RESPONSES, RESPONSES_FAILED)
    with opened(relay) as agent:
        for count, messages in ((1, RESPONSES), (2, RESPONSES_FAILED)):
            agent.send(create())
            assert [agent.recv(timeout=PATIENCE_S) for _ in messages] == messages
            assert len(calls(relay.book.exchanges)) == count
    first, second = calls(relay.book.exchanges)
    assert (first.usage.output_tokens, first.cause) == (5, None)
    assert second.cause is not None
    assert len({one.id for one in relay.book.exchanges}) == 3
    assert len(relay.book.opens) == 2


def test_the_last_message_waits_for_the_ledger_and_no_other_does(
    talker: Talker, relay: Relaying
) -> None:
    talker.script = answering(RESPONSES)
    with opened(relay) as agent:
        relay.book.hold.set()
        agent.send(create())
        assert [agent.recv(timeout=PATIENCE_S) for _ in RESPONSES[:-1]] == RESPONSES[:-1]
        with pytest.raises(TimeoutError):
            agent.recv(timeout=0.2)
        relay.book.hold.clear()
        assert agent.recv(timeout=PATIENCE_S) == RESPONSES[-1]


def test_nothing_of_an_answer_is_released_before_its_call_is_noted(
    talker: Talker, relay: Relaying, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = threading.Event()

    async def until_noted() -> None:
        while not noted.is_set():
            await asyncio.sleep(0.005)

    monkeypatch.setattr(
        relay.book, "begin_durably", lambda *_: asyncio.ensure_future(until_noted())
    )
    talker.script = answering(RESPONSES)
    with opened(relay) as agent:
        agent.send(create())
        with pytest.raises(TimeoutError):
            agent.recv(timeout=0.2)
        noted.set()
        assert agent.recv(timeout=PATIENCE_S) == RESPONSES[0]


def test_realtime_is_relayed_and_counted(talker: Talker, relay: Relaying) -> None:
    messages = [event("session.created", session={"model": "gpt-realtime"}), *realtime()]

    def speak(end: ServerConnection) -> None:
        for message in messages:
            end.send(message)
        end.recv()

    talker.script = speak
    with opened(relay, "/v1/realtime?model=gpt-realtime") as agent:
        assert [agent.recv(timeout=PATIENCE_S) for _ in messages] == messages
    (call,) = calls(relay.book.exchanges)
    assert (call.model, call.usage.cached_input_tokens) == ("gpt-realtime", 8)


# --- the end ---------------------------------------------------------------------------------

FRAMES = [(1000, ""), (1000, "done"), (1001, "bye"), (1011, "oops"), (3000, "a.b"), (4999, "é")]


@pytest.mark.parametrize(("code", "reason"), FRAMES)
def test_the_providers_close_frame_reaches_the_agent(
    talker: Talker, relay: Relaying, code: int, reason: str
) -> None:
    talker.script = lambda end: end.close(code, reason)
    with opened(relay) as agent:
        assert closing(agent) == (code, reason)


@pytest.mark.parametrize(("code", "reason"), FRAMES)
def test_the_agents_close_frame_reaches_the_provider(
    talker: Talker, relay: Relaying, code: int, reason: str
) -> None:
    seen: list[tuple[int, str] | None] = []
    talker.script = lambda end: seen.append(closing(end))
    with opened(relay) as agent:
        agent.close(code, reason)
        assert talker.ended.wait(PATIENCE_S)
    assert seen == [(code, reason)]


def bare_close(end: ClientConnection | ServerConnection) -> None:
    """A close frame without a code."""
    with contextlib.suppress(ConnectionClosed), end.send_context():
        end.protocol.send_close()


def test_a_close_frame_without_a_code_stays_one(talker: Talker, relay: Relaying) -> None:
    seen: list[tuple[int, str] | None] = []
    talker.script = lambda end: seen.append(closing(end))
    with opened(relay) as agent:
        bare_close(agent)
        assert talker.ended.wait(PATIENCE_S)
    talker.script = bare_close
    with opened(relay) as agent:
        seen.append(closing(agent))
    assert seen == [(1005, "")] * 2


def test_messages_before_a_close_frame_are_not_lost(talker: Talker, relay: Relaying) -> None:
    def last_words(end: ServerConnection) -> None:
        for number in range(300):
            end.send(str(number))
        end.close(1000, "done")

    talker.script = last_words
    with opened(relay) as agent:
        assert [agent.recv(timeout=PATIENCE_S) for _ in range(300)] == [str(n) for n in range(300)]
        assert closing(agent) == (1000, "done")


def test_a_provider_that_is_cut_cuts_the_agent(talker: Talker, relay: Relaying) -> None:
    def cut(end: ServerConnection) -> None:
        end.recv()
        for message in RESPONSES[:7]:
            end.send(message)
        end.socket.shutdown(socket.SHUT_RDWR)

    talker.script = cut
    with opened(relay) as agent:
        agent.send(create())
        assert [agent.recv(timeout=PATIENCE_S) for _ in range(7)] == RESPONSES[:7]
        assert closing(agent) is None
    (call,) = calls(relay.book.wait_for(2))
    assert (call.ending, call.output_seen) == (Ending.CUT_UPSTREAM, True)
    assert call.cause is not None
    assert call.cause.subcategory is Subcategory.PROVIDER_ERROR


def half_an_answer(end: ServerConnection) -> tuple[int, str] | None:
    end.recv()
    for message in RESPONSES[:7]:
        end.send(message)
    return closing(end)


def hear_half(agent: ClientConnection) -> None:
    """All that the provider says, so that it waits when the agent goes."""
    for _ in RESPONSES[:7]:
        agent.recv(timeout=PATIENCE_S)


def test_an_agent_that_closes_in_a_response_ends_it_at_the_provider(
    talker: Talker, relay: Relaying, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless_close(monkeypatch)
    closed: list[tuple[int, str] | None] = []
    talker.script = lambda end: closed.append(half_an_answer(end))
    with opened(relay) as agent:
        agent.send(create())
        hear_half(agent)
        agent.close(1000, "enough")
    assert talker.ended.wait(PATIENCE_S)
    assert closed == [(1000, "enough")]
    (call,) = calls(relay.book.wait_for(2))
    assert (call.ending, call.cause) == (Ending.LEFT_BY_AGENT, None)


def test_an_agent_that_vanishes_is_gone_for_the_provider_too(
    talker: Talker, relay: Relaying
) -> None:
    seen: list[tuple[int, str] | None] = []
    talker.script = lambda end: seen.append(half_an_answer(end))
    with opened(relay) as agent:
        agent.send(create())
        hear_half(agent)
        agent.socket.shutdown(socket.SHUT_RDWR)
        assert talker.ended.wait(PATIENCE_S)
    assert seen == [None]
    (call,) = calls(relay.book.wait_for(2))
    assert call.ending is Ending.LEFT_BY_AGENT


def test_a_message_over_the_limit_ends_the_socket(talker: Talker) -> None:
    seen: list[tuple[int, str] | None] = []
    talker.script = lambda end: seen.append(closing(end))
    with relaying(talker.url, limits=CallLimits(body_bytes=1000)) as relay, opened(relay) as agent:
        agent.send("x" * 1001)
        frame = closing(agent)
    assert frame is not None
    assert frame[0] == 1009
    assert talker.ended.wait(PATIENCE_S)


# --- pressure and silence --------------------------------------------------------------------

MEGABYTE = "x" * 1_000_000


def sent_into(end: ClientConnection | ServerConnection, limit: int = 400) -> int:
    """How many megabytes go in until nothing more does for half a second."""
    done = 0

    def send() -> None:
        nonlocal done
        with contextlib.suppress(ConnectionClosed, OSError):
            for _ in range(limit):
                end.send(MEGABYTE)
                done += 1

    threading.Thread(target=send, daemon=True).start()
    before = 0
    while before < done or not done:
        before = done
        time.sleep(0.5)
    return done


def test_a_slow_agent_slows_the_provider(talker: Talker, relay: Relaying) -> None:
    counted: list[int] = []
    talker.script = lambda end: counted.append(sent_into(end))
    with opened(relay, max_queue=1) as agent:
        assert talker.ended.wait(PATIENCE_S)
        assert 0 < counted[0] < 200
        agent.socket.shutdown(socket.SHUT_RDWR)


def test_a_slow_provider_slows_the_agent() -> None:
    hold = threading.Event()

    def busy(_: ServerConnection) -> None:
        hold.wait(PATIENCE_S)

    with (
        Talker(busy, max_queue=1) as talker,
        relaying(talker.url) as relay,
        opened(relay) as agent,
    ):
        assert 0 < sent_into(agent) < 200
        hold.set()
        agent.socket.shutdown(socket.SHUT_RDWR)


def test_nothing_of_a_socket_is_logged(
    talker: Talker, relay: Relaying, caplog: pytest.LogCaptureFixture
) -> None:
    loud = [logging.getLogger(name) for name in ("uvicorn.error", "truezero", "websockets")]
    with contextlib.ExitStack() as levels:
        for logger in (logging.getLogger(), *loud):
            levels.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.DEBUG)
        with opened(relay, PATH + "?key=secret") as agent:
            agent.send('{"secret": 1}')
            agent.recv(timeout=PATIENCE_S)
    both_ends = ("websockets.client", "websockets.server")  # the agent's and the provider's
    ours = [record for record in caplog.records if record.name not in both_ends]
    assert len(ours) < len(caplog.records)
    assert not [record for record in ours if "secret" in record.getMessage()]


def test_an_upgrade_to_something_else_is_a_plain_request() -> None:
    with Provider(answers.healthy) as provider, relaying(provider.url) as relay:
        head = b"GET /r/r1/openai/v1/models HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\n"
        answer = relay.raw(head + b"Connection: upgrade, close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 404")
        assert relay.book.only.method == "GET"
