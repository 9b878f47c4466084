"""Relayed calls, step by step: what each side was sent, and the exchange on record.

A case is a list of steps of an agent and a provider, whose sockets both are here, at a relay that
runs: each step waits for what it depends on, so that nothing depends on the machine's speed. A row
keeps the bytes of both sides, a chunked body out of its chunks, and what was recorded, without
times and ids. ``UPDATE_GOLDEN=1 pytest tests/proxy/relay/test_golden_calls.py`` rewrites
``calls.jsonl``. Features whose work agents see on the wire have cases of their own beside them.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import hashlib
import json
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from classifier.codec import encode_exchange
from classifier.records import Exchange
from proxy.outbound.transport import Http1Transport
from proxy.relay.admission import Access, AccessState
from proxy.relay.context import CallLimits
from proxy.routing.errors import Refusal
from proxy.routing.headers import Pairs
from proxy.routing.upstreams import Auth
from tests import golden
from tests.fakes.relaying import KEYRING, Relaying, relaying

PATIENCE_S = 60
_LONGEST = 2000  # bytes that are kept as they are; of more, their digest
# Times and ids; and what is read from the answer's content alone, which other tests keep.
_LEFT_OUT = frozenset({
    "id", "rollout_id", "started_at", "first_byte_s", "first_token_s", "duration_s",
    "answer_state", "inferred", "output_digest", "output_reads_as",
})  # fmt: skip

Step = tuple[Any, ...]
"""A method of `Scene`, by name, and its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call, or a few on one relay.

    ``rules``: the relay's, made anew for each run. ``records``: how many exchanges are recorded.
    """

    steps: tuple[Step, ...]
    rules: Callable[[], dict[str, Any]] = dict
    records: int = 1


class Scene:
    """An agent and a provider around a relay."""

    def __init__(self, relay: Relaying, listener: socket.socket) -> None:
        self._relay = relay
        self._listener = listener
        self._agents: list[socket.socket] = []
        self.heard: list[bytearray] = []  # by the agent, on each of its connections
        self.ends: list[str] = []
        self._providers: list[socket.socket] = []
        self.asked: list[bytearray] = []  # of the provider, on each of its connections
        self._read_to = 0
        self._is_open = False

    def play(self, steps: tuple[Step, ...]) -> None:
        """Take one step after the other."""
        for name, *arguments in steps:
            getattr(self, name)(*arguments)
        while len(self.ends) < len(self._agents):
            self.finish()

    def close(self) -> None:
        """Close both sides."""
        for each in (*self._agents, *self._providers):
            each.close()

    # the agent

    def connect(self) -> None:
        """Open a connection, after the last one has been read to its end."""
        if self._agents and len(self.ends) < len(self._agents):
            self.finish()
        self._agents.append(self._relay.connect(PATIENCE_S))
        self.heard.append(bytearray())

    def send(self, data: bytes) -> None:
        """Send a request, or a part of one."""
        if not self._agents:
            self.connect()
        with contextlib.suppress(ConnectionError):  # what comes back says why
            self._agents[-1].sendall(data)

    def hear(self, end: bytes) -> None:
        """Read until this has come."""
        while end not in self.heard[-1]:
            part = self._agents[-1].recv(65536)
            assert part, f"the agent's connection ended before {end!r}: {self.heard[-1]!r}"
            self.heard[-1] += part

    def finish(self) -> None:
        """Read to the end of the connection."""
        end = "closed"
        try:
            while part := self._agents[-1].recv(65536):
                self.heard[-1] += part
        except ConnectionError:
            end = "reset"
        self.ends.append(end)

    def leave(self, how: str = "left") -> None:
        """Hang up: with a FIN, or with a RST."""
        if how == "reset":
            linger = struct.pack("ii", 1, 0)
            self._agents[-1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._agents[-1].close()
        self.ends.append("left")
        assert self._relay.app is not None
        connections = self._relay.app.connections
        _until(lambda: not connections)  # the relay has seen it

    # the provider

    def ask(self, end: bytes = b"\r\n\r\n") -> None:
        """Read until what came since the last time ends so."""
        if not self._is_open:
            connection, _ = self._listener.accept()
            connection.settimeout(PATIENCE_S)
            self._providers.append(connection)
            self.asked.append(bytearray())
            self._read_to, self._is_open = 0, True
        asked = self.asked[-1]
        while not asked[self._read_to :].endswith(end):
            part = self._providers[-1].recv(1 << 20)
            assert part, f"the relay left before {end!r}: {asked!r}"
            asked += part
        self._read_to = len(asked)

    def answer(self, data: bytes) -> None:
        """Send a response, or a part of one."""
        self._providers[-1].sendall(data)

    def end(self, how: str = "closed") -> None:
        """Close the connection: with a FIN, or with a RST."""
        connection, self._is_open = self._providers[-1], False
        if how == "reset":
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        connection.close()

    def cut(self) -> None:
        """Read until the relay cuts the connection."""
        with contextlib.suppress(ConnectionError):
            while part := self._providers[-1].recv(1 << 20):
                self.asked[-1] += part
        self._is_open = False

    # the relay

    def begin(self, count: int = 1) -> None:
        """Wait until a call is under way."""
        _until(lambda: len(self._relay.book.opens) >= count)

    def record(self, count: int = 1) -> None:
        """Wait until an exchange is recorded."""
        self._relay.book.wait_for(count, PATIENCE_S)

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def holding(self, yes: bool) -> None:
        """Have nothing become durable until this is taken back."""
        (self._relay.book.hold.set if yes else self._relay.book.hold.clear)()

    def end_rollout(self) -> None:
        """Report the rollout's outcome."""
        self._relay.end_rollout()

    def stop(self) -> None:
        """Stop the server, with its grace over."""
        self._relay.stop_calls()


