"""Tool calls that a server left in the text: which are found, and which are quotations."""
# ruff: noqa: SLF001
# Private: nothing is held.

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier.records import Ending
from proxy.capture.observer import CallObserver
from proxy.wire.dialect import ResponseFacts
from proxy.wire.response import PayloadReader
from proxy.wire.written_call import WrittenCall, offered
from tests import tables
from tests.proxy.wire.observing import SALT, call, observed, observing
from tests.proxy.wire.samples import (
    EVENTS,
    JSON,
    NDJSON,
    SSE,
    chat,
    chunk,
    delta,
    dump,
    event,
    gemini,
    lines,
    message,
    named,
    response,
    says,
    sse,
    text,
)

NAMES = frozenset(("look", "list.files"))
LOOK = '{"name": "look", "arguments": {"at": "a\\nb"}}'

# What is a call at a text's end, by vllm's tool_parsers or the models' own chat templates;
# and what only quotes one.
_ROWS = tables.lines(Path(__file__).with_name("written_calls.jsonl"))
WRITTEN = {row["form"]: row["text"] for row in _ROWS if row["call"]}
QUOTED = {row["form"]: row["text"] for row in _ROWS if not row["call"]}


def looked(pieces: Sequence[str]) -> WrittenCall:
    watch = WrittenCall(NAMES)
    for piece in pieces:
        watch.take(piece)
    return watch


def cuts(said: str) -> list[list[str]]:
    """A text whole, in two pieces cut at every place, and letter by letter."""
    return [[said], list(said), *([said[:at], said[at:]] for at in range(1, len(said)))]


# -- what is a call ------------------------------------------------------------------------


@pytest.mark.parametrize("form", WRITTEN)
def test_a_text_that_ends_in_a_raw_call_is_found_however_it_is_cut(form: str) -> None:
    for before in ("", "Let me look.\n\n", "```py\nx = 1\n```\nI `look` <b> at [1]:\n"):
        for said in (WRITTEN[form], WRITTEN[form] + " \n\n"):
            found = {looked(pieces).ends_in_call() for pieces in cuts(before + said)}
            assert found == {True}


@pytest.mark.parametrize("form", QUOTED)
def test_a_quotation_is_none_however_it_is_cut(form: str) -> None:
    assert {looked(pieces).ends_in_call() for pieces in cuts(QUOTED[form])} == {False}


def test_a_call_behind_a_quotation_is_found() -> None:
    for quoted in ("prose far behind", "in a fence", "a tag named"):
        said = QUOTED[quoted] + f"\nNow:\n<tool_call>{LOOK}</tool_call>"
        assert {looked(pieces).ends_in_call() for pieces in cuts(said)[:200]} == {True}


def test_what_a_call_writes_may_hold_the_marks_of_one() -> None:
    inner = json.dumps({"name": "look", "arguments": {"at": "</tool_call> <tool_call> ```"}})
    assert looked([f"<tool_call>{inner}</tool_call>"]).ends_in_call() is True


# -- what is held --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    ["plain words " * 999, "<b>bold</b> and [x](y) " * 99, QUOTED["prose far behind"],
     "use <tool_call> and [TOOL_CALLS] " + "and so on " * 20,
     "```\n" + WRITTEN["hermes"] + "\n```\nthat is all"],
)  # fmt: skip
def test_text_that_is_no_call_is_let_go(said: str) -> None:
    watch = looked(list(said))
    assert not watch.holds
    assert watch._held == []


def test_a_call_that_is_longer_than_may_be_held_is_unknown_and_let_go() -> None:
    watch = WrittenCall(NAMES)
    watch.take('<tool_call>{"name": "look", "arguments": {"at": "')
    for _ in range(300):
        watch.take("x" * 999)
    assert (watch.holds, watch.ends_in_call()) == (False, None)
    watch.take(f'"}}</tool_call><tool_call>{LOOK}</tool_call>')
    assert (watch.holds, watch.ends_in_call()) == (False, None)
    assert not watch.wants(b"<")


