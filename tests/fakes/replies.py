"""One reply, as each dialect's provider puts it: text, reasoning, tool calls, counts, any ending.

Written after the providers' published shapes, as answers.py is; it holds no recording.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tests.fakes.provider import Answer, Framing

JSON = (("content-type", "application/json"),)
SSE = (("content-type", "text/event-stream; charset=utf-8"),)

Body = dict[str, Any]
CREATED = 1_790_000_000


class Api(StrEnum):
    """The dialects that answers are written in."""

    CHAT = "openai.chat"
    RESPONSES = "openai.responses"
    MESSAGES = "anthropic.messages"
    GEMINI = "gemini.generate"
    INTERACTIONS = "gemini.interactions"


def whole(payload: object, status: int = 200, *headers: tuple[str, str]) -> Answer:
    """A JSON answer with a content-length."""
    body = json.dumps(payload).encode()
    return Answer(status=status, headers=JSON + headers, body=(body,))


def streamed(*events: bytes) -> Answer:
    """A chunked answer of server-sent events, one chunk each."""
    return Answer(headers=SSE, body=events, framing=Framing.CHUNKED)


def data(payload: object) -> bytes:
    """A server-sent event that has no name."""
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def named(name: str, payload: Mapping[str, object]) -> bytes:
    """A server-sent event whose name is also its payload's type."""
    body = json.dumps({"type": name, **payload}).encode()
    return b"event: " + name.encode() + b"\ndata: " + body + b"\n\n"


def interaction_event(name: str, **payload: object) -> bytes:
    """A server-sent event whose payload names it in ``event_type``."""
    body = json.dumps({**payload, "event_type": name}).encode()
    return b"event: " + name.encode() + b"\ndata: " + body + b"\n\n"


INTERACTION_DONE = b"event: done\ndata: [DONE]\n\n"


class Finish(StrEnum):
    """Why a reply ends; the last three are an engine's, which no API's documents name."""

    STOP = "stop"
    CALLS = "calls"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"
    NONE = "none"  # not said


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One tool call that a reply asks for; ``arguments`` is JSON, or what there is of it."""

    id: str
    name: str
    arguments: str

    @property
    def parsed(self) -> Body:
        """The arguments, as dialects that nest them have them; none where they were cut."""
        try:
            arguments: Body = json.loads(self.arguments)
        except json.JSONDecodeError:
            return {}
        return arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a provider answers, in no dialect.

    ``text``: its pieces as they are streamed. ``input_tokens`` include the cached ones,
    ``output_tokens`` the reasoning. ``extra``: members beside the dialect's own.
    """

    model: str
    input_tokens: int
    output_tokens: int
    id: str = "1"
    text: tuple[str, ...] = ()
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: Finish = Finish.STOP
    cached_tokens: int = 0
    says_cache_writes: bool = True  # of OpenAI's responses: a newer field
    reasoning_tokens: int = 0
    extra: Mapping[str, object] = field(default_factory=dict)
    headers: tuple[tuple[str, str], ...] = ()


# As each dialect says it. The Responses API has a status and a reason for an incomplete one.
WORDS: Mapping[Api, Mapping[Finish, str | None]] = {
    Api.CHAT: {
        Finish.STOP: "stop", Finish.CALLS: "tool_calls", Finish.LENGTH: "length",
        Finish.ABORT: "abort", Finish.ERROR: "error", Finish.NONE: None,
    },
    Api.RESPONSES: {
        Finish.STOP: "completed", Finish.CALLS: "completed",
        Finish.LENGTH: "incomplete:max_output_tokens", Finish.ABORT: "incomplete:abort",
        Finish.ERROR: "incomplete:error", Finish.NONE: None,
    },
    Api.MESSAGES: {
        Finish.STOP: "end_turn", Finish.CALLS: "tool_use", Finish.LENGTH: "max_tokens",
        Finish.ABORT: "abort", Finish.ERROR: "error", Finish.NONE: None,
    },
    Api.GEMINI: {
        Finish.STOP: "STOP", Finish.CALLS: "STOP", Finish.LENGTH: "MAX_TOKENS",
        Finish.ABORT: "ABORT", Finish.ERROR: "ERROR", Finish.NONE: None,
    },
    Api.INTERACTIONS: {
        Finish.STOP: "completed", Finish.CALLS: "requires_action", Finish.LENGTH: "incomplete",
        Finish.ABORT: "abort", Finish.ERROR: "error", Finish.NONE: None,
    },
}  # fmt: skip


def answer(api: Api, reply: Reply, *, streams: bool) -> Answer:
    """The reply in a dialect, whole or as its events."""
    tell = _STREAMED if streams else _WHOLE
    return tell[api](reply).with_headers(*reply.headers)


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


