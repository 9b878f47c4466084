"""The upgrade request: what it asks for, and which outcomes count in a verdict."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from classifier.operator_causes import OperatorCauses, operator_rows
from classifier.records import Ending, Kind
from classifier.verdicts import Subcategory
from proxy.capture.observer import CallObserver, CauseRules, SilenceLimits
from proxy.capture.request import Call
from proxy.features.websocket.capture import CallChanges
from proxy.features.websocket.connector import UpgradeRefusedError
from proxy.features.websocket.handshake import (
    HandshakeCall,
    UpgradeRequest,
    WebSocketRecord,
    is_handshake_header,
    use_http,
)
from proxy.routing.target import Addresses
from tests.fakes.relaying import KEYRING, Book, make_context

JSON = [(b"Content-Type", b"application/json")]


def handshake(path: bytes, query: bytes = b"", **rules: Any) -> HandshakeCall:
    context = make_context("http://provider", Book(), **rules)
    target = Addresses(context.upstreams, KEYRING).read(b"/r/r1/openai" + path, query, [])
    call = Call(
        id="x1", rollout_id="r1", upstream="openai", method="UPGRADE", path=path,
        started_at=0.0, began=0.0,
    )  # fmt: skip
    return HandshakeCall(context, target, call)


def test_a_minted_key_among_the_subprotocols_becomes_a_header() -> None:
    minted = KEYRING.mint("r1")
    scope = {
        "subprotocols": ["realtime", "openai-insecure-api-key." + minted],
        "headers": [(b"sec-websocket-extensions", b"permessage-deflate; x")],
    }
    request = UpgradeRequest.of(scope)
    assert request.subprotocols == ("realtime",)
    assert request.headers[-1] == (b"authorization", b"Bearer " + minted.encode())
    assert request.deflate
    assert not request.shows_own_key


def test_an_agents_own_key_stays_where_it_is() -> None:
    request = UpgradeRequest.of({"subprotocols": ["openai-insecure-api-key.sk-1"], "headers": []})
    assert request.shows_own_key
    assert (request.headers, request.deflate) == ([], False)


def test_a_refusal_of_the_key_proves_that_no_model_is_reached() -> None:
    call = handshake(b"/v1/realtime", b"model=gpt-realtime")
    body = b'{"error":{"code":"invalid_api_key","type":"invalid_request_error"}}'
    exchange = call.refused(UpgradeRefusedError(401, JSON, body), 1.0)
    assert (exchange.kind, exchange.model) == (Kind.INFERENCE, "gpt-realtime")


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_path_without_a_socket_proves_nothing_where_http_has_it(status: int) -> None:
    exchange = handshake(b"/v1/responses").refused(UpgradeRefusedError(status, [], b""), 1.0)
    assert exchange.kind is not Kind.INFERENCE


def test_an_agent_that_does_not_wait_left() -> None:
    assert handshake(b"/v1/realtime").left(1.0).ending is Ending.LEFT_BY_AGENT


def test_the_agent_is_sent_to_http_by_a_426() -> None:
    refusal = use_http("openai", 404, "x1")
    assert (refusal.status, refusal.code) == (426, "no_websocket")
    assert (b"x-truezero-exchange", b"x1") in refusal.headers


def test_the_handshakes_own_headers_are_not_forwarded() -> None:
    names = (b"host", b"sec-websocket-key", b"authorization")
    assert [is_handshake_header(name) for name in names] == [True, True, False]


def test_the_operators_rows_name_the_cause_of_a_refused_upgrade() -> None:
    rows = operator_rows([{"name": "closed", "code": "e7", "cause": "provider_error"}])
    causes = CauseRules(silence=SilenceLimits(), classify=OperatorCauses(rows).classify)
    body = b'{"error":{"code":"E7","message":"No."}}'
    call = handshake(b"/v1/realtime", b"model=gpt-realtime", causes=causes)
    exchange = call.refused(UpgradeRefusedError(401, JSON, body), 1.0)
    assert exchange.cause is not None
    assert (exchange.cause.rule, exchange.cause.subcategory) == (
        "operator:closed", Subcategory.PROVIDER_ERROR,
    )  # fmt: skip


# --- The calls of one socket: opened, finished, and waited for ------------------------------------


def record(book: Book) -> WebSocketRecord:
    context = make_context("http://provider", book)
    target = Addresses(context.upstreams, KEYRING).read(b"/r/r1/openai/v1/realtime", b"", [])
    return WebSocketRecord(context, target, [(b"authorization", b"Bearer sk-1")])


async def test_each_call_has_the_upgrades_rollout_and_key_and_an_id_of_its_own() -> None:
    of = record(Book())
    first, second = of.new_call("UPGRADE"), of.new_call("WEBSOCKET")
    assert (first.rollout_id, first.path) == ("r1", b"/v1/realtime")
    assert first.key_digest == second.key_digest is not None
    assert first.id != second.id


async def test_started_and_finished_calls_are_recorded_in_order() -> None:
    book = Book()
    of = record(book)
    observer = CallObserver(of.new_call("WEBSOCKET"), salt=b"salt")
    started = observer.in_flight()
    finished = replace(started, ending=Ending.COMPLETE)
    of.apply(CallChanges(started=[started], finished=[finished]))
    await of.starts_durable()
    await of.durable()
    assert [each.ending for each in (*book.opens, *book.exchanges)] == [None, Ending.COMPLETE]


async def test_a_committed_call_is_waited_for() -> None:
    book = Book()
    of = record(book)
    observer = CallObserver(of.new_call("UPGRADE"), salt=b"salt")
    book.hold.set()
    waiting = asyncio.create_task(of.commit(observer.finish(Ending.COMPLETE, 1.0)))
    while not book.exchanges:
        await asyncio.sleep(0)
    assert not waiting.done()
    book.hold.clear()
    await asyncio.wait_for(waiting, 60)


async def test_each_call_knows_where_its_socket_came_from() -> None:
    context = make_context("http://provider", Book())
    target = Addresses(context.upstreams, KEYRING).read(b"/r/r1/openai/v1/realtime", b"", [])
    of = WebSocketRecord(context, target, [], ("10.0.0.1", 9))
    assert of.new_call("WEBSOCKET").client == ("10.0.0.1", 9)
    assert record(Book()).new_call("WEBSOCKET").client is None