@given(st.lists(st.sampled_from(["<tool_call>", "</tool_call>", "<function=look>", "```", "{", "}",
                                 "[TOOL_CALLS]", "look", LOOK, " ", "<", "<|", "｜", "x\n",
                                 '<invoke name="', "</function>"]), max_size=40))  # fmt: skip
def test_nothing_of_any_shape_raises_and_cutting_changes_nothing(pieces: list[str]) -> None:
    watch = looked(pieces)
    assert watch.ends_in_call() == looked(["".join(pieces)]).ends_in_call()


@pytest.mark.parametrize(
    "said",
    [
        "<｜tool▁call▁begin｜>look" + " " * 50_000 + "x",
        "<tool_call>" * 5_000,
        "<function=look><parameter=a>" + "</parameter>" * 4_000,
        '<invoke name="look"><' + "parameter" * 6_000,
        "<tool_call>{" + "}" * 60_000 + "x",
        "[TOOL_CALLS]" + "look" * 15_000,
        "```" * 20_000,
    ],
)
def test_what_is_made_to_take_long_takes_none(said: str) -> None:
    # With time that grows faster than the text, each of these would go on for minutes.
    assert looked([said]).ends_in_call() in (False, None)
    assert looked([said[at : at + 50] for at in range(0, len(said), 50)]).ends_in_call() in (
        False, None,
    )  # fmt: skip


# -- which tools are offered ---------------------------------------------------------------


@pytest.mark.parametrize(
    "request_",
    [
        {"tools": [{"name": "look"}, {"type": "web_search"}]},
        {"tools": [{"type": "function", "function": {"name": "look"}}]},
        {"functions": [{"name": "look"}]},
        {"tools": [{"functionDeclarations": [{"name": "look"}]}]},
        {"tools": [{"function_declarations": [{"name": "look"}]}]},
        {"request": {"tools": [{"functionDeclarations": [{"name": "look"}]}]}},
        {"toolConfig": {"tools": [{"toolSpec": {"name": "look"}}]}},
    ],
)
def test_the_names_of_tools_in_each_dialect(request_: dict[str, Any]) -> None:
    assert offered(request_) == {"look"}


def test_what_is_no_tool_has_no_name() -> None:
    for tools in (None, [], "look", [1, None, "look"], {"tools": "x"}, [{"name": ["look"]}],
                  [{"function": "look"}], [{"functionDeclarations": {"name": 1}}]):  # fmt: skip
        assert offered({"tools": tools, "toolConfig": tools, "request": tools}) == set()


# -- in every dialect, whole and streamed --------------------------------------------------

USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
REQUEST = dump({"tools": [{"name": "look"}], "stream": True})
Whole = Callable[[str], bytes]
Piece = Callable[[str], bytes]


def sse_chat(said: str) -> bytes:
    return sse(delta(content=said), done=False)


def _deltas(kind: str) -> Piece:
    return lambda said: named({"type": kind, "delta": said})


