"""The record of a call, built from what was observed."""

from __future__ import annotations

import pytest

from classifier.records import Ending, Kind, UsageSource
from classifier.verdicts import Subcategory
from proxy.capture.observer import CallObserver
from tests.proxy.wire.observing import SALT, call, observing
from tests.proxy.wire.samples import (
    EVENTS,
    chunk,
    dump,
)  # fmt: skip


def test_an_opened_exchange_is_in_flight() -> None:
    exchange = CallObserver(call("/v1/messages"), salt=SALT).opened()
    assert (exchange.ending, exchange.status, exchange.cause) == (None, None, None)
    assert (exchange.api, exchange.kind) == ("anthropic.messages", Kind.INFERENCE)
    assert exchange.timing.started_at == 1_800_000_000.0
    assert (exchange.timing.first_byte_s, exchange.timing.duration_s) == (None, None)


def test_an_opened_exchange_names_the_model_once_the_request_is_whole() -> None:
    request = dump({"model": "m", "messages": []})
    observer = CallObserver(call(), salt=SALT)
    observer.on_request_body(request[:-1])
    assert observer.opened().model is None
    observer.on_request_body(request[-1:])
    assert observer.opened().model == "m"


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


@pytest.mark.parametrize(("sent", "kept"), [(TRACE, TRACE), (TRACE + "-more", None), ("", None)])
def test_a_traceparent_is_kept_as_sent_where_it_has_one_s_length(
    sent: str, kept: str | None
) -> None:
    observer = CallObserver(call(traceparent=sent), salt=SALT)
    assert observer.finish(Ending.COMPLETE, 101.0).traceparent == kept


def test_every_field_of_the_call_reaches_the_exchange() -> None:
    one = call("/v1/messages")
    one.role, one.key_digest, one.injected = "judge", "key-1", True
    for exchange in (
        CallObserver(one, salt=SALT).opened(),
        CallObserver(one, salt=SALT).finish(Ending.COMPLETE, 101.0),
    ):
        assert (exchange.id, exchange.rollout_id, exchange.upstream) == ("x1", "r1", "any")
        assert (exchange.role, exchange.key_digest, exchange.injected) == ("judge", "key-1", True)
        assert (exchange.method, exchange.kind) == ("POST", Kind.INFERENCE)