# --- OpenAI chat completions ---------------------------------------------------------------


def _chat_usage(reply: Reply) -> Body:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": reply.reasoning_tokens,
            "audio_tokens": 0,
        },
    }


def _chat_head(reply: Reply, kind: str) -> Body:
    head = {"id": f"chatcmpl-{reply.id}", "object": kind, "created": CREATED, "model": reply.model}
    return {**head, **reply.extra}


def _chat_call(call: ToolCall, arguments: str) -> Body:
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _chat(reply: Reply) -> Answer:
    message: Body = {
        "role": "assistant",
        "content": "".join(reply.text) if reply.text else None,
        "refusal": None,
    }
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = [_chat_call(call, call.arguments) for call in reply.calls]
    finish = WORDS[Api.CHAT][reply.finish]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    head = _chat_head(reply, "chat.completion")
    return whole({**head, "choices": [choice], "usage": _chat_usage(reply)})


def _chat_deltas(reply: Reply) -> Iterator[Body]:
    yield {"role": "assistant", "content": ""}
    for half in _halves(reply.reasoning) if reply.reasoning else ():
        yield {"reasoning_content": half}
    for piece in reply.text:
        yield {"content": piece}
    for place, call in enumerate(reply.calls):
        yield {"tool_calls": [{"index": place, **_chat_call(call, "")}]}
        for half in _halves(call.arguments):
            yield {"tool_calls": [{"index": place, "function": {"arguments": half}}]}


def _chat_stream(reply: Reply) -> Answer:
    head = _chat_head(reply, "chat.completion.chunk")
    finish = WORDS[Api.CHAT][reply.finish]
    deltas = [(delta, None) for delta in _chat_deltas(reply)]
    choices = [
        {"index": 0, "delta": delta, "finish_reason": why} for delta, why in [*deltas, ({}, finish)]
    ]
    return streamed(
        *(data({**head, "choices": [choice], "usage": None}) for choice in choices),
        data({**head, "choices": [], "usage": _chat_usage(reply)}),
        b"data: [DONE]\n\n",
    )


# --- OpenAI responses ----------------------------------------------------------------------


