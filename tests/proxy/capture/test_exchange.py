"""The record of a call, built from what was observed."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from classifier.records import (
    AnswerState,
    Attribution,
    Ending,
    Exchange,
    KeySource,
    Kind,
    Timing,
    Usage,
    UsageSource,
)
from classifier.verdicts import Subcategory
from proxy.capture.observer import CallObserver
from proxy.capture.request import response_digest
from proxy.wire import request as selection
from tests.proxy.wire.observing import SALT, call, head, observing
from tests.proxy.wire.samples import (
    EVENTS,
    chunk,
    dump,
)  # fmt: skip
from tests.tables import each


def test_an_opened_exchange_is_in_flight() -> None:
    one = call("/v1/messages")
    one.role, one.key_digest, one.injected = "judge", "key-1", True
    exchange = CallObserver(one, salt=SALT).in_flight()
    assert (exchange.id, exchange.rollout_id, exchange.upstream) == ("x1", "r1", "any")
    assert (exchange.role, exchange.key_digest, exchange.injected) == ("judge", "key-1", True)
    assert exchange.method == "POST"
    assert (exchange.ending, exchange.status, exchange.cause) == (None, None, None)
    assert (exchange.api, exchange.kind) == ("anthropic.messages", Kind.INFERENCE)
    assert exchange.timing.started_at == 1_800_000_000.0
    assert (exchange.timing.first_byte_s, exchange.timing.duration_s) == (None, None)


def test_an_opened_exchange_names_the_model_once_the_request_is_whole() -> None:
    request = dump({"model": "m", "messages": []})
    observer = CallObserver(call(), salt=SALT)
    observer.on_request_body(request[:-1])
    assert observer.in_flight().model is None
    observer.on_request_body(request[-1:])
    assert observer.in_flight().model == "m"


def test_a_call_that_never_connected_has_no_status_and_a_cause() -> None:
    observer = CallObserver(call(), salt=SALT)
    observer.on_request_body(dump({"model": "m", "stream": True}))
    exchange = observer.finish(Ending.NEVER_CONNECTED, 103.0)
    assert (exchange.status, exchange.model, exchange.streamed) == (None, "m", True)
    assert exchange.cause is not None
    assert exchange.cause.subcategory is Subcategory.PROVIDER_ERROR
    assert exchange.timing.duration_s == pytest.approx(3.0)
    assert exchange.output_seen is None


def test_counts_from_headers_are_told_alike_each_time() -> None:
    observer = observing("/model/m/invoke-with-response-stream", type_=EVENTS,
                 headers={"x-amzn-bedrock-input-token-count": "15",
                          "x-litellm-response-cost": "nan"})  # fmt: skip
    observer.on_response_body(chunk({"outputText": "a", "completionReason": "FINISH"}), 101.0)
    usages = [observer.finish(Ending.COMPLETE, 102.0).usage for _ in range(2)]
    assert usages[0] == usages[1]
    assert (usages[0].input_tokens, usages[0].source) == (15, UsageSource.HEADER)
    assert usages[0].cost_usd is None


TRACE = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"


@each("sent, kept", [(TRACE, TRACE), (TRACE + "-more", None), ("", None)])
def test_a_traceparent_is_kept_as_sent_where_it_has_one_s_length(
    sent: str, kept: str | None
) -> None:
    observer = CallObserver(call(traceparent=sent), salt=SALT)
    assert observer.finish(Ending.COMPLETE, 101.0).traceparent == kept


def test_each_fact_of_a_call_has_its_own_name() -> None:
    """Most are handed over by position."""
    one = replace(
        call("/v1/responses", x_stainless_retry_count="2", openai_project="p", traceparent=TRACE),
        role="judge", attribution=Attribution.HEADER, key_digest="key-1", injected=True,
        key_source=KeySource.AGENT,
    )  # fmt: skip
    request = dump({"model": "m", "tools": [{"type": "function"}], "max_output_tokens": 7})
    response = dump(
        {
            "id": "resp_1", "object": "response", "model": "m-1", "status": "in_progress",
            "output": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}]}],
            "usage": {
                "input_tokens": 30, "output_tokens": 4, "total_tokens": 34,
                "input_tokens_details": {"cached_tokens": 5},
                "output_tokens_details": {"reasoning_tokens": 3},
            },
        }
    )  # fmt: skip
    observer = CallObserver(one, salt=SALT)
    observer.on_request_body(request)
    observer.on_response_head(200, head("application/json", {"x-request-id": "req-1"}), 100.5)
    observer.on_response_body(response, 101.0)
    observer.await_agent()
    line = hashlib.blake2b(b"POST /v1/responses\n" + request, key=SALT, digest_size=8)
    assert observer.finish(Ending.COMPLETE, 102.0) == Exchange(
        id="x1", rollout_id="r1", upstream="any", api="openai.responses",
        timing=Timing(1_800_000_000.0, 0.5, None, 2.0), kind=Kind.INFERENCE, method="POST",
        role="judge", model="m", answered_model="m-1", status=200, ending=Ending.COMPLETE,
        streamed=False,
        usage=Usage(
            input_tokens=30, output_tokens=4, cached_input_tokens=5, reasoning_tokens=3,
            total_tokens=34, input_total=30, output_total=4, source=UsageSource.PROVIDER,
        ),
        finish_reason=None, tool_calls=0, output_seen=True, content_seen=False, has_tools=True,
        cause=None, provider_request_id="req-1", request_bytes=len(request),
        response_bytes=len(response), request_digest=line.hexdigest(), sdk_retry=2,
        response_digest=response_digest("resp_1", SALT), pending=True,
        attribution=Attribution.HEADER, key_digest="key-1", injected=True, unreadable_reason=None,
        selector_digest=selection.digest((("openai-project", b"p"),), SALT),
        key_source=KeySource.AGENT, model_ambiguous=False, held=True, output_limit=7,
        answer_state=AnswerState.EMPTY, inferred=False, traceparent=TRACE,
    )  # fmt: skip
