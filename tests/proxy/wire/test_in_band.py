"""Errors inside a 200: each shape whole, event by event and cut at every place.

Each is written after what the named source says, in words of this test.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import orjson
import pytest

from classifier.codec import encode_exchange
from classifier.records import ProviderError
from proxy.routing.headers import named as by_name
from proxy.wire import routes
from proxy.wire.response import ReadLimits, ResponseReader
from tests.answers.table import STREAMS as STATED
from tests.answers.table import Answer
from tests.opcodes import opcodes
from tests.proxy.wire.observing import head, observed
from tests.proxy.wire.samples import (
    CHAT,
    CHAT_USAGE,
    EVENTS,
    JSON,
    NDJSON,
    RESPONSE_USAGE,
    SSE,
    STREAM_GENERATE,
    delta,
    dump,
    event,
    frame,
    last,
    lines,
    response,
    sse,
)  # fmt: skip
from tests.tables import each

YES = sse(delta(content="Yes"), done=False)
ENGINE = {"object": "error", "message": "The engine is gone", "type": "EngineError", "code": 500}
AN_OLLAMA = {"message": {"content": "a"}, "done": False}
STARTED = event("messageStart", {"role": "assistant"})


def said(row: Answer) -> ProviderError:
    assert row.said is not None
    return ProviderError(**{**row.said, "reasons": tuple(row.said.get("reasons", ()))})


# name: path, content type, body, what is read of it; others are binary, or no text
STREAMS = {
    **{row.fact: (row.url, row.headers["content-type"], row.sent(), said(row))
       for row in STATED if row.set == "streamed"},
    # botocore, service-2.json ConverseStreamOutput; eventstream's own errors have a code
    "bedrock": ("/model/m/converse-stream", EVENTS,
                STARTED + frame({"message": "Slow"}, message_type="exception",
                                exception_type="throttlingException"),
                ProviderError(message="Slow", type="throttlingException")),
    "bedrock-event": ("/model/m/converse-stream", EVENTS,
                      STARTED + event("modelTimeoutException", {"message": "Late"}),
                      ProviderError(message="Late", type="modelTimeoutException")),
    "bedrock-code": ("/model/m/converse-stream", EVENTS,
                     STARTED + frame(b"", message_type="error", error_code="InternalFailure",
                                     error_message="Fault"),
                     ProviderError(message="Fault", type="InternalFailure")),
}  # fmt: skip
WHOLE = {
    **{row.fact: (row.url, row.sent(), said(row)) for row in STATED if row.set == "whole"},
    # a message cut in the middle of a character, and one with raw control characters
    "surrogate": (CHAT, b'{"error": {"message": "Bad \\ud83d", "code": "c"}}',
                  ProviderError(message="Bad \ud83d", code="c")),
    "control": (CHAT, b'{"error": {"message": "Bad\x00\n", "code": "c"}}',
                ProviderError(message="Bad\x00", code="c")),
}  # fmt: skip

# Behind a text and before the end of a stream, and none of them an error.
HARMLESS: tuple[dict[str, object], ...] = (
    {"code": 0, "message": "success"}, {"code": "200", "message": "OK"},
    {"type": "status", "message": "working"}, {"error": None}, {"errors": []},
    {"error": {"code": None, "message": ""}}, {"detail": None}, {"error_code": 0, "error_msg": ""},
    {"base_resp": {"status_code": 0, "status_msg": ""}}, {"object": "ping", "message": None},
    delta(content=json.dumps(ENGINE)), delta(content='{"error": {"message": "no"}}'),
)  # fmt: skip


def read(pieces: Iterable[bytes], path: str, type_: str) -> ProviderError | None:
    reader = ResponseReader(routes.route("POST", path.encode()), ReadLimits())
    reader.head(200, head(type_), by_name(head(type_)))
    for piece in pieces:
        reader.feed(piece)
    reader.end()
    return reader.payloads.error


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
@each("name", STREAMS)
def test_an_error_in_a_stream_is_read_however_it_arrives(name: str, step: int) -> None:
    path, type_, body, expected = STREAMS[name]
    assert read([body], path, type_) == expected
    assert read([body[i : i + 1] for i in range(len(body))], path, type_) == expected
    events = [part + b"\n\n" for part in body.split(b"\n\n") if part]
    assert read(events if type_ == SSE else [body], path, type_) == expected
    for place in range(0, len(body), step):
        assert read([body[:place], body[place:]], path, type_) == expected, place
    assert observed(body, path, type_=type_).cause is not None


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])
@each("name", STREAMS)
def test_an_error_that_is_cut_is_whole_or_none(name: str, step: int) -> None:
    path, type_, body, expected = STREAMS[name]
    bare = name == "lmstudio-bare"  # a text has no end of its own
    for place in range(0, len(body), step):
        error = read([body[:place]], path, type_)
        assert error in (None, expected) or bare, place


@pytest.mark.parametrize("name", WHOLE)
def test_an_error_in_a_whole_answer_is_read(name: str) -> None:
    path, body, expected = WHOLE[name]
    for place in range(len(body)):
        assert read([body[:place], body[place:]], path, JSON) == expected
        assert read([body[:place]], path, JSON) is None or place == 0
    assert observed(body, path).cause is not None


@pytest.mark.parametrize("event", HARMLESS)
def test_what_only_resembles_an_error_is_none(event: object) -> None:
    body = YES + sse(event, delta("stop"), last(CHAT_USAGE))
    for pieces in ([body], [part + b"\n\n" for part in body.split(b"\n\n") if part]):
        assert read(pieces, CHAT, SSE) is None
        assert observed(pieces, CHAT, type_=SSE).cause is None


def test_a_response_that_completed_is_no_error() -> None:
    assert read([dump(response(RESPONSE_USAGE))], "/v1/responses", JSON) is None
    queued = response(None, status="queued") | {"error": None}
    assert read([dump(queued)], "/v1/responses", JSON) is None


# -- bad input -----------------------------------------------------------------------------

DEEP = 3_000
BAD = {
    "deep-error": b'{"error": ' * DEEP + b"1" + b"}" * DEEP,
    "deep-list": b'{"error": ' + b"[" * DEEP + b"1" + b"]" * DEEP + b"}",
    "deep-details": b'{"error": {"details": ' * DEEP + b"1" + b"}}" * DEEP,
    "deep-enough": b'{"error": ' * 900 + b"1" + b"}" * 900,
    "deep-in-text": dump({"error": {"message": "[" * 60_000}}),
    "wide-lists": dump({"error": [[[[{"message": f"{i}{j}"} for i in range(12)]
                                    for j in range(12)]] * 12] * 12}),
    "wide-object": dump({"error": {str(i): "" for i in range(6_000)}}),
    "nul": b'{"error": {"message": "\\u0000\\u0000", "code": "a\\u0000b"}}',
    "raw-nul": b'{"error": {"message": "\x00", "code": "a\x00b", "type": "\x00"}}',
    "surrogates": b'{"error": {"message": "\\udfff\\ud800", "code": "\\ud800", "param": "\\ud8"}}',
    "surrogate-names": b'{"model": "\\udfff", "id": "\\udfff", "error": {"type": "\\udfff"},'
                       b' "choices": [{"index": "\\udfff", "finish_reason": "\\udfff"}]}',
    "not-utf8": b'{"error": {"message": "\xff\xfe", "code": "\xff"}}',
    "numbers": b'{"error": {"code": 1e400, "status": -1, "retry_after": 1e308, "message": NaN}}',
    "lines": b"x\n" * 100_000,
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_no_bad_error_makes_it_raise_or_is_left_unread(name: str) -> None:
    body = BAD[name]
    for path in (CHAT, "/v1/responses", "/v1/messages", "/v2/chat", "/api/chat", STREAM_GENERATE):
        for status in (200, 500):
            exchange = observed(body, path, status=status)
            assert exchange.unreadable_reason is None
            assert exchange.cause is not None or status == 200
            assert orjson.dumps(encode_exchange(exchange))
    for begun, framed, path, type_ in (
        (YES, b"event: error\ndata: %s\n\n", CHAT, SSE),
        (YES, b"data: %s\n\n", CHAT, SSE),
        (lines(AN_OLLAMA), b"%s\n", "/api/chat", NDJSON),
    ):
        exchange = observed([begun, framed % body.replace(b"\n", b" ")], path, type_=type_)
        assert exchange.unreadable_reason is None
        assert exchange.cause is not None


@pytest.mark.parametrize(
    "grown",
    [
        lambda n: dump({"error": {"message": "word " * n}}),
        lambda n: dump({"error": {str(i): "" for i in range(n)}}),
        lambda n: dump({"error": [[[{"message": f"{i}{j}"} for i in range(n // 60)]
                                   for j in range(16)]] * 16}),
        lambda n: dump({"error": {"details": [{"reason": f"r{i}"} for i in range(n)]}}),
        lambda n: b"no json at all\n" * n,
    ],
)  # fmt: skip
def test_reading_an_error_takes_no_more_work_where_its_body_doubles(
    grown: Callable[[int], bytes],
) -> None:
    small, large = grown(900), grown(1_800)
    once = opcodes(lambda: observed(small, status=500))
    assert opcodes(lambda: observed(large, status=500)) <= once * 1.01
