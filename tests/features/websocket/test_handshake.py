"""The upgrade request: what it asks for, and which outcomes count in a verdict."""

from __future__ import annotations

import asyncio
from typing import Any

from classifier.operator_causes import OperatorCauses, operator_rows
from classifier.records import Ending, Kind
from classifier.verdicts import Subcategory
from proxy.capture.observer import CallObserver, CauseRules, SilenceLimits
from proxy.capture.request import Call
from proxy.features.websocket.connector import UpgradeRefusedError
from proxy.features.websocket.handshake import (
    HandshakeCall,
    WebSocketRecord,
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


def test_the_operators_rows_name_the_cause_of_a_refused_upgrade() -> None:
    rows = operator_rows([{"name": "closed", "code": "e7", "cause": "provider_error"}])
    causes = CauseRules(silence=SilenceLimits(), classify=OperatorCauses(rows).classify)
    body = b'{"error":{"code":"E7","message":"No."}}'
    call = handshake(b"/v1/realtime", b"model=gpt-realtime", causes=causes)
    exchange = call.refused(UpgradeRefusedError(401, JSON, body), 1.0)
    assert (exchange.kind, exchange.model) == (Kind.INFERENCE, "gpt-realtime")
    assert exchange.cause is not None
    assert (exchange.cause.rule, exchange.cause.subcategory) == (
        "operator:closed", Subcategory.PROVIDER_ERROR,
    )  # fmt: skip


# --- The calls of one socket: opened, finished, and waited for ------------------------------------


def record(book: Book) -> WebSocketRecord:
    context = make_context("http://provider", book)
    target = Addresses(context.upstreams, KEYRING).read(b"/r/r1/openai/v1/realtime", b"", [])
    key = [(b"authorization", b"Bearer sk-1")]
    return WebSocketRecord(context, target, key, ("10.0.0.1", 9))


async def test_each_call_has_the_upgrades_rollout_key_and_client_and_an_id_of_its_own() -> None:
    of = record(Book())
    first, second = of.new_call("UPGRADE"), of.new_call("WEBSOCKET")
    assert (first.rollout_id, first.path) == ("r1", b"/v1/realtime")
    assert first.key_digest == second.key_digest is not None
    assert first.client == second.client == ("10.0.0.1", 9)
    assert first.id != second.id


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
