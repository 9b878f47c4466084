"""An agent on a wire that has no dialect here: its answers are read, and its telemetry is none."""

from __future__ import annotations

import json

import httpx

from tests.fakes import answers
from tests.fakes.provider import Answer, Provider, Request
from tests.journeys.service import Service

SAGEMAKER, TELEMETRY = "/endpoints/falcon/invocations", "/v1/ingest"
POST, GET = "/v1/models/acme/falcon/predictions", "/v1/predictions/pred1"


def as_native(request: Request) -> Answer:
    """Each path in the words of its own server."""
    path = request.target.partition("?")[0]
    fetched = request.method == "GET"
    told: object = {"status": "ok"}
    if path.endswith(SAGEMAKER):
        told = [{"generated_text": "It is true."}]
    elif path.endswith((POST, GET)):
        status = "succeeded" if fetched else "starting"
        told = {"id": "pred1", "status": status, "output": ["It is"] if fetched else None}
    return Answer(headers=answers.JSON, body=(json.dumps(told).encode(),))


def test_an_agent_on_another_wire_is_judged_by_what_was_read(
    service: Service, provider: Provider, rollout: str
) -> None:
    provider.plays(as_native)
    base, asked = service.base(rollout, "openai"), {"inputs": "Is it true?"}
    key = {"authorization": "Bearer sk-agent"}
    with httpx.Client(headers=key) as client:
        client.post(base + TELEMETRY, json={"events": [asked]}).raise_for_status()
        assert client.post(base + SAGEMAKER, json=asked).json() == [
            {"generated_text": "It is true."}
        ]
        client.post(base + POST, json={"input": asked}).raise_for_status()
        assert client.get(base + GET).json()["output"] == ["It is"]
    seen = {
        (x["kind"], x["answer_state"], x["inferred"], x["model"])
        for x in service.exchanges(rollout)
    }
    assert seen == {
        ("other", "unread", False, None),
        ("inference", "read", True, "falcon"),
        ("inference", "empty", False, "acme/falcon"),
        ("continuation", "read", True, None),
    }
    assert service.verdict(rollout)["health"] == "healthy"


def test_telemetry_alone_proves_nothing(service: Service, provider: Provider, rollout: str) -> None:
    provider.plays(as_native)
    base = service.base(rollout, "openai")
    httpx.post(base + TELEMETRY, json={"prompt": "Is it true?"}).raise_for_status()
    (exchange,) = service.exchanges(rollout)
    assert (exchange["kind"], exchange["answer_state"]) == ("other", "unread")
    assert service.verdict(rollout)["health"] != "healthy"
