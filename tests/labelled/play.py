"""A player of labelled lives: calls in bytes through the observer, and the rollout judged.

A life is written as ``title+side tool*3 429 429+retry say``: one word a call, in order, one second
between them. The word names an answer: ``say`` (text), ``tool`` (a tool call), ``sum`` (a summary
of the work) and ``cut_short`` (finish reason length) are a healthy model's in the life's dialect;
``net``, ``timeout`` and ``silent`` are no answer; any other is a row of ``answers.jsonl``, by its
name behind the dialect's (``chat.429``) or by itself. Words behind a ``+`` say more:

============== =================================================================================
``sse``        streamed; ``broken`` too, but its end is missing, ``cut`` and the transport breaks
``side``       asked of a small model, with a short request and without tools
``toolless``   without tools
``again``      the same request as before; ``retry`` is the SDK's own repetition of it
``left``       the agent hangs up: before the first byte, or midway where the answer is streamed
``closed``     in flight when the rollout ended
``socket``     inside a WebSocket
``elsewhere``  at another upstream
``judge``      by role judge
``lost``       the proxy died meanwhile
============== =================================================================================

``@name`` behind it all is the model that is asked, ``*3`` three such calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from classifier.records import Ending, Exchange, RolloutRecord
from classifier.rules import judge
from classifier.verdicts import Verdict
from proxy.capture.observer import CallObserver
from proxy.capture.request import Call, Conversations
from tests.builders import outcome as ended
from tests.fakes import replies
from tests.fakes.replies import Finish, Reply, ToolCall
from tests.healthy.conversation import Message
from tests.situations import requests
from tests.situations.requests import WIRES, Ask, assistant, result, tool, user

FOLDER = Path(__file__).parent
STARTED = 1_790_000_000.0
_SALT = b"labelled"
_JSON, _SSE = "application/json", "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One call in bytes: what was sent, and what came back.

    ``status`` is None where no answer came. ``silence_s`` passes before it ends.
    """

    upstream: str
    path: str
    request: bytes
    method: str = "POST"
    query: str = ""
    request_headers: tuple[tuple[bytes, bytes], ...] = ()
    status: int | None = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: tuple[bytes, ...] = ()
    ending: Ending = Ending.COMPLETE
    silence_s: float = 0.0
    role: str = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What was recorded of one rollout, and its verdict."""

    record: RolloutRecord
    verdict: Verdict

    @property
    def exchanges(self) -> Sequence[Exchange]:
        return self.record.exchanges


def rows(name: str) -> Iterator[dict[str, Any]]:
    """Read the objects of one JSONL file of this folder."""
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def play(
    calls: Sequence[Played],
    *,
    outcome: Mapping[str, Any] | None = None,
    registered: Mapping[str, Any] | None = None,
) -> Life:
    """Take the calls of one rollout through the observer, one after the other, and judge it.

    Arguments:
        outcome: fields of `Outcome` where they differ from a run that went well and scored 0.
        registered: fields of ``RolloutRecord`` that the runner or the proxy knows besides.
    """
    conversations = Conversations(b"labelled conversations")
    exchanges = []
    at = 0.0
    for number, call in enumerate(calls):
        exchanges.append(_observed(call, f"call-{number}", at, conversations))
        at += 2.0 + call.silence_s
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in (registered or {}).items()
    }
    record = RolloutRecord(
        id="labelled",
        batch="labelled",
        exchanges=tuple(exchanges),
        outcome=ended(**(outcome or {})),
        began_at=STARTED,
        ended_at=STARTED + at,
        **known,
    )
    return Life(record=record, verdict=judge(record))


def _observed(call: Played, name: str, at: float, conversations: Conversations) -> Exchange:
    observer = CallObserver(
        Call(
            id=name,
            rollout_id="labelled",
            upstream=call.upstream,
            method=call.method,
            path=call.path.encode(),
            query=call.query.encode(),
            started_at=STARTED + at,
            began=at,
            request_headers=((b"content-type", b"application/json"), *call.request_headers),
            role=call.role,
            key_digest="3f9a",
        ),
        salt=_SALT,
        conversations=conversations,
    )
    if call.request:
        observer.on_request_body(call.request)
    if call.status is not None:
        observer.on_response_head(call.status, call.headers, at + 0.2)
        for chunk in call.body:
            observer.on_response_body(chunk, at + 0.3)
    return observer.finish(call.ending, at + 1.0 + call.silence_s)


# --- what an agent sends -------------------------------------------------------------------

_TOOLS = (
    tool("run", "Run a shell command.", {"command": "to be run"}),
    tool("read", "Read a file.", {"path": "of the file"}),
)
_SYSTEM = "You repair a program. Work in small steps and run its tests. " * 40


@dataclass(slots=True)
class Agent:
    """An agent whose conversation grows with every call; it writes the calls of one life."""

    wire: str
    messages: list[Message] = field(default_factory=lambda: [user("Mend the parser.")])
    turn: int = 0
    last: Played | None = None
    retries: int = 0

    def calls(self, life: str) -> Iterator[Played]:
        """Yield the calls that a life is written as."""
        for word in life.split():
            match = _WORD.fullmatch(word)
            assert match, f"{word!r} is no call"
            for _ in range(int(match["times"] or 1)):
                yield self.call(match["name"], match["more"].split("+")[1:], match["model"])

    def call(self, name: str, more: Sequence[str], model: str | None = None) -> Played:
        """Make one call and take its answer into the conversation."""
        asked, unknown = self._asked(more, model), set(more) - _MORE
        assert not unknown, f"nothing is called {unknown}"
        call = self._answered(asked, name, more, model)
        if more and {"left", "closed", "lost"} & set(more):
            call = _left(call, more)
        self.last = call
        if name == "tool" and not {"again", "retry"} & set(more):
            used = ToolCall(id=f"t{self.turn}", name="run", arguments='{"command": "make test"}')
            self.messages += [
                assistant(calls=(used,)),
                result(used, f"{self.turn} tests failed, see the log above\n" * 8),
            ]
        return call

    def _asked(self, more: Sequence[str], model: str | None) -> Played:
        self.turn += 1
        if {"again", "retry"} & set(more):
            assert self.last is not None, "there was no request before"
            self.retries = self.retries + 1 if "retry" in more else 0
            count = ((b"x-stainless-retry-count", b"%d" % self.retries),) if self.retries else ()
            return replace(self.last, request_headers=count)
        self.retries = 0
        side = "side" in more
        streams = bool({"sse", "cut", "broken", "socket"} & set(more))
        chosen = model or self.model(side=side)
        ask = Ask(
            model=chosen,
            system="Give the conversation a title." if side else _SYSTEM,
            messages=(user(f"Mend the parser, part {self.turn}."),)
            if side
            else tuple(self.messages),
            tools=() if side or "toolless" in more else _TOOLS,
        )
        path, _, query = requests.target(self.wire, chosen, streams=streams).partition("?")
        upstream = WIRES[self.wire].upstream + ("-backup" if "elsewhere" in more else "")
        socket = "socket" in more
        return Played(
            upstream=upstream,
            path=path,
            query=query,
            method="WEBSOCKET" if socket else "POST",
            request=requests.body(self.wire, ask, streams=streams),
            role="judge" if "judge" in more else "agent",
        )

    def model(self, *, side: bool = False) -> str:
        """Return the name of its model, or of the small one."""
        wire = WIRES[self.wire]
        return wire.small if side else wire.model

    def _answered(self, asked: Played, name: str, more: Sequence[str], model: str | None) -> Played:
        if name in _NO_ANSWERS:
            ending, silence_s = _NO_ANSWERS[name]
            return replace(asked, status=None, headers=(), body=(), ending=ending,
                           silence_s=silence_s)  # fmt: skip
        reply = self._reply(name, more, model)
        if reply is None:
            return self._by_row(asked, name, more)
        streams = bool({"sse", "cut", "broken", "socket"} & set(more))
        answer = replies.answer(WIRES[self.wire].api, reply, streams=streams)
        chunks = [step for step in answer.body if isinstance(step, bytes)]
        if {"cut", "broken"} & set(more):
            chunks = chunks[: max(2, len(chunks) // 3)]
        ending = Ending.CUT_UPSTREAM if "cut" in more else Ending.COMPLETE
        headers = tuple((n.lower().encode(), v.encode()) for n, v in answer.headers)
        return replace(asked, status=answer.status, headers=headers, body=tuple(chunks),
                       ending=ending)  # fmt: skip

    def _reply(self, name: str, more: Sequence[str], model: str | None) -> Reply | None:
        if name not in _SPOKEN:
            return None
        text, finish = _SPOKEN[name]
        call = ToolCall(id=f"t{self.turn}", name="run", arguments='{"command": "make test"}')
        side = "side" in more
        return Reply(
            model=model or self.model(side=side),
            id=f"a{self.turn}",
            input_tokens=40 if side else 900 + 120 * self.turn,
            output_tokens=12,
            text=tuple(f"{text} ({self.turn}).".split(" ")) if text else (),
            calls=(call,) if name == "tool" else (),
            finish=finish,
        )

    def _by_row(self, asked: Played, name: str, more: Sequence[str]) -> Played:
        known = answers()
        row = known.get(f"{self.wire}.{name}") or known.get(name)
        assert row, f"no answer is called {name!r} in {self.wire}"
        return answered_by(row, asked, turn=self.turn)


_WORD = re.compile(
    r"(?P<name>[\w.-]+)(?P<more>(\+\w+)*)(@(?P<model>[\w./:-]+))?(\*(?P<times>\d+))?"
)
_MORE = {
    "sse", "broken", "cut", "side", "toolless", "again", "retry", "left", "closed", "socket",
    "elsewhere", "judge", "lost",
}  # fmt: skip
_SPOKEN = {
    "say": ("The parser is mended and its tests pass", Finish.STOP),
    "tool": ("", Finish.CALLS),
    "title": ("Mending a parser", Finish.STOP),
    "sum": ("So far the lexer was read and three of its tests were mended", Finish.STOP),
    "cut_short": ("The parser reads a token, and then", Finish.LENGTH),
}
_NO_ANSWERS = {
    "net": (Ending.NEVER_CONNECTED, 0.0),
    "timeout": (Ending.TIMED_OUT, 60.0),
    "silent": (Ending.LEFT_BY_AGENT, 900.0),
}


def _left(call: Played, more: Sequence[str]) -> Played:
    """Return a call that the agent, or the end of the rollout, broke off."""
    ending = Ending.LEFT_BY_AGENT
    if "closed" in more:
        ending = Ending.CLOSED_AT_OUTCOME
    elif "lost" in more:
        ending = Ending.LOST
    if "sse" in more:
        return replace(call, body=call.body[:3], ending=ending)
    return replace(call, status=None, headers=(), body=(), ending=ending)


# --- answers by their rows -----------------------------------------------------------------


@cache
def answers() -> Mapping[str, Mapping[str, Any]]:
    """Return the rows of ``answers.jsonl`` by name."""
    return {row["name"]: row for row in rows("answers.jsonl")}


def answered_by(row: Mapping[str, Any], asked: Played, *, turn: int = 0) -> Played:
    """Return a call that was answered as a row says.

    A row may also say what was asked, where that is no call of the dialect: ``method``, ``path``,
    ``upstream`` and ``request``. ``body`` is JSON, ``text`` is sent as it stands; ``type`` the
    media type, ``headers`` further ones.
    """
    if "path" in row:
        path, _, query = row["path"].partition("?")
        request = json.dumps(row["request"]).replace("{turn}", str(turn)).encode()
        asked = Played(
            upstream=row.get("upstream", asked.upstream),
            path=path,
            query=query,
            method=row.get("method", "POST"),
            request=b"" if row["request"] is None else request,
        )
    kind = row.get("type", _JSON)
    headers = {"content-type": kind, **row.get("headers", {})}
    return replace(
        asked,
        status=row.get("status", 200),
        headers=tuple((n.encode(), str(v).encode()) for n, v in headers.items()),
        body=(body_of(row),),
        ending=Ending.COMPLETE,
    )


def body_of(row: Mapping[str, Any]) -> bytes:
    """Return the bytes of a row's body; a list of events where it is streamed."""
    if "text" in row:
        return str(row["text"]).encode()
    if "events" in row:
        return b"".join(event(each) for each in row["events"])
    return json.dumps(row["body"], ensure_ascii=False).encode()


def event(said: object) -> bytes:
    """Return one server-sent event: named where the payload names its type, ``[DONE]`` as it is."""
    if isinstance(said, str):
        return f"data: {said}\n\n".encode()
    body = json.dumps(said, ensure_ascii=False)
    return f"data: {body}\n\n".encode()