def _responses_items(reply: Reply) -> list[Body]:
    items: list[Body] = []
    if reply.reasoning:
        summary = [{"type": "summary_text", "text": reply.reasoning}]
        items.append({"id": f"rs_{reply.id}", "type": "reasoning", "summary": summary})
    if reply.text:
        text = {"type": "output_text", "text": "".join(reply.text), "annotations": []}
        said = {"type": "message", "role": "assistant", "content": [text], "status": "completed"}
        items.append({"id": f"msg_{reply.id}", **said})
    items += [
        {
            "id": f"fc_{call.id}",
            "type": "function_call",
            "status": "completed",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
        for call in reply.calls
    ]
    return items


def response_of(reply: Reply, status: str | None, **more: object) -> Body:
    """A response that has no output yet."""
    response = {
        "id": f"resp_{reply.id}",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": reply.model,
        "output": [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None,
        **reply.extra,
        **more,
    }
    return {key: value for key, value in response.items() if key != "status" or value}


def _responses_ended(reply: Reply) -> Body:
    status, _, why = (WORDS[Api.RESPONSES][reply.finish] or "").partition(":")
    written = {"cache_write_tokens": 0} if reply.says_cache_writes else {}
    usage = {
        "input_tokens": reply.input_tokens,
        "input_tokens_details": {"cached_tokens": reply.cached_tokens, **written},
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": reply.reasoning_tokens},
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }
    details = {"reason": why} if why else None
    items = _responses_items(reply)
    return response_of(reply, status or None, incomplete_details=details, output=items, usage=usage)


def _responses(reply: Reply) -> Answer:
    return whole(_responses_ended(reply))


def _responses_deltas(reply: Reply, item: Body) -> Sequence[tuple[str, Body]]:
    match item["type"]:
        case "message":
            at = {"content_index": 0}
            (full,) = item["content"]
            return [
                ("response.content_part.added", {**at, "part": {**full, "text": ""}}),
                *(
                    ("response.output_text.delta", {**at, "delta": piece, "logprobs": []})
                    for piece in reply.text
                ),
                ("response.output_text.done", {**at, "text": full["text"], "logprobs": []}),
                ("response.content_part.done", {**at, "part": full}),
            ]
        case "reasoning":
            halves = _halves(reply.reasoning)
            name = "response.reasoning_summary_text.delta"
            return [(name, {"summary_index": 0, "delta": half}) for half in halves]
        case _:
            name = "response.function_call_arguments.delta"
            ended = {"arguments": item["arguments"], "name": item["name"]}
            return [
                *((name, {"delta": half}) for half in _halves(item["arguments"])),
                ("response.function_call_arguments.done", ended),
            ]


_EMPTY: Mapping[str, Body] = {
    "message": {"content": []}, "reasoning": {"summary": []}, "function_call": {"arguments": ""},
}  # fmt: skip


def _responses_stream(reply: Reply) -> Answer:
    begun = response_of(reply, "in_progress")
    ended = _responses_ended(reply)
    events: list[tuple[str, Body]] = [
        ("response.created", {"response": begun}),
        ("response.in_progress", {"response": begun}),
    ]
    for place, item in enumerate(ended["output"]):
        at = {"item_id": item["id"], "output_index": place}
        empty = {**item, **_EMPTY[item["type"]]}
        events.append(("response.output_item.added", {"output_index": place, "item": empty}))
        events += [(name, {**at, **delta}) for name, delta in _responses_deltas(reply, item)]
        events.append(("response.output_item.done", {"output_index": place, "item": item}))
    events.append((f"response.{ended.get('status', 'completed')}", {"response": ended}))
    return streamed(
        *(named(name, {"sequence_number": n, **body}) for n, (name, body) in enumerate(events))
    )


# --- Anthropic messages --------------------------------------------------------------------


def _messages_usage(reply: Reply) -> Body:
    usage: Body = {
        "input_tokens": reply.input_tokens - reply.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": reply.cached_tokens,
        "output_tokens": reply.output_tokens,
        "service_tier": "standard",
    }
    if reply.reasoning_tokens:
        usage["output_tokens_details"] = {"thinking_tokens": reply.reasoning_tokens}
    return usage


def _messages_blocks(reply: Reply) -> Iterator[tuple[Body, list[Body]]]:
    """Each block as it begins, and its deltas."""
    if reply.reasoning:
        halves = _halves(reply.reasoning)
        thoughts = [{"type": "thinking_delta", "thinking": half} for half in halves]
        yield {"type": "thinking", "thinking": "", "signature": ""}, thoughts
    if reply.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in reply.text]
        yield {"type": "text", "text": ""}, deltas
    for call in reply.calls:
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        halves = _halves(call.arguments)
        yield block, [{"type": "input_json_delta", "partial_json": half} for half in halves]


def _messages_content(reply: Reply) -> list[Body]:
    whole_blocks: list[Body] = []
    if reply.reasoning:
        thought = {"type": "thinking", "thinking": reply.reasoning, "signature": "c2ln"}
        whole_blocks.append(thought)
    if reply.text:
        whole_blocks.append({"type": "text", "text": "".join(reply.text)})
    for call in reply.calls:
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": call.parsed}
        whole_blocks.append(block)
    return whole_blocks


def _message(reply: Reply, content: list[Body], finish: str | None, usage: Body) -> Body:
    return {
        "id": f"msg_{reply.id}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": finish,
        "stop_sequence": None,
        "usage": usage,
        **reply.extra,
    }


def _messages(reply: Reply) -> Answer:
    finish = WORDS[Api.MESSAGES][reply.finish]
    return whole(_message(reply, _messages_content(reply), finish, _messages_usage(reply)))


def _messages_stream(reply: Reply) -> Answer:
    usage = _messages_usage(reply)
    ended = {"stop_reason": WORDS[Api.MESSAGES][reply.finish], "stop_sequence": None}
    begun = _message(reply, [], None, {**usage, "output_tokens": 1})
    events = [named("message_start", {"message": begun}), named("ping", {})]
    for place, (block, deltas) in enumerate(_messages_blocks(reply)):
        at = {"index": place}
        events.append(named("content_block_start", {**at, "content_block": block}))
        events += [named("content_block_delta", {**at, "delta": delta}) for delta in deltas]
        events.append(named("content_block_stop", at))
    events.append(named("message_delta", {"delta": ended, "usage": usage}))
    return streamed(*events, named("message_stop", {}))


# --- Gemini generateContent ----------------------------------------------------------------


def _gemini(reply: Reply, parts: Sequence[Body], *, ends: bool) -> Body:
    candidate: Body = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    finish = WORDS[Api.GEMINI][reply.finish]
    if ends and finish:
        candidate["finishReason"] = finish
    said = reply.output_tokens - reply.reasoning_tokens
    usage = {
        "promptTokenCount": reply.input_tokens,
        "cachedContentTokenCount": reply.cached_tokens,
        "candidatesTokenCount": said if ends else 0,
        "thoughtsTokenCount": reply.reasoning_tokens,
        "totalTokenCount": reply.input_tokens + (reply.output_tokens if ends else 0),
    }
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": reply.model,
        "responseId": f"gemini_{reply.id}",
        **reply.extra,
    }


