"""An agent on a wire that has no dialect here: its answers are read, and its telemetry is none."""

from __future__ import annotations

import pytest

from tests.fakes import answers
from tests.fakes.provider import Provider
from tests.journeys.service import Service

pytestmark = pytest.mark.slow  # to load the SDKs takes four CPU seconds


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
