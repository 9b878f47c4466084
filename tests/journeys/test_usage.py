"""An agent that streams and never asks for its usage: counted all the same, and none the wiser."""

from __future__ import annotations

import json

import pytest

from tests.fakes import answers
from tests.fakes.provider import Answer, Framing, Provider, Request
from tests.journeys.service import Service


def as_asked(request: Request) -> Answer:
    """OpenAI's stream: with usage where it was asked for, else without any word of it."""
    asked = json.loads(request.body).get("stream_options") == {"include_usage": True}
    whole = answers.chat_stream(usage=asked).content
    body = whole if asked else whole.replace(b', "usage": null', b"")
    return Answer(headers=answers.SSE, body=(body,), framing=Framing.CHUNKED)


@pytest.mark.slow
def test_an_sdk_agent_that_did_not_ask_sees_no_usage_and_is_counted(
    service: Service, provider: Provider, rollout: str
) -> None:
    import openai

    provider.plays(as_asked)
    client = openai.OpenAI(base_url=service.base(rollout, "openai") + "/v1", api_key="sk-agent")
    stream = client.chat.completions.create(
        model="gpt-5", messages=[{"role": "user", "content": "hi"}], stream=True
    )
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "".join(
        answers.TEXT
    )
    assert not [chunk for chunk in chunks if "usage" in chunk.model_fields_set]
    (exchange,) = service.exchanges(rollout)
    assert exchange["input_tokens"] == answers.INPUT_TOKENS
    assert exchange["output_tokens"] == answers.OUTPUT_TOKENS
    assert exchange["usage_source"] == "provider"
    assert service.verdict(rollout)["health"] == "healthy"
