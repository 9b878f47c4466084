"""Which calls begin at once, which have to wait, and what is planned of their heads."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from threading import Event, Thread
from typing import Any

import pytest

from classifier.records import Exchange, Timing
from proxy.capture import usage_injection
from proxy.inbound.parser import request_head
from proxy.inbound.response import FlowControl
from proxy.relay import relay as relay_module
from proxy.relay.admission import Access, AccessState
from proxy.relay.call import PlannedHead
from proxy.relay.context import CallLimits, LiveCalls, RefusedRequests, UnattributedCalls
from proxy.relay.relay import AgentConnection, Relay
from proxy.routing.address_guard import LocalNames
from proxy.routing.upstreams import Auth
from proxy.wire import framing
from tests.fakes import answers
from tests.fakes.provider import Answer, Provider, Request
from tests.fakes.relaying import KEYRING, Book, make_context, relaying
from tests.proxy.relay.byhand import (
    ASKED,
    PATH,
    STREAMED,
    HeldBook,
    Line,
    Lines,
    call_by_hand,
    connection,
    request_of,
)
from tests.waiting import until

KEYED = {"real_keys": {"openai": "sk-real"}}
ASKS_USAGE: dict[str, Any] = {"upstreams": {"openai": {"include_usage": True}}}
OWN = ((b"authorization", b"Bearer own"),)
PROVEN = b"/r/r1~%b/openai/v1/chat/completions" % KEYRING.secret_of("r1").encode()


class Known(Access):
    """The access of one rollout, already looked up."""

    def __init__(self, state: AccessState | None, *, at: float = 0.0) -> None:
        nothing: Any = None
        super().__init__(look_up=nothing, answered=nothing, wall=lambda: 100.0, clock=lambda: 0.5)
        if state is not None:
            self._states["r1"] = at, state


RULE: Any = object()


class NeverSigns:
    """A signer that does not come to an end."""

    whole_body = False

    async def available(self) -> bool:
        return True

    async def sign(self, **_: object) -> Any:
        await asyncio.Event().wait()


# Calls that wait for nothing.
AT_ONCE: dict[str, dict[str, Any]] = {
    "a call": {},
    "HEAD": {"method": "HEAD", "path": b"/r/r1/openai/v1/models", "body": b""},
    "no body": {"body": b"", "method": "GET", "path": b"/r/r1/openai/v1/models"},
    "a query": {"path": PATH + b"?a=1"},
    "a judge's": {"path": b"/r/r1/as/judge/openai/v1/chat/completions"},
    "named by its key": {
        "path": b"/openai/v1/chat/completions",
        "headers": ((b"authorization", b"Bearer " + KEYRING.mint("r1").encode()),),
    },
    "named by a header": {
        "path": b"/openai/v1/chat/completions", "headers": ((b"x-truezero-rollout", b"r1"),),
    },
    "the operator's key": KEYED,
    "its own key": {**KEYED, "headers": OWN},
    "a key in its place": {**KEYED, "headers": OWN, "replace_keys": True},
    "no stream, so no usage": ASKS_USAGE,
    "usage that it asks for": {
        **ASKS_USAGE,
        "body": b'{"stream":true,"stream_options":{"include_usage":true},"messages":[]}',
    },
    "a proven rollout": {"path": PROVEN, "proof_required": True},
    "one that is known": {"path": PROVEN, "access": Known(AccessState(ends_at=101.0))},
    "one of another upstream": {
        "path": PROVEN, "access": Known(AccessState(upstream="openai")),
    },
    "nobody watched": {"access": Known(None)},
    "a time limit": {"limits": CallLimits(read_s=60)},
    "another time limit": {"limits": CallLimits(write_s=60)},
    "a part of its body": {"body": ASKED[:9], "length": b"99", "more": True},
    "a part of unknown length": {"body": ASKED[:9], "length": b"", "more": True},
}  # fmt: skip
# What has to be asked for, or signed.
WAITING: dict[str, dict[str, Any]] = {
    "registration": {"admits": asyncio.Event().wait},
    "a path that is no model call": {**KEYED, "path": b"/r/r1/openai/v1/files"},
    "a signer": {"signers": {Auth.BEARER: NeverSigns()}, "any_path": True},
    "never looked up": {"path": PROVEN, "access": Known(None)},
    "looked up too long ago": {"path": PROVEN, "access": Known(AccessState(), at=-1.0)},
    "ended": {"path": PROVEN, "access": Known(AccessState(ends_at=99.0))},
    "of another upstream": {"path": PROVEN, "access": Known(AccessState(upstream="gemini"))},
    "under a rule": {"path": PROVEN, "access": Known(AccessState(rules={RULE: True}))},
    "all of a body for its usage": {
        **ASKS_USAGE, "body": STREAMED[:9], "length": b"%d" % len(STREAMED), "more": True,
    },
}  # fmt: skip
REFUSED: dict[str, tuple[bytes, dict[str, Any]]] = {
    "unknown_upstream": (b"404", {"path": b"/r/r1/nowhere/v1"}),
    "no_rollout": (b"400", {"path": b"/openai/v1/chat/completions"}),
    "unproven_rollout": (b"403", {"proof_required": True}),
    "body_too_large": (b"413", {"limits": CallLimits(body_bytes=3)}),
    "too_many_calls": (b"503", {"live": LiveCalls(total=0)}),
}


@pytest.mark.parametrize("name", AT_ONCE)
async def test_a_call_that_waits_for_nothing_is_sent_at_once(name: str) -> None:
    call = call_by_hand(**AT_ONCE[name])
    assert call.to_provider.said().startswith((b"POST /v1/", b"GET /v1/", b"HEAD /v1/"))
    assert call.context.live.any_of("r1")
    assert not any(isinstance(each, asyncio.Task) for each in call.tasks)


@pytest.mark.parametrize("name", WAITING)
async def test_nothing_is_sent_of_a_call_that_has_to_wait(name: str) -> None:
    call = call_by_hand(**WAITING[name])
    assert (call.to_provider.said(), call.to_agent.said()) == (b"", b"")
    for each in tuple(call.tasks):
        each.cancel()
    await asyncio.sleep(0.01)
    call.book.commit()
    assert call.to_agent.said().startswith(b"HTTP/1.1 500 ")
    assert call.over


def test_the_paths_of_agents_are_claimed() -> None:
    relay = Relay(make_context("http://127.0.0.1:9", Book()))
    claimed = [relay.claims(path) for path in (PATH, b"/openai/v1/x", b"/rollouts")]
    assert claimed == [True, True, False]


@pytest.mark.parametrize("code", REFUSED)
async def test_a_refused_call_is_answered_at_once_and_not_recorded(code: str) -> None:
    status, how = REFUSED[code]
    call = call_by_hand(**how)
    head, _, body = call.to_agent.said().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    assert json.loads(body)["code"] == code
    assert (call.to_provider.said(), call.book.opens, call.over) == (b"", [], True)
    assert call.book.exchanges == []
    assert call.context.refused.calls.counts == {code: 1}


async def test_a_refusal_waits_for_an_agent_that_reads() -> None:
    call = call_by_hand(path=b"/r/r1/nowhere/v1", paused=True)
    assert call.to_agent.said() == b""
    call.flow.resume_writing()
    assert call.to_agent.said().startswith(b"HTTP/1.1 404 ")


async def test_a_request_that_cannot_be_framed_is_a_call_that_was_not_sent() -> None:
    call = call_by_hand(headers=((b"content-length", b"9"),))
    assert (call.to_provider.said(), call.only.ending) == (b"", "cut_upstream")
    call.book.commit()
    assert call.to_agent.said().startswith(b"HTTP/1.1 502 ")


@pytest.mark.parametrize("body", [STREAMED, b'{"\\u0073tream":true}'])
async def test_usage_is_asked_for_at_once(body: bytes) -> None:
    call = call_by_hand(**ASKS_USAGE, body=body)
    sent = call.to_provider.said()
    assert sent.endswith(body[1:])
    assert b'{"stream_options":{"include_usage":true},' in sent
    head, _, asked = sent.partition(b"\r\n\r\n")
    assert head.endswith(b"content-length: %d" % len(asked))


# --- one connection ----------------------------------------------------------------------------

RETRIED = (b"x-stainless-retry-count", b"1")
HEADS: tuple[dict[str, Any], ...] = (
    {},
    {"body": ASKED + b" "},
    {"body": b"x" * 12345},
    {"body": STREAMED},
    {"body": b"[]"},
    {"body": b'{"model":"a","model":"b","tools":[{"name":"f"}]}  '},
    {"headers": OWN},
    {"headers": (*OWN, RETRIED)},
    {"headers": ((b"connection", b"content-length"),)},
    {"headers": ((b"x-length", b"%d" % len(ASKED)),)},
    {"path": PATH + b"?a=1"},
    {"path": PATH.replace(b"r1", b"r2")},
    {"method": "PUT"},
    {"length": b"0%d" % len(ASKED)},
    {"length": b""},
    {"body": b"", "method": "GET", "length": b""},
    {"body": b"", "method": "GET"},
)


async def test_what_a_connection_knows_of_its_last_head_changes_no_call() -> None:
    """Nor what another connection sent before."""
    lines, book = Lines(), HeldBook()

    def new() -> Relay:
        return Relay(make_context("http://provider", book, transport=lines.transport))

    def becomes(calls: AgentConnection, how: dict[str, Any]) -> tuple[bytes, Exchange]:
        """A request at the provider, and on record."""
        provider, line, _ = connection()
        lines.add(provider)
        flow = FlowControl(Line(), asyncio.get_running_loop())
        calls.take(request_of(flow, [], **how), set())
        provider.data_received(b"HTTP/1.1 429 No\r\ncontent-length: 2\r\n\r\n{}")
        return line.said(), replace(book.exchanges.pop(), id="", timing=Timing(0.0))

    alone = [becomes(new().agent_calls(), how) for how in HEADS]
    relay = new()
    one, another = relay.agent_calls(), relay.agent_calls()
    for at in every_pair(len(HEADS)):
        assert becomes(one, HEADS[at]) == alone[at]
    assert [becomes(another, how) for how in HEADS] == alone


def every_pair(count: int) -> Iterator[int]:
    """Numbers below the count in an order in which each follows each, itself too."""
    for first in range(count):
        yield first
        for second in range(first + 1, count):
            yield from (first, second)
    yield 0


@pytest.mark.reaches_in
def test_a_head_is_planned_once_for_all_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "_PLANS", 3)
    relay = Relay(make_context("http://provider", HeldBook(), transport=Lines().transport))
    length = b"%d" % len(ASKED)

    def planned(path: bytes = PATH, **headers: str) -> PlannedHead:
        named = [(name.encode(), value.encode()) for name, value in headers.items()]
        head = request_head(b"POST", path, "1.1", [*named, (b"content-length", length)])
        target = relay.read(head.raw_path, head.query, head.headers)
        return relay.planned(head, length) or relay.plan(head, target)

    first = planned(authorization="a")
    assert planned(authorization="a") is first
    other = planned(authorization="b")
    assert other.key_digest != first.key_digest
    assert planned(authorization="b") is other
    for number in range(3):
        planned(PATH + b"?%d" % number)
    assert planned(authorization="b") is not other, "it was let go for newer ones"
    assert planned(long="x" * 9000) is not planned(long="x" * 9000), "too long to be kept"


async def test_a_call_that_names_no_rollout_is_counted_each_time() -> None:
    """So its head is not planned: that would be read once for all."""
    lines, counted = Lines(), UnattributedCalls(LocalNames("x"))
    context = make_context(
        "http://provider", HeldBook(), transport=lines.transport,
        refused=RefusedRequests(unattributed=counted),
    )  # fmt: skip
    calls = Relay(context).agent_calls()
    for number in range(1, 4):
        lines.add(connection()[0])
        flow = FlowControl(Line(), asyncio.get_running_loop())
        calls.take(request_of(flow, [], path=b"/openai/v1/chat/completions"), set())
        assert counted.counts == {"openai": number}


async def test_usage_may_be_asked_for_behind_a_body_that_is_too_long_for_it() -> None:
    lines = Lines(connection()[0])
    relay = Relay(
        make_context("http://provider", HeldBook(), transport=lines.transport, **ASKS_USAGE)
    )
    calls, flow = relay.agent_calls(), FlowControl(Line(), asyncio.get_running_loop())
    calls.take(request_of(flow, [], b"x" * (usage_injection.BODY_LIMIT + 1)), set())
    second, line, _ = connection()
    lines.add(second)
    calls.take(request_of(flow, [], STREAMED), set())
    assert b"include_usage" in line.said()


# --- over real sockets -------------------------------------------------------------------------

CALL = (
    b"POST /r/r1/openai/v1/chat/completions HTTP/1.1\r\nhost: a\r\nconnection: close\r\n"
    b"authorization: Bearer sk-1\r\ncontent-length: %d\r\n\r\n%b" % (len(STREAMED), STREAMED)
)
# Of many turns of decoding each; the stream's terminal event is in the last one.
LONG = b'{"choices":[{"message":{"content":"%b"},"finish_reason":"stop"}]}' % (b"x" * 10**6)
EVENTS = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n' * 9_000 + b"data: [DONE]\n\n"
MUCH: dict[str, Answer] = {
    **{
        coding: answers.encoded(answers.streamed(EVENTS), coding)
        for coding in ("gzip", "br", "zstd")
    },
    "gzip at once": answers.encoded(Answer(body=(LONG,)), "gzip"),
}


@pytest.mark.parametrize("name", MUCH)
def test_what_takes_many_turns_to_decode_passes_and_is_read_to_its_end(name: str) -> None:
    with Provider(MUCH[name]) as provider, relaying(provider.url) as relay:
        head, _, body = relay.raw(CALL).partition(b"\r\n\r\n")
        exchange = relay.book.only
    if b"transfer-encoding: chunked" in head:
        body = unchunked(body)
    assert body.removesuffix(b"<end>") == MUCH[name].content
    assert (exchange.ending, exchange.unreadable_reason, exchange.output_seen) == (
        "complete",
        None,
        True,
    )
    assert exchange.finish_reason == ("stop" if name == "gzip at once" else None)


def unchunked(body: bytes) -> bytes:
    """The chunks in a row; the last one is written as ``<end>``."""
    parts = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        parts.append(rest[: int(size, 16)] or b"<end>")
        body = rest[int(size, 16) + 2 :]
    return b"".join(parts)


def test_pipelined_calls_are_answered_in_their_order() -> None:
    """Plain ones, and between them one that is not: it has no body yet as the others are read."""
    calls = [
        CALL.replace(b"connection: close\r\n", b"").replace(b"r1", b"r%d" % n) for n in range(4)
    ]
    with Provider() as provider, relaying(provider.url) as relay:
        provider.plays(*(Answer(body=(b"%d" % n,)) for n in range(5)))
        with socket.create_connection(("127.0.0.1", relay.port), 60) as agent:
            agent.sendall(b"".join(calls) + CALL[:-5])
            got = b""
            while b"\r\n\r\n3" not in got:
                got += agent.recv(65536)
            agent.sendall(CALL[-5:])
            while part := agent.recv(65536):
                got += part
        rollouts = [each.rollout_id for each in relay.book.wait_for(5)]
    assert [got.index(b"\r\n\r\n%d" % n) for n in range(5)] == sorted(
        got.index(b"\r\n\r\n%d" % n) for n in range(5)
    )
    assert rollouts == ["r0", "r1", "r2", "r3", "r1"]


async def test_another_call_ends_while_a_bomb_is_decoded() -> None:
    """Its long events take many turns of decoding, and little work."""
    events = b'data: {"x":"%b"}\n\n' % (b"x" * 2_000) * 400
    packed = gzip.compress(events)
    bombed = call_by_hand()
    bombed.says(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n"
        b"content-length: %d\r\n\r\n" % len(packed),
        packed,
    )
    bombed.book.opened_now()
    other = call_by_hand()
    other.says(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
    await asyncio.sleep(0)
    other.book.commit()
    assert other.to_agent.said().startswith(b"HTTP/1.1 200 ")
    assert bombed.book.exchanges == []
    turns = 0
    while not bombed.book.exchanges:
        await asyncio.sleep(0)
        turns += 1
    assert turns > len(events) / framing.TURN_BYTES / 2


@pytest.mark.slow
def test_others_are_answered_while_a_bomb_is_decoded() -> None:
    """4 kB that are 200,000 events: others' calls end before it does, whatever a turn takes."""
    bomb = answers.encoded(answers.streamed(b"data: {}\n\n" * 200_000), "gzip")
    done = Event()

    def play(request: Request) -> Answer:
        return bomb if b"/bomb/" in request.path.encode() else answers.chat()

    with Provider(play) as provider, relaying(provider.url) as relay:

        def fetch() -> None:
            relay.raw(CALL.replace(b"/v1/chat", b"/v1/bomb/chat"))
            done.set()

        agent = Thread(target=fetch)
        agent.start()
        until(lambda: provider.requests)
        for _ in range(3):
            assert relay.raw(CALL).startswith(b"HTTP/1.1 200 ")
        assert not done.is_set()
        agent.join(300)
        assert done.is_set()


async def test_a_call_that_has_to_be_admitted_is_asked_for_each_time() -> None:
    asked: list[str] = []

    async def admits(rollout_id: str) -> None:
        asked.append(rollout_id)

    lines = Lines()
    context = make_context("http://provider", HeldBook(), transport=lines.transport, admits=admits)
    calls = Relay(context).agent_calls()
    for number in range(1, 4):
        provider, line, _ = connection()
        lines.add(provider)
        calls.take(request_of(FlowControl(Line(), asyncio.get_running_loop()), []), set())
        assert line.said() == b""
        for _turn in range(4):
            await asyncio.sleep(0)
        assert line.said().startswith(b"POST ")
        assert asked == ["r1"] * number
