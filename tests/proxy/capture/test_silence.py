"""How long a provider may be silent before a call that its agent abandoned was stalled."""

from __future__ import annotations

import gzip

import pytest

from classifier.causes import classify
from classifier.records import Ending
from proxy.capture.observer import CallObserver, CauseRules, SilenceLimits
from tests.proxy.wire.observing import SALT, call, head, observing
from tests.proxy.wire.samples import (
    CHAT,
    EVENTS,
    NDJSON,
    SSE,
    STREAM_GENERATE,
    TEXT_DELTA,
    block,
    delta,
    event,
    gemini,
    lines,
    named,
    response,
    sse,
    text,
)  # fmt: skip
from tests.tables import each

LIMITS = SilenceLimits()
STREAM = b'{"model": "m", "stream": true}'
ANTHROPIC_PING = named({"type": "ping"})
KEEPALIVE = named({"type": "keepalive", "sequence_number": 123456})
COMMENT = b": OPENROUTER PROCESSING\n\n"
STARTED = named({"type": "message_start", "message": {"model": "c", "content": []}})
THOUGHT = {"type": "thinking_delta", "thinking": "Hmm"}

# Path, content type, what begins the answer, its first content, more of it, what is none.
STREAMS = {
    "chat": (CHAT, SSE, sse(delta(role="assistant", content=""), done=False),
             sse(delta(content="a"), done=False), sse(delta(content="b"), done=False), COMMENT),
    "chat-ping": (CHAT, SSE, COMMENT, sse(delta(reasoning="a"), done=False),
                  sse(delta(reasoning="b"), done=False), b"event: ping\ndata: {} \n\n"),
    "anthropic": ("/v1/messages", SSE, STARTED, named(text(0, "a")), named(text(0, "b")),
                  ANTHROPIC_PING),
    "thinking": ("/v1/messages", SSE, STARTED + named(block(0, type="thinking", thinking="")),
                 named({"type": "content_block_delta", "index": 0, "delta": THOUGHT}),
                 named({"type": "content_block_delta", "index": 0, "delta": THOUGHT}),
                 ANTHROPIC_PING),
    "responses": ("/v1/responses", SSE,
                  named({"type": "response.created",
                         "response": response(None, status="in_progress")}),
                  named(TEXT_DELTA), named(TEXT_DELTA), KEEPALIVE),
    "gemini": (STREAM_GENERATE, SSE, COMMENT,
               sse(gemini({}, {"text": "a"}, finish=None), done=False),
               sse(gemini({}, {"text": "b"}, finish=None), done=False), COMMENT),
    "ollama": ("/api/chat", NDJSON, lines({"message": {"content": ""}, "done": False}),
               lines({"message": {"content": "a"}, "done": False}),
               lines({"message": {"content": "b"}, "done": False}), b"\n"),
    "converse": ("/model/m/converse-stream", EVENTS, event("messageStart", {"role": "assistant"}),
                 event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "a"}}),
                 event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "b"}}),
                 b""),
}  # fmt: skip


def stalled(observer: CallObserver, at: float) -> bool:
    """Whether a call whose agent leaves at this moment was stalled."""
    cause = observer.finish(Ending.LEFT_BY_AGENT, at).cause
    assert cause is None or cause.reason == "stalled"
    return cause is not None


def hear(observer: CallObserver, body: bytes, at: float, size: int) -> None:
    for place in range(0, len(body), size):
        observer.on_response_body(body[place : place + size], at)


@each(
    "streamed, has_content, limit",
    [(True, True, 60.0), (True, False, 300.0), (False, False, 600.0), (False, True, 600.0)],
)
def test_what_was_waited_for_decides(streamed: bool, has_content: bool, limit: float) -> None:
    assert LIMITS.limit(streamed=streamed, has_content=has_content) == limit


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("name", STREAMS)
def test_silence_is_measured_from_the_last_content(name: str, size: int) -> None:
    path, type_, begun, first, more, none = STREAMS[name]
    observer = observing(path, type_=type_, request=STREAM)
    hear(observer, begun, 110.0, size)
    for at in (250.0, 390.0):
        hear(observer, none, at, size)
    assert not stalled(observer, 400.0)
    assert stalled(observer, 400.1)  # 300 s without any content
    hear(observer, first, 500.0, size)
    assert not stalled(observer, 560.0)
    assert stalled(observer, 560.1)  # 60 s without more
    hear(observer, more, 580.0, size)
    for at in (600.0, 630.0):
        hear(observer, none, at, size)
    assert not stalled(observer, 640.0)
    assert stalled(observer, 640.1)


def test_an_answer_that_is_not_streamed_has_longer() -> None:
    observer = observing(request=b'{"model": "m"}')
    for at in range(110, 700, 10):
        observer.on_response_body(b"\n", float(at))  # as OpenRouter writes while it waits
    assert not stalled(observer, 700.0)
    assert stalled(observer, 700.1)


@each("request_, limit", [(STREAM, 300.0), (b"{}", 600.0), (b"?", 600.0)])
def test_before_the_head_the_request_says_what_is_waited_for(request_: bytes, limit: float) -> None:
    observer = CallObserver(call(), salt=SALT)
    observer.on_request_body(request_)
    assert not stalled(observer, 100.0 + limit)
    assert stalled(observer, 100.1 + limit)


def test_an_upload_that_is_withheld_is_no_silence_of_the_provider() -> None:
    observer = CallObserver(call(), salt=SALT)
    observer.on_request_body(STREAM[:9])
    observer.await_agent()
    assert not stalled(observer, 1_000.0)
    observer.on_request_body(STREAM[9:])
    observer.await_provider(1_000.0)
    assert not stalled(observer, 1_300.0)
    assert stalled(observer, 1_300.1)


def test_a_stream_that_is_not_read_is_no_silence_of_the_provider() -> None:
    observer = observing(type_=SSE, request=STREAM)
    observer.on_response_body(sse(delta(content="a"), done=False), 101.0)
    observer.await_agent()
    assert not stalled(observer, 165.0)
    observer.await_provider(165.0)
    assert not stalled(observer, 225.0)
    assert stalled(observer, 225.1)


def test_every_event_of_an_unknown_shape_is_content() -> None:
    observer = observing("/generate_stream", type_=SSE)
    for at in (300.0, 500.0):
        observer.on_response_body(b'data: {"piece": {"said": "a"}}\n\n', at)
    assert not stalled(observer, 800.0)
    assert stalled(observer, 800.1)


def test_every_byte_of_an_unreadable_answer_is_content() -> None:
    observer = CallObserver(call(), salt=SALT)
    observer.on_request_body(STREAM)
    observer.on_response_head(200, head(SSE, {"content-encoding": "lz4"}), 101.0)
    observer.on_response_body(b"\x00", 500.0)
    assert not stalled(observer, 900.0)


def test_pings_in_an_encoded_stream_are_no_content_either() -> None:
    observer = observing("/v1/messages", type_=SSE, headers={"content-encoding": "gzip"})
    whole = gzip.compress(STARTED + named(text(0, "a")))
    observer.on_response_body(whole, 101.0)
    observer.on_response_body(gzip.compress(ANTHROPIC_PING * 9), 150.0)
    assert not stalled(observer, 161.0)
    assert stalled(observer, 161.1)


def test_limits_can_be_set() -> None:
    causes = CauseRules(silence=SilenceLimits(whole_answer_s=2.0), classify=classify)
    observer = CallObserver(call(), salt=SALT, causes=causes)
    assert not stalled(observer, 102.0)
    assert stalled(observer, 102.1)
