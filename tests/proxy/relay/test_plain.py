"""Which calls are plain, and that both ways do the same to all others' eyes."""

from __future__ import annotations

import asyncio
import itertools
import socket
from dataclasses import replace
from threading import Event, Thread
from typing import Any

import pytest

from classifier.records import Exchange, Timing
from proxy.capture import usage_injection
from proxy.inbound.http import TakePlain
from proxy.inbound.parser import request_head
from proxy.inbound.response import FlowControl
from proxy.relay import plain
from proxy.relay.admission import Access, AccessState
from proxy.relay.context import CallLimits, LiveCalls
from proxy.relay.operator_access import OperatorAccess
from proxy.relay.relay import Relay
from proxy.routing.upstreams import Auth
from tests.fakes import answers
from tests.fakes.provider import Answer, Cut, Framing, Pause, Provider, Request, Script
from tests.fakes.relaying import BY_TASKS, KEYRING, OURS, Protocol, make_context, relaying
from tests.proxy.relay.plainly import (
    ASKED,
    PATH,
    STREAMED,
    HeldBook,
    Line,
    Lines,
    connection,
    plainly,
    request_of,
)
from tests.waiting import until
from truezero.models import Fault

KEYED = {"real_keys": {"openai": "sk-real"}}
ASKS_USAGE = {"upstreams": {"openai": {"include_usage": True}}}
OWN = ((b"authorization", b"Bearer own"),)
PROVEN = b"/r/r1~%b/openai/v1/chat/completions" % KEYRING.secret_of("r1").encode()


class Signs:
    """A signer that nobody asks."""

    whole_body = False


class Known(Access):
    """The access of one rollout, already looked up."""

    def __init__(self, state: AccessState | None, *, at: float = 0.0) -> None:
        nothing: Any = None
        super().__init__(
            look_up=nothing, count=nothing, answered=nothing, wall=lambda: 100.0, clock=lambda: 1.0,
            ttl_s=1.5,
        )  # fmt: skip
        if state is not None:
            self._states["r1"] = at, state


async def none_admitted(_: str) -> None:
    raise AssertionError


PLAIN: dict[str, dict[str, Any]] = {
    "a call": {},
    "no body": {"body": b"", "method": "GET", "path": b"/r/r1/openai/v1/models"},
    "a query": {"path": PATH + b"?a=1"},
    "a judge's": {"path": b"/r/r1/as/judge/openai/v1/chat/completions"},
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
}  # fmt: skip
UNUSUAL: dict[str, dict[str, Any]] = {
    "HEAD": {"method": "HEAD", "body": b""},
    "no upstream": {"path": b"/r/r1/nowhere/v1"},
    "no proof": {"proof_required": True},
    "a body over the limit": {"limits": CallLimits(body_bytes=3)},
    "a time limit": {"limits": CallLimits(read_s=1)},
    "another time limit": {"limits": CallLimits(write_s=1)},
    "registration": {"admits": none_admitted},
    "as many calls as there may be": {"live": LiveCalls(total=0)},
    "a path that is no model call": {**KEYED, "path": b"/r/r1/openai/v1/files"},
    "a signer": {"signers": {Auth.BEARER: Signs()}},
    "usage to be asked for": {**ASKS_USAGE, "body": STREAMED},
    "the same in disguise": {**ASKS_USAGE, "body": b'{"\\u0073tream":true}'},
    "framed twice": {"headers": ((b"content-length", b"9"),)},
    "never looked up": {"path": PROVEN, "access": Known(None)},
    "looked up too long ago": {"path": PROVEN, "access": Known(AccessState(), at=-1.0)},
    "ended": {"path": PROVEN, "access": Known(AccessState(ends_at=99.0))},
    "of another upstream": {"path": PROVEN, "access": Known(AccessState(upstream="gemini"))},
    "drilled": {"path": PROVEN, "access": Known(AccessState(fault=Fault(kind="rate_limit")))},
}


