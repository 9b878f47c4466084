"""Chat completions as bytes: platform.openai.com/docs/api-reference/chat."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tests.healthy import chat_flavours as flavours
from tests.healthy.conversation import (
    Ask,
    Document,
    Message,
    Picture,
    Text,
    Thinking,
    Tool,
    ToolResult,
    ToolUse,
)
from tests.healthy.traffic import Json, Meant
from tests.healthy.writing import Told, Written, data, ident, meant, options, pieces
from tests.proxy.wire.samples import dump

_FINISH = {"stop": "stop", "tools": "tool_calls", "length": "length", "refusal": "stop",
           "stop_sequence": "stop"}  # fmt: skip


def write(ask: Ask, told: Told) -> Written:
    """Write one call and its answer."""
    flavour = flavours.of(told.lane.flavour)
    body = _body(ask, told, flavour)
    answer = flavour.answer(told)
    answer["id"] = answer.get("id") or ident(told.rng, flavour.id_prefix, 29)
    written = Written(
        path=f"{told.lane.base_path}/chat/completions",
        query=flavour.query,
        request_headers=flavour.request_headers(told),
        body=body,
        response_headers=flavour.response_headers(told),
        meant=_meant(told, flavour),
    )
    if not ask.streamed:
        written.events = [_whole(ask, told, flavour, answer)]
        return written
    written.type = flavour.stream_type
    written.events = _stream(ask, told, flavour, answer, body)
    if not _states_usage(flavour, body):
        written.meant = Meant()
    return written


def _meant(told: Told, flavour: flavours.Flavour) -> Meant:
    """Leave the cached tokens open where the host does not state them."""
    stated = "cached" in json.dumps(flavour.usage(told))
    return meant(told.counts) if stated else replace(meant(told.counts), cached=None)


# -- the request ---------------------------------------------------------------------------


def _body(ask: Ask, told: Told, flavour: flavours.Flavour) -> Json:
    prompt = ask.prompt
    messages: list[Json] = []
    if prompt.system:
        role = "developer" if told.lane.reasons and flavour.key == "" else "system"
        messages.append({"role": role, "content": prompt.system})
    for message in prompt.messages:
        messages += _messages(message, told, flavour)
    body: Json = {"model": told.name.asked, "messages": messages}
    if flavour.key == "azure":
        del body["model"]  # Azure's path names the deployment; most SDKs repeat it all the same
        if int(told.session[:2], 16) % 2:
            body["model"] = told.name.asked
    if prompt.tools:
        body |= {"tools": [tool(one) for one in prompt.tools], "tool_choice": "auto"}
    body |= _options(ask, told)
    if ask.streamed:
        body["stream"] = True
        if flavour.asks_usage and int(told.session[:2], 16) % 8:
            body["stream_options"] = {"include_usage": True, **flavour.stream_options(told)}
    return body | flavour.options(told)


def _options(ask: Ask, told: Told) -> Json:
    limit = "max_completion_tokens" if told.lane.reasons else "max_tokens"
    body = options(ask, limit=limit, stop="stop")
    if told.lane.reasons:
        body.pop("temperature", None)
    if ask.schema is not None:
        body["response_format"] = ask.schema
    if told.name.flags.get("token_ids"):
        body["return_token_ids"] = True
    if ask.logprobs:
        body |= {"logprobs": True, "top_logprobs": 1}
    if ask.reply.others:
        body["n"] = 1 + len(ask.reply.others)
    return body


def tool(one: Tool) -> Json:
    function = {"name": one.name, "description": one.description, "parameters": one.parameters}
    return {"type": "function", "function": function}


def _messages(message: Message, told: Told, flavour: flavours.Flavour) -> list[Json]:
    if message.role == "assistant":
        return [_assistant(message, flavour)]
    results = [_result(part) for part in message.of(ToolResult)]
    rest = [part for part in message.parts if not isinstance(part, ToolResult)]
    if not rest:
        return results
    if all(isinstance(part, Text) for part in rest):
        return [*results, {"role": "user", "content": message.text}]
    return [*results, {"role": "user", "content": [_part(part) for part in rest]}]


def _result(part: ToolResult) -> Json:
    return {"role": "tool", "tool_call_id": part.id, "content": part.text}


def _part(part: object) -> Json:
    if isinstance(part, Picture):
        url = f"data:{part.media_type};base64,{part.data}"
        return {"type": "image_url", "image_url": {"url": url, "detail": "high"}}
    if isinstance(part, Document):
        if part.reference:
            return {"type": "file", "file": {"file_id": part.reference}}
        file = f"data:application/pdf;base64,{part.data}"
        return {"type": "file", "file": {"filename": "report.pdf", "file_data": file}}
    assert isinstance(part, Text)
    return {"type": "text", "text": part.text}


def _assistant(message: Message, flavour: flavours.Flavour) -> Json:
    told: Json = {"role": "assistant", "content": message.text or None}
    if flavour.sends_reasoning and (thoughts := message.of(Thinking)):
        told[flavour.reasoning_key] = thoughts[0].shown
    if uses := message.of(ToolUse):
        told["tool_calls"] = [call(use) for use in uses]
    return told


def call(use: ToolUse) -> Json:
    function = {"name": use.name, "arguments": dump(use.arguments).decode()}
    return {"id": use.id, "type": "function", "function": function}


# -- the answer ----------------------------------------------------------------------------


def _whole(ask: Ask, told: Told, flavour: flavours.Flavour, answer: Json) -> bytes:
    reply = ask.reply
    message: Json = {"role": "assistant", "content": reply.text or None}
    if flavour.key in ("", "azure", "azure-v1"):
        message |= {"refusal": None, "annotations": []}
    if reply.finish == "refusal" and "refusal" in message:
        message |= {"content": None, "refusal": reply.text}
    if reply.thinking is not None and reply.thinking.shown and flavour.reasoning_key:
        message[flavour.reasoning_key] = reply.thinking.shown
    if reply.uses:
        message["tool_calls"] = [call(use) for use in reply.uses]
    choices: list[Json] = [_choice(0, message, ask, told, flavour)]
    for index, text in enumerate(reply.others, 1):
        choices.append(_choice(index, message | {"content": text}, ask, told, flavour))
    answer["object"] = "chat.completion"
    last = {} if flavour.key == "groq" else flavour.last(told)
    return dump(answer | {"choices": choices, "usage": flavour.usage(told)} | last)


def _choice(index: int, message: Json, ask: Ask, told: Told, flavour: flavours.Flavour) -> Json:
    finish = flavour.finishes.get(ask.reply.finish, _FINISH[ask.reply.finish])
    choice: Json = {"index": index, "message": message, "finish_reason": finish}
    if flavour.logprobs:
        choice["logprobs"] = _logprobs(ask.reply.text) if ask.logprobs else None
    return choice | flavour.choice(told, ask.reply.finish)


def _logprobs(text: str) -> Json:
    return {
        "content": [
            {"token": word, "logprob": -0.01, "bytes": list(word.encode()), "top_logprobs": []}
            for word in text.split(" ")[:40]
        ],
        "refusal": None,
    }


def _stream(
    ask: Ask, told: Told, flavour: flavours.Flavour, answer: Json, body: Json
) -> list[bytes]:
    reply = ask.reply
    answer["object"] = "chat.completion.chunk"
    running = "continuous_usage_stats" in body.get("stream_options", {})
    base: Json = answer | ({"usage": None} if flavour.null_usage and _asked(body) else {})

    def event(delta: Json, finish: str | None = None, index: int = 0) -> bytes:
        choice: Json = {"index": index, "delta": delta, "finish_reason": finish}
        if flavour.logprobs:
            choice["logprobs"] = None
        if finish is not None:
            choice |= flavour.choice(told, reply.finish)
        if running:  # what was made so far
            made = min(len(events), told.counts.output)
            base["usage"] = flavour.usage(replace(told, counts=replace(told.counts, output=made)))
        return data(base | {"choices": [choice]})

    events = list(flavour.before(told))
    events.append(event({"role": "assistant", "content": ""}))
    if reply.thinking is not None and flavour.reasoning_key:
        shown = pieces(told.rng, reply.thinking.shown)
        events += [event({flavour.reasoning_key: piece}) for piece in shown]
    key = "refusal" if reply.finish == "refusal" and flavour.key == "" else "content"
    events += [event({key: piece}) for piece in pieces(told.rng, reply.text)]
    for place, use in enumerate(reply.uses):
        events += [event(delta) for delta in _call_deltas(place, use, told, flavour)]
    finish = flavour.finishes.get(reply.finish, _FINISH[reply.finish])
    for index, text in enumerate(reply.others, 1):
        events += [event({"content": piece}, index=index) for piece in pieces(told.rng, text)]
        events.append(event({}, finish, index))
    usage = flavour.usage(told)
    if flavour.usage_in_choice:  # Moonshot: inside the choice, not beside it
        closing: Json = {"index": 0, "delta": {}, "finish_reason": finish, "usage": usage}
        events.append(data(answer | {"choices": [closing]}))
    elif flavour.usage_with_finish:
        choice: Json = {"index": 0, "delta": {"content": ""}, "finish_reason": finish}
        events.append(data(answer | {"choices": [choice], "usage": usage} | flavour.last(told)))
    else:
        events.append(event({}, finish))
        if _states_usage(flavour, body):
            last: list[Any] = flavour.last_choices
            events.append(data(answer | {"choices": last, "usage": usage} | flavour.last(told)))
    return [*events, b"data: [DONE]\n\n"]


def _call_deltas(place: int, use: ToolUse, told: Told, flavour: flavours.Flavour) -> list[Json]:
    arguments = dump(use.arguments).decode()
    head = {"index": place, "id": use.id, "type": "function"}
    if flavour.calls_whole:
        function = {"name": use.name, "arguments": arguments}
        return [{"tool_calls": [{**head, "function": function}]}]
    first = {**head, "function": {"name": use.name, "arguments": ""}}
    rest = [
        {"tool_calls": [{"index": place, "function": {"arguments": piece}}]}
        for piece in pieces(told.rng, arguments)
    ]
    return [{"tool_calls": [first]}, *rest]


def _asked(body: Json) -> bool:
    return "stream_options" in body


def _states_usage(flavour: flavours.Flavour, body: Json) -> bool:
    unasked = (flavour.usage_in_choice, flavour.usage_with_finish, flavour.usage_unasked)
    return any(unasked) or _asked(body)
