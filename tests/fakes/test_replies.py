"""The providers' own SDKs find their types in every reply, whole and event by event."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.fakes.answers import Api
from tests.fakes.replies import Finish, Reply, ToolCall, answer

READ = ToolCall(id="call_1", name="read_file", arguments='{"path": "src/zero.py"}')
REPLY = Reply(
    model="m", input_tokens=900, output_tokens=40, cached_tokens=100, reasoning_tokens=8,
    reasoning="The zero may be true.", text=("I look", " at it."), calls=(READ,),
    finish=Finish.CALLS,
)  # fmt: skip
# The module of a type, the type of a whole reply, and that of an event. Loaded where it is read:
# these SDKs take 2 CPU s.
TYPES: Mapping[Api, tuple[str, str, str]] = {
    Api.CHAT: ("openai.types.chat", "ChatCompletion", "ChatCompletionChunk"),
    Api.RESPONSES: ("openai.types.responses", "Response", "ResponseStreamEvent"),
    Api.MESSAGES: ("anthropic.types", "Message", "RawMessageStreamEvent"),
    Api.GEMINI: ("google.genai.types", "GenerateContentResponse", "GenerateContentResponse"),
    Api.INTERACTIONS: ("google.genai.interactions", "Interaction", "InteractionSSEEvent"),
}


# Each SDK takes up to two CPU seconds to load.
EVERY_API = pytest.mark.parametrize(
    "api", [pytest.param(each, marks=[pytest.mark.slow] * (each is not Api.CHAT)) for each in Api]
)


@cache
def reads(module: str, kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(getattr(import_module(module), kind))


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


@EVERY_API
@pytest.mark.parametrize("finish", [Finish.STOP, Finish.CALLS, Finish.LENGTH])
def test_an_sdk_reads_a_whole_reply(api: Api, finish: Finish) -> None:
    calls = REPLY.calls if finish is Finish.CALLS else ()
    reply = replace(REPLY, finish=finish, calls=calls)
    module, kind, _ = TYPES[api]
    said = reads(module, kind).validate_json(answer(api, reply, streams=False).content)
    assert TEXTS[api](said) == "I look at it."


@EVERY_API
def test_an_sdk_reads_each_event_of_a_streamed_reply(api: Api) -> None:
    module, _, kind = TYPES[api]
    known = reads(module, kind)
    read = [
        known.validate_python(event)
        for event in events(answer(api, REPLY, streams=True).content)
        if event.get("type") != "ping"  # the SDK drops it before it looks
    ]
    assert len(read) >= 4
