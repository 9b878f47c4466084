"""What an agent sends in each dialect: a system prompt, tools, and the conversation so far.

Written after the providers' published shapes; no prompt in it is anybody's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

from tests.fakes.answers import Api
from tests.fakes.replies import ToolCall

Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """What a person, or the harness in their place, says."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assistant:
    """What the model said before, as the agent sends it back."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool returned to one call."""

    call: ToolCall
    text: str


Message: TypeAlias = User | Assistant | ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that is offered; ``parameters`` are strings, by name their description."""

    name: str
    description: str
    parameters: Mapping[str, str]

    @property
    def schema(self) -> Body:
        properties = {
            name: {"type": "string", "description": what} for name, what in self.parameters.items()
        }
        return {"type": "object", "properties": properties, "required": [*self.parameters]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request, in no dialect; ``limit`` is the most output tokens, None where none is set."""

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    limit: int | None = None


# What Anthropic's API demands of every request.
_MESSAGES_LIMIT = 32_000


def path(api: Api, model: str, *, streams: bool) -> str:
    """Where a request of the dialect goes, with its query."""
    match api:
        case Api.CHAT:
            return "/v1/chat/completions"
        case Api.RESPONSES:
            return "/v1/responses"
        case Api.MESSAGES:
            return "/v1/messages"
        case Api.GEMINI:
            method = "streamGenerateContent?alt=sse" if streams else "generateContent"
            return f"/v1beta/models/{model}:{method}"
        case Api.INTERACTIONS:
            return "/v1/interactions"
        case never:
            assert_never(never)


def body(api: Api, ask: Ask, *, streams: bool) -> bytes:
    """The request's body in the dialect."""
    payload = _BODIES[api](ask)
    if api is not Api.GEMINI:
        payload["stream"] = streams
    if api is Api.CHAT and streams:
        payload["stream_options"] = {"include_usage": True}
    return json.dumps(payload).encode()


def _each(messages: Sequence[Message], tell: Callable[[Message], list[Body]]) -> list[Body]:
    return [one for message in messages for one in tell(message)]


def _function(tool: Tool) -> Body:
    return {"name": tool.name, "description": tool.description, "parameters": tool.schema}


# --- OpenAI chat completions ---------------------------------------------------------------


def _chat(ask: Ask) -> Body:
    system = {"role": "system", "content": ask.system}
    payload: Body = {
        "model": ask.model,
        "messages": [system, *_each(ask.messages, _chat_message)],
        "temperature": 0.2,
    }
    if ask.tools:
        payload["tools"] = [{"type": "function", "function": _function(t)} for t in ask.tools]
    if ask.limit is not None:
        payload["max_completion_tokens"] = ask.limit
    return payload


def _chat_message(message: Message) -> list[Body]:
    match message:
        case User():
            return [{"role": "user", "content": message.text}]
        case Assistant():
            said: Body = {"role": "assistant", "content": message.text or None}
            if message.calls:
                said["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments},
                    }
                    for call in message.calls
                ]
            return [said]
        case ToolResult():
            return [{"role": "tool", "tool_call_id": message.call.id, "content": message.text}]
        case never:
            assert_never(never)


# --- OpenAI responses ----------------------------------------------------------------------


def _responses(ask: Ask) -> Body:
    payload: Body = {
        "model": ask.model,
        "instructions": ask.system,
        "input": _each(ask.messages, _responses_items),
        "store": False,
    }
    if ask.tools:
        kind = {"type": "function", "strict": False}
        payload["tools"] = [{**kind, **_function(tool)} for tool in ask.tools]
    if ask.limit is not None:
        payload["max_output_tokens"] = ask.limit
    return payload


def _responses_items(message: Message) -> list[Body]:
    match message:
        case User():
            content = [{"type": "input_text", "text": message.text}]
            return [{"type": "message", "role": "user", "content": content}]
        case Assistant():
            said = [{"type": "output_text", "text": message.text, "annotations": []}]
            spoken = {"type": "message", "role": "assistant", "content": said}
            calls = [
                {
                    "type": "function_call",
                    "call_id": call.id,
                    "name": call.name,
                    "arguments": call.arguments,
                }
                for call in message.calls
            ]
            return [*([spoken] if message.text else []), *calls]
        case ToolResult():
            output = {"call_id": message.call.id, "output": message.text}
            return [{"type": "function_call_output", **output}]
        case never:
            assert_never(never)


