"""The calls of one socket: opened, finished, and waited for."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from classifier.records import Ending
from proxy.capture.observer import CallObserver
from proxy.capture.websocket import CallChanges
from proxy.relay.handshake import WebSocketRecord
from proxy.routing.target import Addresses
from tests.fakes.relaying import KEYRING, Book, make_context


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
    started = observer.opened()
    finished = replace(started, ending=Ending.COMPLETE)
    of.apply(CallChanges(started=[started], finished=[finished]))
    await of.opened()
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