def _until(test: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not test():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def play(case: Case) -> dict[str, Any]:
    """Play a case, and return its row."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        listener.settimeout(PATIENCE_S)
        port = listener.getsockname()[1]
        relay = stack.enter_context(
            relaying(
                f"http://127.0.0.1:{port}",
                **{"transport": Http1Transport(), **case.rules()},
            )
        )  # fmt: skip
        scene = Scene(relay, listener)
        stack.callback(scene.close)
        scene.play(case.steps)
        exchanges = relay.book.wait_for(case.records, PATIENCE_S) if case.records else []
        assert relay.app is not None
        live = relay.app.context.live
        _until(lambda: not live.any_of("r1"))
        assert len(exchanges) == case.records, exchanges
        host = b"127.0.0.1:%d" % port
        return {
            "agent": [_shown(_named_alike(_apart(bytes(each)))) for each in scene.heard],
            "ends": scene.ends,
            "provider": [
                _shown(_apart(bytes(each)).replace(host, b"HOST")) for each in scene.asked
            ],
            "exchanges": [_kept(each) for each in exchanges],
        }  # fmt: skip


def _kept(exchange: Exchange) -> dict[str, Any]:
    """What is recorded, but for times, ids and what is not known."""
    encoded = encode_exchange(exchange)
    return {
        name: value
        for name, value in encoded.items()
        if value not in (None, False) and name not in _LEFT_OUT
    }


def _shown(data: bytes) -> str:
    if len(data) <= _LONGEST:
        return data.decode("latin-1")
    return f"{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}"


def _named_alike(data: bytes) -> bytes:
    """A refusal's reason phrase as Python 3.11 has it: 3.13 names 413 anew, as RFC 9110 does."""
    return data.replace(b"413 Content Too Large", b"413 Request Entity Too Large")


def _apart(data: bytes) -> bytes:
    """Messages in a row, chunked bodies out of their chunks; the last chunk is ``<end>``."""
    done = b""
    while data:
        head, ended, rest = data.partition(b"\r\n\r\n")
        done += head + ended
        lowered = head.lower()
        stated = re.search(rb"\r\ncontent-length: (\d+)", lowered)
        if b"\r\ntransfer-encoding: chunked" in lowered:
            body, rest = _unchunked(rest)
        elif head.startswith(b"HTTP/1.1 1") or (stated is None and not head.startswith(b"HTTP")):
            body = b""
        else:
            size = len(rest) if stated is None else int(stated[1])
            body, rest = rest[:size], rest[size:]
        done, data = done + body, rest
    return done


def _unchunked(data: bytes) -> tuple[bytes, bytes]:
    body = b""
    while data:
        line, _, rest = data.partition(b"\r\n")
        size = int(line, 16)
        if not size:
            return body + b"<end>", rest[2:]
        body, data = body + rest[:size], rest[size + 2 :]
    return body, b""


# --- requests ----------------------------------------------------------------------------------


ASKED = b'{"model":"gpt-5","messages":[{"role":"user","content":"hi"}]}'
STREAMED = b'{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"hi"}]}'
WANTED = STREAMED.replace(
    b'"stream":true', b'"stream":true,"stream_options":{"include_usage":true}'
)
CHAT = b"/openai/v1/chat/completions"
_LAST = b"connection: close\r\n"


def head(
    method: bytes = b"POST", path: bytes = b"/r/r1" + CHAT, *lines: bytes, close: bool = True
) -> bytes:
    """The head of an agent's request."""
    more = b"".join(line + b"\r\n" for line in lines)
    return b"%b %b HTTP/1.1\r\nhost: agent\r\n%b%b\r\n" % (
        method, path, more, _LAST if close else b"",
    )  # fmt: skip


def sized(body: bytes, *lines: bytes, path: bytes = b"/r/r1" + CHAT, close: bool = True) -> bytes:
    """The same of a body with its length."""
    return head(b"POST", path, b"content-length: %d" % len(body), *lines, close=close)


def whole(body: bytes = ASKED, *lines: bytes, **how: Any) -> tuple[Step, ...]:
    """A request that comes at once."""
    return ("send", sized(body, *lines, **how) + body), ("ask", body)


def in_parts(body: bytes = ASKED, *, apart: bool = True) -> tuple[Step, ...]:
    """A request in three parts; ``apart``: each is sent on before the next one comes."""
    parts = body[:20], body[20:40], body[40:]
    steps: list[Step] = [("send", sized(body) + parts[0])]
    if apart:
        return (
            *steps, ("ask", parts[0]), ("send", parts[1]), ("ask", parts[1]), ("send", parts[2]),
            ("ask", parts[2]),
        )  # fmt: skip
    return (*steps, ("begin",), ("send", parts[1]), ("send", parts[2]))


def framed(part: bytes) -> bytes:
    """A chunk."""
    return b"%x\r\n%b\r\n" % (len(part), part)


_CHUNKED_HEAD = head(b"POST", b"/r/r1" + CHAT, b"transfer-encoding: chunked")
CHUNKED: tuple[Step, ...] = (
    ("send", _CHUNKED_HEAD), ("send", framed(ASKED[:20])), ("ask", ASKED[:20] + b"\r\n"),
    ("send", framed(ASKED[20:])), ("ask", ASKED[20:] + b"\r\n"), ("send", b"0\r\n\r\n"),
    ("ask", b"0\r\n\r\n"),
)  # fmt: skip


class Signs:
    """A signer that adds the length of what it signed, behind a turn or two."""

    def __init__(self, *, whole_body: bool, refuses: bool = False) -> None:
        self.whole_body = whole_body
        self._refuses = refuses

    async def available(self) -> bool:
        return True

    async def sign(self, *, headers: Pairs, body: bytes, **_: object) -> Pairs:
        await asyncio.sleep(0.01)
        if self._refuses:
            raise Refusal(502, "upstream_credentials_missing", "there are none")
        signature = b"%d" % len(body) if self.whole_body else b"token"
        return [*headers, (b"authorization", b"Signed " + signature)]


def _signed(**how: bool) -> Callable[[], dict[str, Any]]:
    return lambda: {"signers": {Auth.BEARER: Signs(**how)}, "any_path": True}


def usage() -> dict[str, Any]:
    return {"upstreams": {"openai": {"include_usage": True}}}


class Stored(Access):
    """The access of one rollout as a database has it."""

    def __init__(self, state: AccessState) -> None:
        super().__init__(
            look_up=lambda _: state, answered=lambda *_: False,
            wall=lambda: 100.0, clock=time.monotonic,
        )  # fmt: skip


def _access(state: AccessState) -> Callable[[], dict[str, Any]]:
    return lambda: {"access": Stored(state)}


async def _admitted(_: str) -> None:
    await asyncio.sleep(0.01)


async def _not_admitted(_: str) -> None:
    await asyncio.sleep(0)
    raise Refusal(404, "unknown_rollout", "there is none")


_MINTED = KEYRING.mint("r1").encode()
PROVEN = b"/r/r1~%b" % KEYRING.secret_of("r1").encode()

Way = tuple[tuple[Step, ...], Callable[[], dict[str, Any]]]

REQUESTS: dict[str, Way] = {
    "whole": (whole(), dict),
    "three parts": (in_parts(), dict),
    "chunked": (CHUNKED, dict),
    "continue": (
        (("send", sized(ASKED, b"expect: 100-continue")), ("hear", b" 100 Continue\r\n\r\n"),
         ("send", ASKED), ("ask", ASKED)),
        dict,
    ),
    "by its key": (whole(ASKED, b"authorization: Bearer " + _MINTED, path=CHAT), dict),
    "by a header": (
        whole(ASKED, b"authorization: Bearer own", b"x-truezero-rollout: r1", path=CHAT), dict,
    ),
    "signed": (whole(), _signed(whole_body=True)),
    "signed in parts": (
        (*in_parts(apart=False), ("ask", ASKED)), _signed(whole_body=True),
    ),
    "a token in parts": (in_parts(), _signed(whole_body=False)),
    "usage": ((("send", sized(STREAMED) + STREAMED), ("ask", b'"hi"}]}')), usage),
    "usage in parts": ((*in_parts(STREAMED, apart=False), ("ask", b'"hi"}]}')), usage),
    "usage not asked for": ((*in_parts(apart=False)[:-1], ("send", ASKED[40:]), ("ask", ASKED)),
                            usage),
    "looked up": (whole(path=PROVEN + CHAT), _access(AccessState())),
    "registered": (whole(), lambda: {"admits": _admitted}),
    "timed": (whole(), lambda: {"limits": CallLimits(read_s=PATIENCE_S, write_s=PATIENCE_S)}),
}  # fmt: skip

# --- responses ---------------------------------------------------------------------------------


_OK = b"HTTP/1.1 200 OK\r\n"
_JSON = _OK + b"content-type: application/json\r\n"
_SSE = _OK + b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_BODY = json.dumps({
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-5",
    "choices": [{"index": 0, "finish_reason": "stop",
                 "message": {"role": "assistant", "content": "It is true."}}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8},
}).encode()  # fmt: skip
_WHOLE = _JSON + b"content-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)


def _event(**of: Any) -> bytes:
    start = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5"}
    return b"data: " + json.dumps({**start, **of}, separators=(",", ":")).encode() + b"\n\n"


def _word(word: str, finish: str | None = None) -> bytes:
    delta = {"index": 0, "delta": {"content": word}, "finish_reason": finish}
    return _event(choices=[delta], usage=None)


_USED = _event(
    choices=[], usage={"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
)  # fmt: skip
_DONE = b"data: [DONE]\n\n"
_EVENTS = (_word("word"), _word("more"), _word("", "stop"), _USED, _DONE)
_PACKED = base64.b64decode(  # the same bytes whatever Python and zlib compress to
    "H4sIAAAAAAACA82OwUrDQBCG73kK+c9rsUhB9qxX+wCllO3u2KzdzITsBAsh7+4EJF48q8eZ+fjmS0GDv5uQEzziFg5y"
    "fqeoy9QG3UTp+kKahTexHflqQBwoKBm/degkUTH20uv9brm1kiNV+IMpOdEN/sHBGA3wE6KwEi/yDxkSZoe3zLm2J1NW"
    "YXgeS5mPDmMNF/oamyb9UWQnA/37yB8CUVV6/GLi96cJ/WAWPalcie32aNyqXbc7BxUNZV08zWvf4Xn/+nJsmk8WQ905"
    "mwIAAA=="
)
assert gzip.decompress(_PACKED) == b"".join(_EVENTS)
_LIMITED = b'{"error":{"type":"rate_limit_error","message":"too many requests"}}'
_ERROR = (
    b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 7\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_LIMITED), _LIMITED)
)

