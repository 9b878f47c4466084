"""The facts that checks of a measurement need hold nothing of what was said.

Prompts, answers and tools are looked at while a call lasts; what stays of them are flags and
counts in the record, and digests in the memory of one process.
"""

from __future__ import annotations

import gc
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import URL

from classifier.codec import encode_exchange
from classifier.records import Ending, Exchange
from proxy.capture.observer import CallObserver
from proxy.capture.request import Call, Conversations
from proxy.store import sqlite
from proxy.store.connections import Commit
from proxy.store.database import Database
from proxy.store.rows import exchange_row
from tests.privacy.canaries import ARGUMENTS, COMPLETION, HEADER, PROMPT, leaks
from tests.proxy.wire.samples import SSE, chat, delta, dump, message, named, sse, text

TOOL = ARGUMENTS.word  # a tool's name says what an agent is for
LONG = f"{PROMPT.text} and so on " * 200  # long enough to be sampled and counted
RAW_CALL = f'{COMPLETION.text}\n<tool_call>{{"name": "{TOOL}", "arguments": {{}}}}</tool_call>'
USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """One dialect: its path, a request's opening, what one turn adds, and its answers."""

    path: str
    opening: dict[str, Any]
    where: str
    first: Any
    turn: list[Any]
    whole: bytes
    streamed: list[bytes]


CHAT_TOOL = {"type": "function", "function": {"name": TOOL, "description": PROMPT.text}}
CHAT_CALL = {"id": "c", "function": {"name": TOOL, "arguments": ARGUMENTS.text}}
NAMED_TOOL = {"name": TOOL, "description": PROMPT.text, "input_schema": {}}
SPOKEN = {
    "chat": Spoken(
        path="/v1/chat/completions", opening={"tools": [CHAT_TOOL], "max_tokens": 9},
        where="messages", first={"role": "user", "content": LONG},
        turn=[{"role": "assistant", "content": COMPLETION.text, "tool_calls": [CHAT_CALL]},
              {"role": "tool", "content": LONG}],
        whole=chat(USAGE, content=RAW_CALL),
        streamed=[*(sse(delta(content=letter), done=False) for letter in RAW_CALL),
                  sse(delta("stop"))],
    ),
    "anthropic": Spoken(
        path="/v1/messages", opening={"system": LONG, "tools": [NAMED_TOOL], "max_tokens": 9},
        where="messages", first={"role": "user", "content": [{"type": "text", "text": LONG}]},
        turn=[{"role": "assistant", "content": [{"type": "tool_use", "name": TOOL,
                                                 "input": {PROMPT.word: ARGUMENTS.text}}]},
              {"role": "user", "content": [{"type": "tool_result", "content": LONG}]}],
        whole=message({}, {"type": "text", "text": RAW_CALL}),
        streamed=[*(named(text(0, letter)) for letter in RAW_CALL),
                  named({"type": "message_stop"})],
    ),
    "responses": Spoken(
        path="/v1/responses", opening={"instructions": LONG, "tools": [NAMED_TOOL],
                                       "max_output_tokens": 9},
        where="input", first={"role": "user", "content": LONG},
        turn=[{"type": "function_call", "name": TOOL, "arguments": ARGUMENTS.text},
              {"type": "function_call_output", "output": LONG}],
        whole=dump({"object": "response", "status": "completed", "output": [
            {"type": "message", "content": [{"type": "output_text", "text": RAW_CALL}]}]}),
        streamed=[*(named({"type": "response.output_text.delta", "delta": letter})
                    for letter in RAW_CALL),
                  named({"type": "response.completed", "response": {"status": "completed"}})],
    ),
}  # fmt: skip
HEADERS = {  # what gateways say, and what nobody should
    "x-inference-provider": HEADER.text.partition("\n")[0].encode().decode("latin-1"),
    "x-litellm-attempted-fallbacks": "1",
}


def calls(spoken: Spoken, known: Conversations, *, streamed: bool) -> Iterator[Exchange]:
    """Three calls of one conversation, then its beginning again from elsewhere."""
    messages = [spoken.first]
    for number in range(1, 4):
        yield one_call(spoken, known, messages, f"x{number}", streamed=streamed)
        messages = [*messages, *spoken.turn]
    yield one_call(spoken, known, [spoken.first], "x4", streamed=streamed, client="10.0.0.2")