# --- Anthropic messages --------------------------------------------------------------------


def _messages(ask: Ask) -> Body:
    payload: Body = {
        "model": ask.model,
        "max_tokens": _MESSAGES_LIMIT if ask.limit is None else ask.limit,
        "system": [{"type": "text", "text": ask.system}],
        "messages": _each(ask.messages, _messages_message),
    }
    if ask.tools:
        payload["tools"] = [
            {"name": t.name, "description": t.description, "input_schema": t.schema}
            for t in ask.tools
        ]
    return payload


def _messages_message(message: Message) -> list[Body]:
    match message:
        case User():
            return [{"role": "user", "content": message.text}]
        case Assistant():
            text = [{"type": "text", "text": message.text}] if message.text else []
            calls = [
                {"type": "tool_use", "id": call.id, "name": call.name, "input": call.parsed}
                for call in message.calls
            ]
            return [{"role": "assistant", "content": [*text, *calls]}]
        case ToolResult():
            result = {"tool_use_id": message.call.id, "content": message.text}
            return [{"role": "user", "content": [{"type": "tool_result", **result}]}]
        case never:
            assert_never(never)


# --- Gemini generateContent ----------------------------------------------------------------


def _gemini(ask: Ask) -> Body:
    payload: Body = {
        "systemInstruction": {"parts": [{"text": ask.system}]},
        "contents": _each(ask.messages, _gemini_content),
    }
    if ask.tools:
        payload["tools"] = [{"functionDeclarations": [_function(tool) for tool in ask.tools]}]
    if ask.limit is not None:
        payload["generationConfig"] = {"maxOutputTokens": ask.limit}
    return payload


def _gemini_content(message: Message) -> list[Body]:
    match message:
        case User():
            return [{"role": "user", "parts": [{"text": message.text}]}]
        case Assistant():
            text = [{"text": message.text}] if message.text else []
            calls = [{"functionCall": {"name": c.name, "args": c.parsed}} for c in message.calls]
            return [{"role": "model", "parts": [*text, *calls]}]
        case ToolResult():
            response = {"name": message.call.name, "response": {"output": message.text}}
            return [{"role": "user", "parts": [{"functionResponse": response}]}]
        case never:
            assert_never(never)


# --- Gemini Interactions -------------------------------------------------------------------


def _interactions(ask: Ask) -> Body:
    payload: Body = {
        "model": ask.model,
        "system_instruction": ask.system,
        "input": _each(ask.messages, _interaction_steps),
        "store": False,
    }
    if ask.tools:
        payload["tools"] = [{"type": "function", **_function(tool)} for tool in ask.tools]
    if ask.limit is not None:
        payload["generation_config"] = {"max_output_tokens": ask.limit}
    return payload


def _interaction_steps(message: Message) -> list[Body]:
    match message:
        case User():
            content = [{"type": "text", "text": message.text}]
            return [{"type": "user_input", "content": content}]
        case Assistant():
            content = [{"type": "text", "text": message.text}]
            text = [{"type": "model_output", "content": content}] if message.text else []
            calls = [
                {"type": "function_call", "id": c.id, "name": c.name, "arguments": c.parsed}
                for c in message.calls
            ]
            return [*text, *calls]
        case ToolResult():
            call = {"call_id": message.call.id, "name": message.call.name}
            return [{"type": "function_result", **call, "result": message.text}]
        case never:
            assert_never(never)


_BODIES: Mapping[Api, Callable[[Ask], Body]] = {
    Api.CHAT: _chat,
    Api.RESPONSES: _responses,
    Api.MESSAGES: _messages,
    Api.GEMINI: _gemini,
    Api.INTERACTIONS: _interactions,
}
