"""The providers' own SDKs find their types in every reply, whole and event by event."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from google.genai.interactions import Interaction, InteractionSSEEvent
from google.genai.types import GenerateContentResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.fakes.answers import Api
from tests.fakes.replies import Finish, Reply, ToolCall, answer

READ = ToolCall(id="call_1", name="read_file", arguments='{"path": "src/zero.py"}')
REPLY = Reply(
    model="m", input_tokens=900, output_tokens=40, cached_tokens=100, reasoning_tokens=8,
    reasoning="The zero may be true.", text=("I look", " at it."), calls=(READ,),
    finish=Finish.CALLS,
)  # fmt: skip
WHOLE: Mapping[Api, Any] = {
    Api.CHAT: ChatCompletion,
    Api.RESPONSES: Response,
    Api.MESSAGES: Message,
    Api.GEMINI: GenerateContentResponse,
    Api.INTERACTIONS: Interaction,
}
EVENT: Mapping[Api, Any] = {
    Api.CHAT: ChatCompletionChunk,
    Api.RESPONSES: ResponseStreamEvent,
    Api.MESSAGES: RawMessageStreamEvent,
    Api.GEMINI: GenerateContentResponse,
    Api.INTERACTIONS: InteractionSSEEvent,
}


@cache
def reads(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def events(content: bytes) -> Iterator[Any]:
    for line in content.decode().splitlines():
        _, is_data, text = line.partition("data: ")
        if is_data and text != "[DONE]":
            yield json.loads(text)


TEXTS: Mapping[Api, Callable[[Any], str]] = {
    Api.CHAT: lambda said: said.choices[0].message.content,
    Api.RESPONSES: lambda said: said.output_text,
    Api.MESSAGES: lambda said: said.content[1].text,
    Api.GEMINI: lambda said: said.text,
    Api.INTERACTIONS: lambda said: said.output_text,
}


@pytest.mark.parametrize("api", Api)
@pytest.mark.parametrize("finish", [Finish.STOP, Finish.CALLS, Finish.LENGTH])
def test_an_sdk_reads_a_whole_reply(api: Api, finish: Finish) -> None:
    calls = REPLY.calls if finish is Finish.CALLS else ()
    reply = replace(REPLY, finish=finish, calls=calls)
    said = reads(WHOLE[api]).validate_json(answer(api, reply, streams=False).content)
    assert TEXTS[api](said) == "I look at it."


@pytest.mark.parametrize("api", Api)
def test_an_sdk_reads_each_event_of_a_streamed_reply(api: Api) -> None:
    known = reads(EVENT[api])
    read = [
        known.validate_python(event)
        for event in events(answer(api, REPLY, streams=True).content)
        if event.get("type") != "ping"  # the SDK drops it before it looks
    ]
    assert len(read) >= 4