# Of each dialect: a whole answer, then how a piece of text is streamed, and the end of a stream.
ANSWERS: dict[str, tuple[str, Whole | None, str, Piece, bytes]] = {
    "chat": ("/v1/chat/completions", lambda s: chat(USAGE, content=s), SSE, sse_chat,
             sse(delta("stop"))),
    "chat in parts": ("/v1/chat/completions",
                      lambda s: chat(USAGE, content=[{"type": "text", "text": s}]), SSE,
                      lambda s: sse(delta(content=[{"type": "text", "text": s}]), done=False),
                      sse(delta("stop"))),
    "completions": ("/v1/completions", lambda s: dump({"choices": [{"text": s}]}), SSE,
                    lambda s: sse({"choices": [{"index": 0, "text": s}]}, done=False),
                    sse({"choices": [{"text": "", "finish_reason": "stop"}]})),
    "anthropic": ("/v1/messages", lambda s: message({}, {"type": "text", "text": s}), SSE,
                  lambda s: named(text(0, s)),
                  named({"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
                        {"type": "message_stop"})),
    "responses": ("/v1/responses", lambda s: dump(response(USAGE, says(s))), SSE,
                  _deltas("response.output_text.delta"),
                  named({"type": "response.completed",
                         "response": response(USAGE, says("what was said"))})),
    "gemini": ("/v1beta/models/g:generateContent", lambda s: dump(gemini({}, {"text": s})), SSE,
               lambda s: sse(gemini({}, {"text": s}, finish=None), done=False),
               sse(gemini({}, {"text": ""}), done=False)),
    "ollama": ("/api/chat", lambda s: dump({"message": {"content": s}, "done": True}), NDJSON,
               lambda s: lines({"message": {"content": s}, "done": False}),
               lines({"message": {"content": ""}, "done": True, "done_reason": "stop"})),
    "ollama generate": ("/api/generate", lambda s: dump({"response": s, "done": True}), NDJSON,
                        lambda s: lines({"response": s, "done": False}),
                        lines({"response": "", "done": True, "done_reason": "stop"})),
    "cohere": ("/v2/chat", lambda s: dump({"message": {"content": [{"type": "text", "text": s}]}}),
               SSE, lambda s: named({"type": "content-delta",
                                     "delta": {"message": {"content": {"text": s}}}}),
               named({"type": "message-end", "delta": {"finish_reason": "COMPLETE"}})),
    "cohere v1": ("/v1/chat", lambda s: dump({"text": s, "generation_id": "g"}), NDJSON,
                  lambda s: lines({"event_type": "text-generation", "text": s}),
                  lines({"event_type": "stream-end", "finish_reason": "COMPLETE",
                         "response": {"text": "what was said"}})),
    "converse": ("/model/m/converse",
                 lambda s: dump({"output": {"message": {"content": [{"text": s}]}},
                                 "stopReason": "end_turn"}),
                 EVENTS, lambda s: event("contentBlockDelta", {"delta": {"text": s}}),
                 event("messageStop", {"stopReason": "end_turn"}) + event("metadata", {})),
    "invoke anthropic": ("/model/m/invoke", lambda s: message({}, {"type": "text", "text": s}),
                         EVENTS, lambda s: chunk(text(0, s)), chunk({"type": "message_stop"})),
    "invoke llama": ("/model/m/invoke", lambda s: dump({"generation": s, "stop_reason": "stop"}),
                     EVENTS, lambda s: chunk({"generation": s, "stop_reason": None}),
                     chunk({"generation": "", "stop_reason": "stop"})),
    "invoke nova": ("/model/m/invoke",
                    lambda s: dump({"output": {"message": {"content": [{"text": s}]}},
                                    "stopReason": "end_turn"}),
                    EVENTS, lambda s: chunk({"contentBlockDelta": {"delta": {"text": s}}}),
                    chunk({"messageStop": {"stopReason": "end_turn"}})),
    "invoke mistral": ("/model/m/invoke", lambda s: dump({"outputs": [{"text": s}]}), EVENTS,
                       lambda s: chunk({"outputs": [{"text": s, "stop_reason": None}]}),
                       chunk({"outputs": [{"text": "", "stop_reason": "stop"}]})),
    "invoke openai": ("/model/m/invoke",
                      lambda s: dump({"choices": [{"message": {"content": s},
                                                   "finish_reason": "stop"}]}), EVENTS,
                      lambda s: chunk({"choices": [{"delta": {"content": s}}]}),
                      chunk({"choices": [{"delta": {}, "finish_reason": "stop"}]})),
}  # fmt: skip


@pytest.mark.parametrize("dialect", ANSWERS)
def test_whole_answers(dialect: str) -> None:
    path, whole, *_ = ANSWERS[dialect]
    assert whole is not None
    for said, found in ((WRITTEN["qwen coder"], True), (QUOTED["prose behind"], False), ("", False),
                        ("a", False)):  # fmt: skip
        exchange = observed(whole(said), path, request=REQUEST)
        assert exchange.written_call is found
        assert observed(whole(said), path, request=b"{}").written_call is None


@pytest.mark.parametrize("dialect", ANSWERS)
def test_streams_cut_anywhere_in_the_text(dialect: str) -> None:
    path, _, type_, piece, end = ANSWERS[dialect]
    path = path.replace(":generate", ":streamGenerate").replace("converse", "converse-stream")
    path = path.replace("/invoke", "/invoke-with-response-stream")
    before = [piece(word) for word in ("I ", "look ", "there.")]
    ends = [(WRITTEN[form], True) for form in ("mistral", "hermes")]
    ends += [(QUOTED[form], False) for form in ("prose behind", "in a fence")]
    for said, found in ends:
        for pieces in (*cuts(said)[:2], *cuts(said)[2::9]):
            chunks = [*before, *map(piece, pieces), end]
            exchange = observed(chunks, path, type_=type_, request=REQUEST)
            assert exchange.written_call is found
            assert exchange.ending is Ending.COMPLETE
    assert observed([*before, piece(said), end], path, type_=type_).written_call is None


def test_marks_that_go_s_json_escapes_are_found() -> None:
    events = [sse(dump(delta(content="I look.")), done=False)]
    for letter in WRITTEN["hermes"]:
        written = dump(delta(content=letter)).replace(b"<", b"\\u003c").replace(b">", b"\\u003e")
        events.append(sse(written, done=False))
    assert observed([*events, sse(delta("stop"))], type_=SSE, request=REQUEST).written_call is True


def test_the_end_may_be_asked_for_again() -> None:
    for chunks, type_ in (([chat(USAGE, content=WRITTEN["hermes"])], JSON),
                          ([sse_chat("I look."), sse_chat(WRITTEN["hermes"])], SSE)):  # fmt: skip
        observer = observing(type_=type_, request=REQUEST)
        for each in chunks:
            observer.on_response_body(each, 101.0)
        found = [observer.finish(Ending.COMPLETE, 102.0).written_call for _ in range(3)]
        assert found == [True] * 3


@pytest.mark.reaches_in
def test_events_without_a_mark_are_still_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    read = PayloadReader.read_document

    def reads(self: PayloadReader, reading: ResponseFacts, data: bytes, event: str | None) -> None:
        parsed.append(data)
        read(self, reading, data, event)

    monkeypatch.setattr(PayloadReader, "read_document", reads)
    observer = observing(type_=SSE, request=REQUEST)
    for said in ("I ", *["word "] * 100, "a `b` ", "is <", " 5", *[" and"] * 100, "."):
        observer.on_response_body(sse_chat(said), 101.0)
    assert len(parsed) == 4  # the first, those with a mark, and what shows that it was none


@pytest.mark.parametrize("method", ["take", "ends_in_call"])
def test_trouble_in_looking_leaves_the_rest_as_it_is(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(WrittenCall, method, fail)
    for body, type_ in ((chat(USAGE, content="<"), JSON),
                        (sse(delta(content="<"), delta("stop"), {"choices": [], "usage": USAGE}),
                         SSE)):  # fmt: skip
        exchange = observed(body, type_=type_, request=REQUEST)
        assert (exchange.unreadable_reason, exchange.usage.output_tokens) == (None, 2)
        assert (exchange.output_seen, exchange.written_call) == (True, None)


def test_nothing_of_the_text_stays_when_the_call_has_ended() -> None:
    observer = CallObserver(call(), salt=SALT)
    observer.on_request_body(REQUEST)
    observer.on_response_head(200, [(b"content-type", b"text/event-stream")], 100.5)
    observer.on_response_body(sse_chat("<tool_call>{ not one }</tool_call> but words"), 101.0)
    exchange = observer.finish(Ending.COMPLETE, 102.0)
    assert exchange.written_call is False
    written = observer._response.payloads.written
    assert written is not None
    assert not written.holds