RESPONSES: dict[str, tuple[Step, ...]] = {
    "whole": (("answer", _WHOLE),),
    "parts": (("answer", _WHOLE[:-200]), ("hear", _BODY[:4]), ("answer", _WHOLE[-200:-9]),
              ("answer", _WHOLE[-9:])),
    "stream": (("answer", _SSE + framed(_EVENTS[0])), ("hear", b"word"),
               ("answer", framed(_EVENTS[1])), ("hear", b"more"),
               *(("answer", framed(event)) for event in _EVENTS[2:]), ("answer", b"0\r\n\r\n")),
    "stream at once": (("answer", _SSE + b"".join(map(framed, _EVENTS)) + b"0\r\n\r\n"),),
    "events cut anywhere": (
        ("answer", _SSE + framed(_EVENTS[0][:30])), ("answer", framed(_EVENTS[0][30:])),
        ("hear", b"word"), ("answer", framed(_EVENTS[1] + _EVENTS[2][:11])), ("hear", b"more"),
        ("answer", framed(_EVENTS[2][11:] + _USED + _DONE[:5])),
        ("answer", framed(_DONE[5:]) + b"0\r\n\r\n"),
    ),
    "more behind its end": (
        ("answer", _SSE + framed(_EVENTS[0]) + framed(_USED)), ("hear", b"word"),
        ("answer", framed(_DONE)), ("record",), ("hear", b"[DONE]"),
        ("answer", framed(b": bye\n\n")), ("hear", b"bye"), ("answer", b"0\r\n\r\n"),
    ),
    "gzip": (("answer", _SSE.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")
              + framed(_PACKED[:50])), ("answer", framed(_PACKED[50:]) + b"0\r\n\r\n")),
    "an error": (("answer", _ERROR),),
    "an error in parts": (("answer", _ERROR[:-20]), ("hear", b'"error"'), ("answer", _ERROR[-20:])),
    "no content": (("answer", b"HTTP/1.1 204 No Content\r\nx-a: 1\r\n\r\n"),),
    "empty": (("answer", _JSON + b"content-length: 0\r\n\r\n"),),
    "empty chunked": (("answer", _SSE + b"0\r\n\r\n"),),
    "until its end": (("answer", _OK + b"\r\nab\n\n"), ("hear", b"ab"), ("end",)),
    "hints": (("answer", b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + _WHOLE),),
    "cut": (("answer", _SSE + framed(_EVENTS[0])), ("hear", b"word"), ("end",)),
    "reset": (("answer", _SSE + framed(_EVENTS[0])), ("hear", b"word"), ("end", "reset")),
    "short": (("answer", _JSON + b"content-length: 50\r\n\r\n" + _BODY[:9]), ("end",)),
    "nothing": (("end",),),
    "no http": (("answer", b"\x00\xff\r\n\r\n"), ("cut",)),
    "strange status": (("answer", b"HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n"),),
}  # fmt: skip
HEADS: dict[str, tuple[Step, ...]] = {
    "whole": (("answer", _WHOLE.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"),),
    "chunked": (("answer", _SSE),),
    "no content": RESPONSES["no content"],
    "not found": (("answer", b"HTTP/1.1 404 Not Found\r\ncontent-length: 9\r\n\r\n"),),
    "nothing": RESPONSES["nothing"],
    "no http": RESPONSES["no http"],
    "strange status": RESPONSES["strange status"],
}


def _matrix() -> Iterator[tuple[str, Case]]:
    for asks, (steps, rules) in REQUESTS.items():
        for replies, more in RESPONSES.items():
            records = 2 if replies == "more behind its end" else 1
            yield f"{asks}: {replies}", Case(steps=steps + more, rules=rules, records=records)
    models = b"/r/r1/openai/v1/models"
    for method in (b"GET", b"HEAD"):
        for replies, more in HEADS.items():
            if method == b"HEAD" or replies not in ("whole", "chunked", "not found"):
                steps = ("send", head(method, models)), ("ask",)
                yield f"{method.decode()}: {replies}", Case(steps=steps + more)
    yield "GET: whole", Case(steps=(("send", head(b"GET", models)), ("ask",), ("answer", _WHOLE)))


# --- everything else ---------------------------------------------------------------------------


_BEGUN: tuple[Step, ...] = (("answer", _SSE + framed(_EVENTS[0])), ("hear", b"word"))
_HALF: tuple[Step, ...] = (("send", sized(ASKED) + ASKED[:20]), ("ask", ASKED[:20]))
_EARLY = _ERROR.replace(b"\r\n\r\n", b"\r\nx-early: 1\r\n\r\n", 1)
DRAINING = CallLimits(drain_s=PATIENCE_S, drain_bytes=500)

# Where a call is when something befalls it.
STATES: dict[str, tuple[Step, ...]] = {
    "arriving": _HALF,
    "unanswered": whole(),
    "headed": (*whole(), ("answer", _JSON + b"content-length: 9\r\n\r\n{"), ("hear", b"{")),
    "an error": (*whole(), ("answer", _ERROR[:-20]), ("hear", b'"error"')),
    "streaming": (*whole(WANTED), *_BEGUN),
}
ARRIVING_USAGE: tuple[Step, ...] = (("send", sized(STREAMED) + STREAMED[:20]), ("begin",))


def _drain(name: str) -> tuple[Step, ...]:
    """What a provider still sends to a call whose agent left."""
    return {
        "unanswered": (("answer", _WHOLE),),
        "headed": (("answer", b'"a":1   }'[:8]),),
        "an error": (("answer", _ERROR[-20:]),),
        "streaming": tuple(("answer", framed(event)) for event in _EVENTS[1:]),
    }[name]


def _befalling() -> Iterator[tuple[str, Case]]:
    for name, steps in STATES.items():
        yield f"rollout ends: {name}", Case(steps=(*steps, ("end_rollout",), ("cut",)))
        yield f"server stops: {name}", Case(steps=(*steps, ("stop",), ("cut",)))
        for how in ("left", "reset"):
            drains = name == "an error"
            after = (*_drain(name), ("record",)) if drains else (("cut",),)
            yield f"agent {how}: {name}", Case(steps=(*steps, ("leave", how), *after))
        if name != "arriving":
            yield (
                f"agent left, read on: {name}",
                Case(
                    steps=(*steps, ("leave",), *_drain(name), ("record",)),
                    rules=lambda: {"limits": CallLimits(drain_s=PATIENCE_S)},
                ),
            )
            yield (
                f"agent left, rollout ends: {name}",
                Case(
                    steps=(*steps, ("leave",), ("end_rollout",), ("cut",)),
                    rules=lambda: {"limits": CallLimits(drain_s=PATIENCE_S)},
                ),
            )
    yield (
        "agent left, read on too far",
        Case(
            steps=(
                *STATES["streaming"],
                ("leave",),
                ("answer", framed(b":" + b"x" * 600)),
                ("cut",),
            ),
            rules=lambda: {"limits": DRAINING},
        ),
    )
    yield (
        "agent left, read on too long",
        Case(
            steps=(*STATES["streaming"], ("leave",), ("cut",)),
            rules=lambda: {"limits": CallLimits(drain_s=0.05)},
        ),
    )
    yield (
        "agent left, read on, cut",
        Case(
            steps=(*STATES["streaming"], ("leave",), ("answer", framed(_EVENTS[1])), ("end",)),
            rules=lambda: {"limits": CallLimits(drain_s=PATIENCE_S)},
        ),
    )
    for name in ("usage", "signed"):
        steps, rules = REQUESTS[name]
        yield f"rollout ends: {name}", Case(steps=(*steps, ("end_rollout",), ("cut",)), rules=rules)
        yield f"server stops: {name}", Case(steps=(*steps, ("stop",), ("cut",)), rules=rules)
        yield f"agent left: {name}", Case(steps=(*steps, ("leave",), ("cut",)), rules=rules)
    for what, step in (("agent left", ("leave",)), ("rollout ends", ("end_rollout",)),
                       ("server stops", ("stop",))):  # fmt: skip
        yield f"{what}: collecting", Case(steps=(*ARRIVING_USAGE, step), rules=usage)
    yield (
        "agent left, read on: usage",
        Case(
            steps=(*REQUESTS["usage"][0], *_BEGUN, ("leave",), *_drain("streaming"), ("record",)),
            rules=lambda: {**usage(), "limits": CallLimits(drain_s=PATIENCE_S)},
        ),
    )
    yield "last event waits", Case(
        steps=(
            *whole(WANTED), *_BEGUN, ("holding", True), ("answer", framed(_USED + _DONE)),
            ("record",), ("answer", b"0\r\n\r\n"), ("holding", False),
        ),
    )  # fmt: skip
    yield "agent leaves while its last event waits", Case(
        steps=(
            *whole(WANTED), *_BEGUN, ("holding", True), ("answer", framed(_USED + _DONE)),
            ("record",), ("leave",), ("holding", False),
        ),
    )  # fmt: skip


def _limits() -> Iterator[tuple[str, Case]]:
    def silent() -> dict[str, Any]:
        return {"limits": CallLimits(read_s=2.0)}  # who answers first does so in time

    yield "silent", Case(steps=(*whole(), ("cut",)), rules=silent)
    yield "silent in a stream", Case(steps=(*whole(WANTED), *_BEGUN, ("cut",)), rules=silent)
    yield (
        "silent in a body",
        Case(steps=(*whole(), ("answer", _WHOLE[:-30]), ("cut",)), rules=silent),
    )
    yield "silent behind parts", Case(steps=(*in_parts(), ("cut",)), rules=silent)
    yield (
        "silent with usage",
        Case(
            steps=(*REQUESTS["usage"][0], *_BEGUN, ("cut",)), rules=lambda: {**silent(), **usage()}
        ),
    )
    yield "agent is slow, not the provider", Case(
        steps=(*_HALF, ("pause", 3.3), ("send", ASKED[20:]), ("ask", ASKED[20:]),
               ("answer", _WHOLE)),
        rules=lambda: {"limits": CallLimits(read_s=3.0)},  # in which the provider does answer
    )  # fmt: skip

    def small() -> dict[str, Any]:
        return {"limits": CallLimits(body_bytes=30)}

    yield "too large", Case(steps=(("send", sized(ASKED) + ASKED),), rules=small, records=0)
    yield "too large, by its head", Case(steps=(("send", sized(ASKED)),), rules=small, records=0)
    yield (
        "too large at once",
        Case(steps=(("send", _CHUNKED_HEAD + framed(ASKED) + b"0\r\n\r\n"),), rules=small),
    )
    yield "too large on the way", Case(
        steps=(("send", _CHUNKED_HEAD), ("send", framed(ASKED[:20])), ("ask", ASKED[:20] + b"\r\n"),
               ("send", framed(ASKED[20:])), ("cut",)),
        rules=small,
    )  # fmt: skip
    yield "as large as may be", Case(steps=(*whole(ASKED[:30]), ("answer", _WHOLE)), rules=small)


def _early() -> Iterator[tuple[str, Case]]:
    yield "early answer", Case(steps=(*_HALF, ("answer", _EARLY)))
    yield (
        "early answer, the rest comes",
        Case(steps=(*_HALF, ("answer", _EARLY), ("send", ASKED[20:]))),
    )
    yield "early answer in parts", Case(
        steps=(*_HALF, ("answer", _EARLY[:-20]), ("hear", b'"error"'), ("send", ASKED[20:40]),
               ("answer", _EARLY[-20:])),
    )  # fmt: skip
    yield "early answer to chunks", Case(
        steps=(("send", _CHUNKED_HEAD), ("send", framed(ASKED[:20])), ("ask", ASKED[:20] + b"\r\n"),
               ("answer", _EARLY)),
    )  # fmt: skip
    yield "early stream, the agent leaves", Case(
        steps=(*_HALF, ("answer", _SSE + framed(_EVENTS[0])), ("hear", b"word"), ("leave",),
               ("cut",)),
    )  # fmt: skip
    yield "early stream, the agent sends on and leaves", Case(
        steps=(*_HALF, ("answer", _SSE + framed(_EVENTS[0])), ("hear", b"word"),
               ("send", ASKED[20:]), ("leave",), ("cut",)),
    )  # fmt: skip
    for how in ("closed", "reset"):
        yield f"{how} while it arrives", Case(steps=(*_HALF, ("end", how)))


def _repeats() -> Iterator[tuple[str, Case]]:
    first: tuple[Step, ...] = (*whole(close=False), ("answer", _WHOLE), ("hear", _BODY))
    again: tuple[Step, ...] = (("ask", ASKED), ("answer", _WHOLE))
    yield (
        "a connection is used again",
        Case(steps=(*first, *whole(), ("answer", _WHOLE)), records=2),
    )
    yield (
        "one call after the other, in parts",
        Case(steps=(*first, *in_parts(), ("answer", _WHOLE)), records=2),
    )
    for how in ("closed", "reset"):
        yield f"stale, {how}", Case(steps=(*first, *whole(), ("end", how), *again), records=2)
        yield (
            f"stale twice, {how}",
            Case(steps=(*first, *whole(), ("end", how), ("ask", ASKED), ("end", how)), records=2),
        )
        yield f"stale with parts, {how}", Case(
            steps=(
                *first, *_HALF, ("end", how), ("send", ASKED[20:40]), ("ask", ASKED[:40]),
                ("send", ASKED[40:]), ("ask", ASKED[40:]), ("answer", _WHOLE),
            ),
            records=2,
        )  # fmt: skip
        yield (
            f"stale behind parts, {how}",
            Case(steps=(*first, *in_parts(), ("end", how), *again), records=2),
        )
    chunk = b"\r\n"
    yield "stale with chunks", Case(
        steps=(
            *first, *CHUNKED[:3], ("end",), ("send", framed(ASKED[20:])),
            ("ask", framed(ASKED[:20]) + framed(ASKED[20:])), ("send", b"0\r\n\r\n"),
            ("ask", b"0" + chunk + chunk), ("answer", _WHOLE),
        ),
        records=2,
    )  # fmt: skip
    yield "two at once, the second waits", Case(
        steps=(("send", sized(ASKED, close=False) + ASKED + sized(ASKED) + ASKED), ("ask", ASKED),
               ("answer", _WHOLE), ("ask", ASKED), ("answer", _ERROR)),
        records=2,
    )  # fmt: skip


def _refused() -> Iterator[tuple[str, Case]]:
    call: tuple[Step, ...] = (("send", sized(ASKED, path=PROVEN + CHAT) + ASKED),)
    bare: tuple[Step, ...] = (("send", sized(ASKED) + ASKED),)
    for name, state in {
        "ended": AccessState(ends_at=99.0), "of another upstream": AccessState(upstream="gemini"),
    }.items():  # fmt: skip
        yield f"refused: {name}", Case(steps=call, rules=_access(state), records=0)
    yield (
        "refused: no such rollout",
        Case(steps=bare, rules=lambda: {"admits": _not_admitted}, records=0),
    )
    yield "refused: no proof", Case(steps=bare, rules=lambda: {"proof_required": True}, records=0)
    yield (
        "refused: no upstream",
        Case(steps=(("send", sized(ASKED, path=b"/r/r1/nowhere/v1") + ASKED),), records=0),
    )
    yield "refused: no model call", Case(
        steps=(("send", sized(ASKED, path=b"/r/r1/openai/v1/files") + ASKED),),
        rules=lambda: {"real_keys": {"openai": "sk-real"}}, records=0,
    )  # fmt: skip
    yield "refused: another's response", Case(
        steps=(("send", head(b"GET", b"/r/r1/openai/v1/responses/resp_1")),),
        rules=lambda: {"real_keys": {"openai": "sk-real"}}, records=0,
    )  # fmt: skip
    yield "refused: no credentials", Case(steps=bare, rules=_signed(whole_body=True, refuses=True))
    yield (
        "refused: framed twice",
        Case(
            steps=(("send", sized(ASKED, b"content-length: %d" % len(ASKED)) + ASKED),), records=0
        ),
    )


CASES: dict[str, Case] = {
    name: case
    for group in (_matrix, _befalling, _limits, _early, _repeats, _refused)
    for name, case in group()
}  # fmt: skip


class KeptCalls:
    """The rows of a golden file, and the cases that make them.

    With ``UPDATE_GOLDEN=1`` a call that is played is kept, and `check_all` writes the file: a new
    row without its source, which is yours to add.
    """

    def __init__(self, file: Path, cases: Mapping[str, Case]) -> None:
        self._file, self._cases = file, cases
        self._played: dict[str, dict[str, Any]] = {}
        rows = map(json.loads, file.read_text("utf-8").splitlines())
        self._rows = {row.pop("call"): row for row in rows}
        self._sources = {name: row.pop("source", "") for name, row in self._rows.items()}

    def check(self, name: str) -> None:
        """Play a call, which goes as it is kept."""
        row = play(self._cases[name])
        if golden.UPDATING:
            self._played[name] = row
        else:
            assert row == self._rows.get(name)

    def check_all(self) -> None:
        """Check that each row has a case, and each case a row, in their order."""
        if not golden.UPDATING:
            assert [*self._rows] == [*self._cases]
            return
        rows = [
            json.dumps({"call": name, "source": self._sources.get(name, ""), **self._played[name]})
            for name in self._cases
            if name in self._played
        ]
        self._file.write_text("\n".join(rows) + "\n", "utf-8")