@pytest.mark.parametrize("name", PLAIN)
async def test_a_plain_call_is_sent_at_once(name: str) -> None:
    call = plainly(**PLAIN[name])
    assert call.taken
    assert call.to_provider.said().startswith((b"POST /v1/", b"GET /v1/"))
    assert call.context.live.any_of("r1")


@pytest.mark.parametrize("name", UNUSUAL)
async def test_any_other_call_is_left_as_it_was(name: str) -> None:
    how = UNUSUAL[name]
    call = plainly(**how)
    assert not call.taken
    assert (call.to_provider.said(), call.book.opens, call.over) == (b"", [], True)
    assert await call.agent.receive() == {
        "type": "http.request", "body": how.get("body", ASKED), "more_body": False,
    }  # fmt: skip
    assert call.context.notices.refusals.counts == {}


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

    def becomes(take: TakePlain | None, how: dict[str, Any]) -> tuple[bytes, Exchange]:
        """A request at the provider, and on record."""
        provider, line, _ = connection()
        lines.add(provider)
        flow = FlowControl(Line(), asyncio.get_running_loop())
        assert take is not None
        assert take(request_of(flow, [], **how), set())
        provider.data_received(b"HTTP/1.1 429 No\r\ncontent-length: 2\r\n\r\n{}")
        return line.said(), replace(book.exchanges.pop(), id="", timing=Timing(0.0))

    relay = new()
    alone = [becomes(new().plain_calls(), how) for how in HEADS]
    for first, second in itertools.product(range(len(HEADS)), repeat=2):
        same = relay.plain_calls()
        found = [becomes(same, HEADS[at]) for at in (first, second, second)]
        assert found == [alone[first], alone[second], alone[second]]


def test_a_head_is_planned_once_for_all_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "_PLANS", 3)
    context = make_context("http://provider", HeldBook(), transport=Lines().transport)
    calls = plain.plain_calls(context, OperatorAccess(context))
    assert calls is not None

    def planned(path: bytes = PATH, **headers: str) -> plain.PlannedCall:
        named = [(name.encode(), value.encode()) for name, value in headers.items()]
        stated = [*named, (b"content-length", b"%d" % len(ASKED))]
        found = calls.planned(request_head(b"POST", path, "1.1", stated), ASKED, stated[-1][1])
        assert found is not None
        return found

    first = planned(authorization="a")
    assert planned(authorization="a") is first
    other = planned(authorization="b")
    assert other.key_digest != first.key_digest
    assert planned(authorization="b") is other
    for number in range(3):
        planned(PATH + b"?%d" % number)
    assert planned(authorization="b") is not other, "it was let go for newer ones"
    assert planned(long="x" * 9000) is not planned(long="x" * 9000), "too long to be kept"


async def test_usage_may_be_asked_for_behind_a_body_that_is_too_long_for_it() -> None:
    lines = Lines(connection()[0])
    relay = Relay(
        make_context("http://provider", HeldBook(), transport=lines.transport, **ASKS_USAGE)
    )
    take, flow = relay.plain_calls(), FlowControl(Line(), asyncio.get_running_loop())
    assert take is not None
    assert take(request_of(flow, [], b"x" * (usage_injection.BODY_LIMIT + 1)), set())
    assert not take(request_of(flow, [], STREAMED), set())


# --- both ways ---------------------------------------------------------------------------------

CALL = (
    b"POST /r/r1/openai/v1/chat/completions HTTP/1.1\r\nhost: a\r\nconnection: close\r\n"
    b"authorization: Bearer sk-1\r\ncontent-length: %d\r\n\r\n%b" % (len(STREAMED), STREAMED)
)
PARTS = Answer(body=(b'{"choices":', Pause(0.02), b"[]}"))
LATER = (("content-type", "application/json"), ("retry-after", "7"))
LIMITED = b'{"error":{"type":"rate_limit_error","message":"too many requests"}}'
# Of many turns of decoding each; the stream's terminal event is in the last one.
LONG = b'{"choices":[{"message":{"content":"%b"},"finish_reason":"stop"}]}' % (b"x" * 10**6)
EVENTS = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n' * 9_000 + b"data: [DONE]\n\n"


