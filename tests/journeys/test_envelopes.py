"""Failures inside a 200 through the running proxy: what the agent gets, and what is recorded."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.fakes.provider import Answer, Provider
from tests.journeys.service import Service

TIMED_OUT = b'{"errorMessage": "2026-01-01T00:00:00Z 6f2a Task timed out after 30.03 seconds"}'
ARREST = (
    b'{"fault": {"faultstring": "Spike arrest violation. Allowed rate : 5pm", "detail":'
    b' {"errorcode": "policies.ratelimit.SpikeArrestViolation"}}}'
)
SOAP = (
    b'<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body><soap:Fault>'
    b"<faultstring>The API key is not valid</faultstring></soap:Fault></soap:Body></soap:Envelope>"
)
BEGUN = b'data: {"choices": [{"index": 0, "delta": {"content": "Yes"}}]}\n\n'
MIDWAY = b'event: error\ndata: {"code": 42901, "msg": "Rate limit exceeded"}\n\n'
CHAT, NATIVE = "/v1/chat/completions", "/serving/m/invocations"


@pytest.mark.parametrize(
    ("path", "type_", "body", "said"),
    [
        (CHAT, "application/json", TIMED_OUT, "provider_error"),
        (CHAT, "application/json", ARREST, "rate_limit"),
        (CHAT, "text/xml", SOAP, "auth"),
        (CHAT, "text/plain", b"no healthy upstream", "provider_error"),
        (CHAT, "text/event-stream", BEGUN + MIDWAY, "rate_limit"),
        (NATIVE, "application/json", TIMED_OUT, "provider_error"),
    ],
)
def test_a_failure_inside_a_200_is_passed_on_and_recorded(
    service: Service,
    provider: Provider,
    rollout: str,
    path: str,
    type_: str,
    body: bytes,
    said: str,
) -> None:
    provider.plays(Answer(headers=(("content-type", type_),), body=(body,)))
    asked = json.dumps({"model": "m", "messages": [], "stream": True}).encode()
    own_key = {"authorization": "Bearer sk-journey"}
    got = httpx.post(service.base(rollout, "openai") + path, content=asked, headers=own_key)
    assert (got.status_code, got.content) == (200, body)
    (call,) = service.exchanges(rollout)
    assert (call["status"], call["subcategory"]) == (200, said)
    assert call["kind"] == ("other" if path == NATIVE else "inference")
