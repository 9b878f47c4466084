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
    TEXT_DELTA,
    chat,
    delta,
    dump,
    event,
    frame,
    gemini,
    last,
    lines,
    named,
    response,
    sse,
    text,
)  # fmt: skip
from tests.tables import each

YES = sse(delta(content="Yes"), done=False)
ENGINE = {"object": "error", "message": "The engine is gone", "type": "EngineError", "code": 500}
GEMINI = {"error": {"code": 503, "message": "No capacity", "status": "UNAVAILABLE"}}
A_GEMINI = gemini({"promptTokenCount": 1}, {"text": "a"}, finish=None)
A_STEP = {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": "a"}}
A_COHERE = {"type": "content-delta", "delta": {"message": {"content": {"text": "a"}}}}
AN_OLLAMA = {"message": {"content": "a"}, "done": False}
STARTED = event("messageStart", {"role": "assistant"})


def told(
    message: str | None = None,
    *reasons: str,
    code: str | None = None,
    type_: str | None = None,
    status: int | None = None,
) -> ProviderError:
    return ProviderError(message=message, reasons=reasons, code=code, type=type_, status=status)


def choice(**more: object) -> dict[str, object]:
    return {"id": "g", "choices": [{"index": 0, "delta": {"content": ""}, **more}]}


def failing(**error: object) -> dict[str, object]:
    return response(None, status="failed") | error


# name: path, content type, body, what is read of it
STREAMS = {
    # openai-python, src/openai/_streaming.py: an error object raises
    "chat": (CHAT, SSE, YES + sse({"error": {"message": "Boom", "code": "c", "type": "t"}}),
             told("Boom", code="c", type_="t")),
    # docs.vllm.ai, docs.mistral.ai: the object itself is the error
    "vllm": (CHAT, SSE, YES + sse(ENGINE), told("The engine is gone", type_="EngineError",
                                                status=500)),
    # openrouter.ai/docs/api-reference/errors: beside choices, inside a choice, or the reason only
    "openrouter": (CHAT, SSE,
                   YES + sse({"error": {"code": 502, "message": "Gone"}}
                             | choice(finish_reason="error")),
                   told("Gone", status=502)),
    "openrouter-choice": (CHAT, SSE,
                          YES + sse(choice(error={"code": 429, "message": "Slow"},
                                           finish_reason="error")),
                          told("Slow", status=429)),
    "openrouter-native": (CHAT, SSE,
                          YES + sse(choice(finish_reason="error",
                                           native_finish_reason="MALFORMED_CALL")),
                          told(None, "MALFORMED_CALL", type_="finish_reason.error")),
    "second-choice": (CHAT, SSE,
                      YES + sse({"choices": [{"index": 0, "delta": {}},
                                             {"index": 1, "error": {"code": 429}}]}),
                      told(status=429)),
    "finish-reason": (CHAT, SSE, YES + sse(delta("error")), told(type_="finish_reason.error")),
    # lmstudio.ai/docs: `event: error`, of an object, a text in an object, or a bare text
    "lmstudio": (CHAT, SSE, YES + b'event: error\ndata: {"error": {"message": "Crashed"}}\n\n',
                 told("Crashed")),
    "lmstudio-text": (CHAT, SSE, YES + b'event: error\ndata: {"error": "Unloaded."}\n\n',
                      told("Unloaded.")),
    "lmstudio-bare": (CHAT, SSE, YES + b"event: error\ndata: Unloaded.\n\n", told("Unloaded.")),
    # text-generation-inference, router/src/lib.rs: ErrorResponse
    "tgi": (CHAT, SSE, YES + sse({"error": "Bad input", "error_type": "validation"}),
            told("Bad input", type_="validation")),
    "tgi-generate": ("/generate_stream", SSE,
                     sse({"token": {"text": "a"}}, {"error": "Failed", "error_type": "generation"}),
                     told("Failed", type_="generation")),
    # help.aliyun.com, Model Studio: named by its event, or by nothing
    "dashscope": (CHAT, SSE, YES + b'event:error\n:HTTP_STATUS/429\ndata:{"code": "Throttling",'
                  b' "message": "Slow", "request_id": "r"}\n\n', told("Slow", code="Throttling")),
    "dashscope-unnamed": (CHAT, SSE, YES + sse({"code": "Throttling", "message": "Slow"}),
                          told("Slow", code="Throttling")),
    # cloud.baidu.com, Qianfan
    "qianfan": (CHAT, SSE, YES + sse({"error_code": 336100, "error_msg": "Later"}),
                told("Later", code="336100")),
    "fastapi": (CHAT, SSE, YES + sse({"detail": "Internal fault"}), told("Internal fault")),
    # openai-python, types/responses/response_error_event.py and response_failed_event.py
    "responses-failed": ("/v1/responses", SSE,
                         named(TEXT_DELTA, {"type": "response.failed", "response": failing(
                             error={"code": "server_error", "message": "Boom"})}),
                         told("Boom", code="server_error")),
    "responses-failed-null": ("/v1/responses", SSE,
                              named(TEXT_DELTA, {"type": "response.failed",
                                                 "response": failing()}),
                              told(type_="response.failed")),
    "responses-error": ("/v1/responses", SSE,
                        named(TEXT_DELTA, {"type": "error", "code": "invalid_prompt",
                                           "message": "No", "param": None}),
                        told("No", code="invalid_prompt")),
    "responses-nested": ("/v1/responses", SSE,
                         named(TEXT_DELTA, {"type": "error", "error": {
                             "type": "invalid_request_error", "code": "c", "message": "No"}}),
                         told("No", code="c", type_="invalid_request_error")),
    # docs.claude.com/en/api/errors
    "anthropic": ("/v1/messages", SSE,
                  named(text(0, "a"), {"type": "error", "error": {
                      "type": "overloaded_error", "message": "Busy"}}),
                  told("Busy", type_="overloaded_error")),
    # google-genai: an error object among the chunks, as SSE, bare JSON, or in the array
    "gemini": (STREAM_GENERATE, SSE, sse(A_GEMINI, GEMINI, done=False),
               told("No capacity", "UNAVAILABLE", status=503)),
    "gemini-bare": (STREAM_GENERATE, SSE,
                    sse(A_GEMINI, done=False) + json.dumps(GEMINI, indent=1).encode(),
                    told("No capacity", "UNAVAILABLE", status=503)),
    "gemini-array": (STREAM_GENERATE, JSON, b"[" + dump(A_GEMINI) + b",\r\n" + dump(GEMINI) + b"]",
                     told("No capacity", "UNAVAILABLE", status=503)),
    # ai.google.dev/gemini-api/docs/api-errors: an event, and an interaction that ends failed
    "interactions": ("/v1/interactions", SSE,
                     named(A_STEP, {"event_type": "error", "error": {
                         "code": "service_unavailable", "message": "No capacity"}}),
                     told("No capacity", code="service_unavailable")),
    "interactions-failed": ("/v1beta/interactions", SSE,
                            named(A_STEP, {"event_type": "interaction.completed", "interaction": {
                                "id": "i", "status": "failed", "errors": [
                                    {"code": "api_error", "message": "Boom"}]}}),
                            told("Boom", code="api_error")),
    "interactions-failed-null": ("/v1/interactions", SSE,
                                 named(A_STEP, {"event_type": "interaction.failed",
                                                "interaction": {"id": "i", "status": "failed"}}),
                                 told(type_="interaction.failed")),
    "interactions-update": ("/v1/interactions", SSE,
                            named({"event_type": "interaction.status_update",
                                   "interaction_id": "i", "status": "failed"}),
                            told(type_="interaction.failed")),
    # docs.cohere.com/reference/chat-stream: message-end, v1 stream-end
    "cohere": ("/v2/chat", SSE,
               named(A_COHERE, {"type": "message-end",
                                "delta": {"finish_reason": "ERROR", "error": "Fault"}}),
               told("Fault", type_="finish_reason.error")),
    "cohere-v1": ("/v1/chat", SSE,
                  sse({"event_type": "text-generation", "text": "a"},
                      {"event_type": "stream-end", "finish_reason": "ERROR"}, done=False),
                  told(type_="finish_reason.error")),
    # ollama, server/routes.go: a line with an error, and with a remote model's status
    "ollama": ("/api/chat", NDJSON, lines(AN_OLLAMA, {"error": "Runner died"}),
               told("Runner died")),
    "ollama-status": ("/api/chat", NDJSON,
                      lines(AN_OLLAMA, {"StatusCode": 429, "Status": "429 Too Many Requests",
                                        "error": "Hourly limit"}),
                      told("Hourly limit", status=429)),
    # botocore, service-2.json ConverseStreamOutput; eventstream's own errors have a code
    "bedrock": ("/model/m/converse-stream", EVENTS,
                STARTED + frame({"message": "Slow"}, message_type="exception",
                                exception_type="throttlingException"),
                told("Slow", type_="throttlingException")),
    "bedrock-event": ("/model/m/converse-stream", EVENTS,
                      STARTED + event("modelTimeoutException", {"message": "Late"}),
                      told("Late", type_="modelTimeoutException")),
    "bedrock-code": ("/model/m/converse-stream", EVENTS,
                     STARTED + frame(b"", message_type="error", error_code="InternalFailure",
                                     error_message="Fault"),
                     told("Fault", type_="InternalFailure")),
    # platform.minimax.io, error codes
    "minimax": (CHAT, SSE, YES + sse({"base_resp": {"status_code": 1002, "status_msg": "Slow"}}),
                told("Slow", "base_resp.1002")),
}  # fmt: skip

WHOLE = {
    "vllm": (CHAT, dump(ENGINE), told("The engine is gone", type_="EngineError", status=500)),
    "openrouter": (CHAT, dump({"choices": [{"message": {"content": ""}, "finish_reason": "error",
                                            "error": {"code": 503, "message": "Gone"}}]}),
                   told("Gone", status=503)),
    "finish-reason": (CHAT, chat(CHAT_USAGE, finish="error", content=""),
                      told(type_="finish_reason.error")),
    "responses": ("/v1/responses", dump(failing(error={"code": "c", "message": "Boom"})),
                  told("Boom", code="c")),
    "responses-null": ("/v1/responses", dump(failing()), told(type_="response.failed")),
    "interactions": ("/v1/interactions", dump({"id": "i", "status": "failed", "errors": [
        {"code": "quota_exceeded", "message": "Tomorrow"}], "steps": []}),
                     told("Tomorrow", code="quota_exceeded")),
    # google.rpc.Status of a step
    "interactions-step": ("/v1/interactions", dump({"id": "i", "status": "failed", "steps": [
        {"type": "model_output", "error": {"code": 8, "message": "Slow"}}]}),
                          told("Slow", "RESOURCE_EXHAUSTED", code="8")),
    "interactions-null": ("/v1/interactions", dump({"id": "i", "status": "failed"}),
                          told(type_="interaction.failed")),
    "cohere": ("/v2/chat", dump({"message": {"content": []}, "finish_reason": "ERROR"}),
               told(type_="finish_reason.error")),
    "tgi": ("/generate", dump({"error": "Full", "error_type": "overloaded"}),
            told("Full", type_="overloaded")),
    "anthropic": ("/v1/messages", dump({"type": "error", "error": {"type": "api_error",
                                                                   "message": "Boom"}}),
                  told("Boom", type_="api_error")),
    # a message cut in the middle of a character, and one with raw control characters
    "surrogate": (CHAT, b'{"error": {"message": "Bad \\ud83d", "code": "c"}}',
                  told("Bad \ud83d", code="c")),
    "control": (CHAT, b'{"error": {"message": "Bad\x00\n", "code": "c"}}',
                told("Bad\x00", code="c")),
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


@each("name", STREAMS)
def test_an_error_that_is_cut_is_whole_or_none(name: str) -> None:
    path, type_, body, expected = STREAMS[name]
    bare = name == "lmstudio-bare"  # a text has no end of its own
    for place in range(len(body)):
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

DEEP = 10_000
BAD = {
    "deep-error": b'{"error": ' * DEEP + b"1" + b"}" * DEEP,
    "deep-list": b'{"error": ' + b"[" * DEEP + b"1" + b"]" * DEEP + b"}",
    "deep-details": b'{"error": {"details": ' * DEEP + b"1" + b"}}" * DEEP,
    "deep-enough": b'{"error": ' * 900 + b"1" + b"}" * 900,
    "deep-in-text": dump({"error": {"message": "[" * 60_000}}),
    "wide-lists": dump({"error": [[[[{"message": f"{i}{j}"} for i in range(12)]
                                    for j in range(12)]] * 12] * 12}),
    "wide-object": dump({"error": {str(i): "" for i in range(30_000)}}),
    "nul": b'{"error": {"message": "\\u0000\\u0000", "code": "a\\u0000b"}}',
    "raw-nul": b'{"error": {"message": "\x00", "code": "a\x00b", "type": "\x00"}}',
    "surrogates": b'{"error": {"message": "\\udfff\\ud800", "code": "\\ud800", "param": "\\ud8"}}',
    "surrogate-names": b'{"model": "\\udfff", "id": "\\udfff", "error": {"type": "\\udfff"},'
                       b' "choices": [{"index": "\\udfff", "finish_reason": "\\udfff"}]}',
    "not-utf8": b'{"error": {"message": "\xff\xfe", "code": "\xff"}}',
    "numbers": b'{"error": {"code": 1e400, "status": -1, "retry_after": 1e308, "message": NaN}}',
    "lines": b"x\n" * 500_000,
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
    small, large = grown(3_000), grown(6_000)
    once = opcodes(lambda: observed(small, status=500))
    assert opcodes(lambda: observed(large, status=500)) <= once * 1.01
