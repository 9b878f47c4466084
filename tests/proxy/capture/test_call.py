"""What a call is known by before its response."""

from __future__ import annotations

import gzip

import pytest
import zstandard

from classifier.records import Ending, Exchange, Kind
from classifier.verdicts import Subcategory
from proxy.capture.observer import CallObserver, ObserverLimits
from proxy.capture.request import response_digest
from tests.proxy.wire.observing import SALT, call, head, observed
from tests.proxy.wire.samples import (
    SSE,
    A,
    R,
    chat,
    delta,
    dump,
    messages,
    response,
    sse,
    text,
)  # fmt: skip

DELTA = sse(delta(content="Yes"), done=False)


USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


def test_the_request_says_model_stream_and_tools() -> None:
    request = dump({"model": "m", "stream": True, "tools": [{"name": "f"}]})
    exchange = observed(DELTA, type_=SSE, request=request)
    assert (exchange.model, exchange.streamed, exchange.has_tools) == ("m", True, True)
    assert exchange.request_bytes == len(request)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_packed_request_is_read_too(encoding: str) -> None:
    request = dump({"model": "m", "stream": False, "tools": []})
    packed = gzip.compress(request) if encoding == "gzip" else zstandard.compress(request)
    observer = CallObserver(call(content_encoding=encoding), salt=SALT)
    observer.on_request_body(packed[:9])
    observer.on_request_body(packed[9:])
    exchange = observer.finish(Ending.NEVER_CONNECTED, 101.0)
    assert (exchange.model, exchange.request_bytes) == ("m", len(packed))


RESPONSE = "/v1/responses/resp_1"


def fetched(method: str, path: str, body: bytes, status: int = 200) -> Exchange:
    observer = CallObserver(call(path, method=method), salt=SALT)
    observer.on_response_head(status, head("application/json"), 100.5)
    observer.on_response_body(body, 101.0)
    return observer.finish(Ending.COMPLETE, 102.0)


def test_a_response_in_the_background_is_pending_and_its_later_calls_are_known() -> None:
    begun = fetched("POST", "/v1/responses", dump(response(None, status="queued", id="resp_1")))
    assert (begun.pending, begun.finish_reason, begun.cause) == (True, None, None)
    assert begun.content_seen is False
    said = {"type": "message", "content": [{"type": "output_text", "text": "Yes"}]}
    for answer, pending, finish in (
        (response(None, status="in_progress", id="resp_1"), True, None),
        (response(R, said, id="resp_1"), False, "completed"),
        (response(None, status="cancelled", id="resp_1"), False, "cancelled"),
    ):
        later = fetched("GET", RESPONSE, dump(answer))
        assert (later.kind, later.pending) == (Kind.CONTINUATION, pending)
        assert (later.finish_reason, later.cause) == (finish, None)
        assert later.response_digest == begun.response_digest is not None
        assert "resp_1" not in repr(later)
    other = fetched("GET", "/v1/responses/resp_2", dump(response(R, said, id="resp_2")))
    assert other.response_digest not in (None, begun.response_digest)
    assert response_digest("resp_1", SALT) == begun.response_digest


def test_a_response_that_failed_in_the_background_fails_the_call_that_fetches_it() -> None:
    error = {"code": "rate_limit_exceeded", "message": "Rate limit reached"}
    failed = fetched("GET", RESPONSE, dump(response(None, status="failed", error=error)))
    gone = fetched("GET", RESPONSE, dump({"error": {"message": "No response found"}}), 404)
    assert failed.cause is not None
    assert failed.cause.subcategory is Subcategory.RATE_LIMIT
    assert gone.cause is not None
    assert gone.response_digest == failed.response_digest is not None
    empty = fetched("GET", RESPONSE, b"")
    assert empty.cause is not None
    assert empty.cause.reason == "empty_body"


def test_a_request_in_an_unknown_encoding_is_unknown() -> None:
    observer = CallObserver(call(content_encoding="lz4"), salt=SALT)
    observer.on_request_body(b"\x00\x01")
    assert observer.finish(Ending.NEVER_CONNECTED, 101.0).model is None


def test_a_request_over_its_budget_is_counted_and_not_read() -> None:
    observer = CallObserver(call(), salt=SALT, limits=ObserverLimits(request_bytes=100))
    for _ in range(3):
        observer.on_request_body(dump({"model": "m", "pad": "x" * 40}))
    exchange = observer.finish(Ending.NEVER_CONNECTED, 101.0)
    assert (exchange.model, exchange.has_tools, exchange.deaf) == (None, None, None)
    assert exchange.request_bytes > 100


def test_a_head_that_comes_before_the_request_s_end_loses_nothing() -> None:
    request = dump({"model": "m", "messages": ["x" * 100]})
    observer = CallObserver(call(), salt=SALT)
    observer.on_request_body(request[:50])
    observer.on_response_head(413, head("text/plain"), 100.1)
    observer.on_request_body(request[50:])
    assert observer.finish(Ending.COMPLETE, 101.0).model == "m"


def test_the_path_s_model_is_the_one_that_was_asked_for() -> None:
    exchange = observed(b"{}", "/openai/deployments/d-1/chat/completions",
                     request=dump({"model": "other"}))  # fmt: skip
    assert exchange.model == "d-1"


def failed(request: bytes, path: str = "/v1/messages", salt: bytes = SALT, cut: int = 5) -> str:
    observer = CallObserver(call(path), salt=salt)
    observer.on_request_body(request[:cut])
    observer.on_request_body(request[cut:])
    observer.on_response_head(429, head("application/json"), 100.2)
    digest = observer.finish(Ending.COMPLETE, 101.0).request_digest
    assert digest is not None
    return digest


def test_equal_requests_have_equal_digests_and_others_do_not() -> None:
    body = dump({"model": "m", "messages": ["secret"]})
    digest = failed(body)
    assert len(digest) == 16
    assert failed(body, cut=11) == digest
    assert failed(body + b" ") != digest
    assert failed(body, path="/v1/chat/completions") != digest
    assert failed(body, salt=b"another salt") != digest


def test_a_repeated_call_has_its_digest_also_when_it_succeeds() -> None:
    body = dump({"model": "m", "stream": True})
    observer = CallObserver(call("/v1/messages", x_stainless_retry_count="2"), salt=SALT)
    observer.on_request_body(body)
    observer.on_response_head(200, head(SSE), 100.2)
    observer.on_response_body(messages(A, text(0, "Yes"), end=A), 100.3)
    exchange = observer.finish(Ending.COMPLETE, 101.0)
    assert exchange.cause is None
    assert exchange.sdk_retry == 2
    assert exchange.request_digest == failed(body)


def test_a_first_call_that_succeeds_needs_no_digest() -> None:
    assert observed(chat(USAGE), request=b"{}").request_digest is None


@pytest.mark.parametrize(("value", "retry"), [("0", 0), ("3", 3), ("x", None), ("99999", None)])
def test_the_sdk_s_retry_count_is_read(value: str, retry: int | None) -> None:
    observer = CallObserver(call(x_stainless_retry_count=value), salt=SALT)
    assert observer.opened().sdk_retry == retry