def _gemini_parts(reply: Reply) -> list[Body]:
    thought = [{"text": reply.reasoning, "thought": True}] if reply.reasoning else []
    texts = [{"text": piece} for piece in reply.text]
    calls = [{"functionCall": {"name": c.name, "args": c.parsed}} for c in reply.calls]
    return [*thought, *texts, *calls]


def _gemini_whole(reply: Reply) -> Answer:
    texts = [{"text": "".join(reply.text)}] if reply.text else []
    rest = [part for part in _gemini_parts(reply) if part.keys() != {"text"}]
    return whole(_gemini(reply, [*texts, *rest], ends=True))


def _gemini_stream(reply: Reply) -> Answer:
    *parts, last = _gemini_parts(reply) or [{"text": ""}]
    bodies = [_gemini(reply, [part], ends=False) for part in parts]
    ended = _gemini(reply, [last], ends=True)
    return streamed(*(data(body).replace(b"\n\n", b"\r\n\r\n") for body in [*bodies, ended]))


# --- Gemini Interactions -------------------------------------------------------------------


def _interaction(reply: Reply, status: str | None, **more: object) -> Body:
    said = {} if status is None else {"status": status}
    head = {"id": f"v1_{reply.id}", "object": "interaction", "model": reply.model}
    return {**head, **said, **more, **reply.extra}


def _interaction_usage(reply: Reply) -> Body:
    return {
        "total_input_tokens": reply.input_tokens,
        "total_cached_tokens": reply.cached_tokens,
        "total_output_tokens": reply.output_tokens - reply.reasoning_tokens,
        "total_thought_tokens": reply.reasoning_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }


def _thought(reply: Reply) -> list[Body]:
    summary = [{"type": "text", "text": reply.reasoning}]
    return [{"type": "thought", "signature": "c2ln", "summary": summary}] if reply.reasoning else []


def _interaction_whole(reply: Reply) -> Answer:
    content = [{"type": "text", "text": "".join(reply.text)}]
    steps = [
        *_thought(reply),
        *([{"type": "model_output", "content": content}] if reply.text else []),
        *(
            {"type": "function_call", "id": c.id, "name": c.name, "arguments": c.parsed}
            for c in reply.calls
        ),
    ]
    finish = WORDS[Api.INTERACTIONS][reply.finish]
    return whole(_interaction(reply, finish, steps=steps, usage=_interaction_usage(reply)))


def _interaction_steps(reply: Reply) -> Iterator[tuple[Body, list[Body]]]:
    """What begins each step, and its deltas."""
    for thought in _thought(reply):
        summary = {"type": "thought_summary", "content": thought["summary"][0]}
        yield {"type": "thought"}, [summary, {"type": "thought_signature", "signature": "c2ln"}]
    if reply.text:
        yield {"type": "model_output"}, [{"type": "text", "text": piece} for piece in reply.text]
    for call in reply.calls:
        begun = {"type": "function_call", "id": call.id, "name": call.name, "arguments": {}}
        pieces = _halves(call.arguments)
        yield begun, [{"type": "arguments_delta", "arguments": piece} for piece in pieces]


def _interaction_stream(reply: Reply) -> Answer:
    created = _interaction(reply, "in_progress")
    events = [interaction_event("interaction.created", interaction=created)]
    for at, (begun, deltas) in enumerate(_interaction_steps(reply)):
        events.append(interaction_event("step.start", index=at, step=begun))
        events += [interaction_event("step.delta", index=at, delta=delta) for delta in deltas]
        events.append(interaction_event("step.stop", index=at))
    finish = WORDS[Api.INTERACTIONS][reply.finish]
    ended = _interaction(reply, finish, usage=_interaction_usage(reply))
    done = interaction_event("interaction.completed", interaction=ended)
    return streamed(*events, done, INTERACTION_DONE)


_WHOLE: Mapping[Api, Callable[[Reply], Answer]] = {
    Api.CHAT: _chat,
    Api.RESPONSES: _responses,
    Api.MESSAGES: _messages,
    Api.GEMINI: _gemini_whole,
    Api.INTERACTIONS: _interaction_whole,
}
_STREAMED: Mapping[Api, Callable[[Reply], Answer]] = {
    Api.CHAT: _chat_stream,
    Api.RESPONSES: _responses_stream,
    Api.MESSAGES: _messages_stream,
    Api.GEMINI: _gemini_stream,
    Api.INTERACTIONS: _interaction_stream,
}