SCRIPTS: dict[str, Script] = {
    "whole": answers.chat(),
    "tools": answers.chat_tools(),
    "stream": answers.chat_stream().paced(0.01),
    "stream at once": answers.chat_stream(),
    "stream and more": answers.streamed(b"data: [DONE]\n\n", b": bye\n\n").paced(0.02),
    "parts": PARTS,
    "chunks": replace(PARTS, framing=Framing.CHUNKED),
    "until its end": replace(PARTS, framing=Framing.EOF),
    "gzip": answers.encoded(answers.chat(), "gzip"),
    **{
        f"much {coding}": answers.encoded(answers.streamed(EVENTS), coding)
        for coding in ("gzip", "br", "zstd")
    },
    "much gzip at once": answers.encoded(Answer(body=(LONG,)), "gzip"),
    "no content": Answer(status=204),
    "empty": Answer(),
    "interim": Answer(body=(b"{}",), interim=((103, (("link", "</a>"),)),)),
    "an error": Answer(status=429, headers=LATER, body=(LIMITED,)),
    "cut": PARTS.stopping_after(2, Cut()),
    "reset": answers.chat_stream().stopping_after(2, Pause(0.02), Cut(reset=True)),
    "no head": (Cut(),),
    "no http": (b"\x00\xff\r\n\r\n", Cut()),
    "strange status": (b"HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n",),
    # and nothing more, as an interim answer would be followed by another
    "status below 100": (b"HTTP/1.1 099 Odd\r\ncontent-length: 0\r\n\r\n",),
    "status 0": (b"HTTP/1.1 000 None\r\ncontent-length: 0\r\n\r\n",),
    "framed twice": (
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n",
        Cut(),
    ),
    "a header with a break": (
        b"HTTP/1.1 200 OK\r\nx-a: a\x01b\r\nx-b: 1\r\ncontent-length: 2\r\n\r\n{}",
        Cut(),
    ),
}


Played = tuple[bytes, bytes, Exchange]  # the head, and the body out of its chunks; the record


def all_played(how: Protocol) -> dict[str, Played]:
    """What an agent gets for each script, and what is recorded of it, without the times."""
    got: dict[str, Played] = {}
    with Provider() as provider, relaying(provider.url, protocol=how) as relay:
        for name, script in SCRIPTS.items():
            provider.plays(script)
            head, _, body = relay.raw(CALL).partition(b"\r\n\r\n")
            if b"transfer-encoding: chunked" in head:
                body = unchunked(body)
            exchange = replace(relay.book.exchanges[-1], timing=Timing(0.0))
            got[name] = head, body, exchange
    return got


def unchunked(body: bytes) -> bytes:
    """The chunks in a row; the last one is written as ``<end>``."""
    parts = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        parts.append(rest[: int(size, 16)] or b"<end>")
        body = rest[int(size, 16) + 2 :]
    return b"".join(parts)


def test_both_ways_give_and_record_the_same() -> None:
    plain, by_tasks = all_played(OURS), all_played(BY_TASKS)
    assert plain == by_tasks
    assert len({exchange.id for _, _, exchange in plain.values()}) == len(SCRIPTS)


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


@pytest.mark.parametrize("how", [OURS, BY_TASKS])
def test_others_are_answered_while_a_bomb_is_decoded(how: Protocol) -> None:
    """4 kB that are 200,000 events: others' calls end before it does, whatever a turn takes."""
    bomb = answers.encoded(answers.streamed(b"data: {}\n\n" * 200_000), "gzip")
    done = Event()

    def play(request: Request) -> Answer:
        return bomb if b"/bomb/" in request.path.encode() else answers.chat()

    with Provider(play) as provider, relaying(provider.url, protocol=how) as relay:

        def fetch() -> None:
            relay.raw(CALL.replace(b"/v1/chat", b"/v1/bomb/chat"))
            done.set()

        agent = Thread(target=fetch)
        agent.start()
        until(lambda: provider.requests)
        for _ in range(3):
            assert relay.raw(CALL).startswith(b"HTTP/1.1 200 ")
        assert not done.is_set()
        agent.join(60)
        assert done.is_set()
