"""The upgrade request: what it asks for, and which outcomes count in a verdict."""

from __future__ import annotations

from typing import Any

import pytest

from classifier.operator_causes import OperatorCauses, operator_rows
from classifier.records import Ending, Kind
from classifier.verdicts import Subcategory
from proxy.capture.observer import CauseRules, SilenceLimits
from proxy.capture.request import Call
from proxy.outbound.websocket import UpgradeRefusedError
from proxy.relay.handshake import HandshakeCall, UpgradeRequest, is_handshake_header, use_http
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