def one_call(
    spoken: Spoken,
    known: Conversations,
    messages: list[Any],
    name: str,
    *,
    streamed: bool,
    client: str = "10.0.0.1",
) -> Exchange:
    call = Call(name, "r1", "any", "POST", spoken.path.encode(), 1000.0, 100.0,
                client=(client, 1))  # fmt: skip
    observer = CallObserver(call, salt=b"salt", conversations=known)
    observer.on_request_body(
        dump({"model": "m", "stream": streamed, **spoken.opening, spoken.where: messages})
    )
    type_ = SSE if streamed else "application/json"
    head = [(b"content-type", type_.encode())]
    head += [(key.encode(), value.encode("latin-1")) for key, value in HEADERS.items()]
    observer.on_response_head(200, head, 100.5)
    for piece in spoken.streamed if streamed else [spoken.whole]:
        observer.on_response_body(piece, 101.0)
    return observer.finish(Ending.COMPLETE, 102.0)


def held(root: object) -> Iterator[object]:
    """Everything that an object leads to, but for classes and code."""
    seen, waiting = {id(root)}, [root]
    while waiting:
        for each in gc.get_referents(waiting.pop()):
            if id(each) not in seen and not isinstance(each, type) and not callable(each):
                seen.add(id(each))
                waiting.append(each)
                yield each


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("dialect", SPOKEN)
def test_facts_hold_nothing_of_what_was_said(
    dialect: str, streamed: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    known = Conversations(b"a secret of the process")
    exchanges = list(calls(SPOKEN[dialect], known, streamed=streamed))
    # Everything was looked at, and each fact found.
    assert [x.continues for x in exchanges] == [None, "x1", "x2", None]
    assert [x.begun_elsewhere for x in exchanges] == [False, None, None, True]
    assert all(x.written_call is True and x.output_limit == 9 and x.fallback for x in exchanges)
    assert exchanges[2].prompt_words is not None
    assert streamed or all(x.output_digest for x in exchanges)
    # Neither a word of it, nor a digest, is in the record, the store, an export or the log.
    export = json.dumps([encode_exchange(exchange) for exchange in exchanges]).encode()
    file = tmp_path / "t.db"
    stored(file, exchanges)
    places = [("exchange", repr(exchanges).encode()), ("export", export),
              ("log", caplog.text.encode()),
              *((f"file {each.name}", each.read_bytes()) for each in tmp_path.iterdir())
              ]  # fmt: skip
    assert leaks(places) == []
    kept = list(held(known))
    digests = {each for each in kept if isinstance(each, int) and abs(each) > 1 << 32}
    assert len(digests) >= 3
    for place, found in places[:3]:
        written = [form for digest in digests for form in forms(digest)]
        assert not [form for form in written if form in found], place
    # Nor is anything in memory when the calls are over, but numbers and ids of ours.
    texts = {each for each in kept if isinstance(each, str | bytes | bytearray)}
    ours = {b"a secret of the process", "r1", "x1", "x2", "x3", "x4", "10.0.0.1", "10.0.0.2"}
    assert {"r1", "x3", "x4", "10.0.0.1"} <= texts
    assert texts - ours - set(vars(known)) == set()


def forms(digest: int) -> list[bytes]:
    """A number as it may be written."""
    return [str(digest).encode(), f"{digest & (1 << 64) - 1:016x}".encode()]


def stored(file: Path, exchanges: list[Exchange]) -> None:
    database = Database(str(file))
    database.prepare()
    database.close()
    connections = sqlite.connections(URL.create("sqlite", database=str(file)))
    rows = [exchange_row(each) for each in exchanges]
    connections.commits.commit(Commit(rollouts=[("r1", 1000.0)], recorded=rows))
    connections.commits.close()
    assert b"x4" in b"".join(each.read_bytes() for each in file.parent.iterdir())


def test_the_search_finds_what_is_kept() -> None:
    known = Conversations(PROMPT.text.encode())
    list(calls(SPOKEN["chat"], known, streamed=False))
    texts = [each for each in held(known) if isinstance(each, bytes)]
    assert leaks([("memory", b" ".join(texts))]) != []
