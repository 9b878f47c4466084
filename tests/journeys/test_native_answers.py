"""An agent on a wire that has no dialect here: its answers are read, and its telemetry is none."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.fakes import answers
from tests.fakes.provider import Answer, Provider, Request
from tests.journeys.service import Service

pytestmark = pytest.mark.slow  # to load the SDKs takes four CPU seconds

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


def _ask_messages(base: str, stream: bool) -> str:
    import anthropic

    client = anthropic.Anthropic(base_url=base, api_key="sk-agent", max_retries=0)
    said: anthropic.types.MessageParam = {"role": "user", "content": "Is it true?"}
    if stream:
        with client.messages.stream(model="m", max_tokens=9, messages=[said]) as events:
            return str(events.get_final_message().content[0])
    return str(client.messages.create(model="m", max_tokens=9, messages=[said]).content[0])


def _ask_responses(base: str, stream: bool) -> str:
    import openai

    client = openai.OpenAI(base_url=f"{base}/v1", api_key="sk-agent", max_retries=0)
    if not stream:
        return str(client.responses.create(model="m", input="Is it true?").output_text)
    with client.responses.stream(model="m", input="Is it true?") as events:
        return str(events.get_final_response().output_text)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_a_chat_completion_at_another_apis_path_ends_its_sdk_and_is_the_operators(
    service: Service, provider: Provider, rollout: str, api: str, stream: bool
) -> None:
    provider.plays(answers.chat_stream() if stream else answers.chat())
    service.register(id=rollout, upstream=api)
    ask = _ask_messages if api == "anthropic" else _ask_responses
    with pytest.raises((TypeError, AssertionError, RuntimeError)):
        ask(service.base(rollout, api), stream)
    service.outcome(rollout, status="success", rewards={"score": 0.0})
    verdict = service.verdict(rollout)
    assert (verdict["rule"], verdict["scoreable"]) == ("all_failed", "no")
    assert verdict["cause"] == f"v1:rejected_request:{api}:200:wrong_shape"
    assert verdict["attributed_to"] == "operator"


def test_a_rollout_that_its_harness_ended_is_undecided(
    service: Service, provider: Provider, rollout: str
) -> None:
    closed = {"error": {"code": "rollout_closed", "message": "It is over."}}
    provider.plays(answers.chat(), answers.whole(closed, 410))
    url = service.base(rollout, "openai") + "/v1/chat/completions"
    asked = {"model": "m", "messages": [{"role": "user", "content": "Is it true?"}]}
    assert [httpx.post(url, json=asked).status_code for _ in range(2)] == [200, 410]
    service.outcome(rollout, status="success", rewards={"score": 0.0})
    verdict = service.verdict(rollout)
    assert (verdict["health"], verdict["attributed_to"]) == ("undecided", "operator")
    assert verdict["warnings"] == ["refused_by_harness"]
    page = httpx.get(f"{service.url}/ui/rollouts/{rollout}", follow_redirects=True).text
    assert "evidence is missing (the harness itself refused a call" in page
