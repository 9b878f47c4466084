"""Cohere's chat as bytes: docs.cohere.com/reference/chat, -stream."""

from __future__ import annotations

from tests.healthy.chat import call, tool
from tests.healthy.conversation import Ask, Message, Text, ToolResult, ToolUse
from tests.healthy.traffic import Json
from tests.healthy.writing import JSON, SSE, Told, Written, meant, options, pieces, uuid
from tests.proxy.wire.samples import dump, named

_STOPS = {"stop": "COMPLETE", "tools": "TOOL_CALL", "length": "MAX_TOKENS",
          "refusal": "COMPLETE", "stop_sequence": "STOP_SEQUENCE"}  # fmt: skip


def write(ask: Ask, told: Told) -> Written:
    """Write one call and its answer."""
    written = Written(
        path="/v2/chat",
        request_headers=(("authorization", f"Bearer {told.session}"), ("content-type", JSON),
                         ("x-client-name", "cohere-python"), ("user-agent", "cohere/5.18.0")),
        body=_body(ask, told),
        response_headers=(("x-debug-trace-id", told.rng.randbytes(16).hex()),),
        meant=meant(told.counts),
    )  # fmt: skip
    if ask.streamed:
        written.type = SSE
        written.events = [named(one) for one in _stream(ask, told)]
    else:
        whole = {"id": uuid(told.rng), "message": _said(ask), "usage": _usage(told),
                 "finish_reason": _STOPS[ask.reply.finish]}  # fmt: skip
        written.events = [dump(whole)]
    return written


def _body(ask: Ask, told: Told) -> Json:
    prompt = ask.prompt
    messages: list[Json] = [{"role": "system", "content": prompt.system}] if prompt.system else []
    for message in prompt.messages:
        messages += _messages(message)
    sent: Json = {"model": told.name.asked, "messages": messages, "stream": ask.streamed}
    if prompt.tools:
        sent["tools"] = [tool(one) for one in prompt.tools]
    return sent | options(ask, limit="max_tokens", stop="stop_sequences")


def _messages(message: Message) -> list[Json]:
    if message.role == "assistant":
        if uses := message.of(ToolUse):
            return [{"role": "assistant", "tool_plan": message.text,
                     "tool_calls": [call(use) for use in uses]}]  # fmt: skip
        return [{"role": "assistant", "content": message.text}]
    told: list[Json] = [
        {"role": "tool", "tool_call_id": one.id,
         "content": [{"type": "document", "document": {"data": one.text}}]}
        for one in message.of(ToolResult)
    ]  # fmt: skip
    return [*told, {"role": "user", "content": message.text}] if message.of(Text) else told


def _said(ask: Ask) -> Json:
    reply = ask.reply
    if reply.uses:
        calls = [call(use) for use in reply.uses]
        return {"role": "assistant", "tool_plan": reply.text, "tool_calls": calls}
    return {"role": "assistant", "content": [{"type": "text", "text": reply.text}]}


def _usage(told: Told) -> Json:
    counts = told.counts
    billed = max(1, counts.input - told.lane.weights.base - told.lane.weights.tool_base)
    return {
        "billed_units": {"input_tokens": float(billed), "output_tokens": float(counts.output)},
        "tokens": {"input_tokens": float(counts.input), "output_tokens": float(counts.output)},
        "cached_tokens": float(counts.cached),
    }


def _stream(ask: Ask, told: Told) -> list[Json]:
    reply = ask.reply
    empty = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": []}
    opening = {"type": "message-start", "id": uuid(told.rng), "delta": {"message": empty}}
    stream: list[Json] = [opening]
    texts = pieces(told.rng, reply.text)
    if reply.uses:
        plans = [{"delta": {"message": {"tool_plan": one}}} for one in texts]
        stream += [{"type": "tool-plan-delta", **one} for one in plans]
    else:
        start = {"message": {"content": {"type": "text", "text": ""}}}
        stream.append({"type": "content-start", "index": 0, "delta": start})
        deltas = [{"message": {"content": {"text": one}}} for one in texts]
        stream += [{"type": "content-delta", "index": 0, "delta": one} for one in deltas]
        stream.append({"type": "content-end", "index": 0})
    for index, use in enumerate(reply.uses):
        stream += _call_events(index, use, told)
    end = {"finish_reason": _STOPS[reply.finish], "usage": _usage(told)}
    return [*stream, {"type": "message-end", "delta": end}]


def _call_events(index: int, use: ToolUse, told: Told) -> list[Json]:
    whole = call(use)
    begun = {**whole, "function": {"name": use.name, "arguments": ""}}
    bits = pieces(told.rng, whole["function"]["arguments"])
    deltas = [{"message": {"tool_calls": {"function": {"arguments": one}}}} for one in bits]
    return [
        {"type": "tool-call-start", "index": index, "delta": {"message": {"tool_calls": begun}}},
        *({"type": "tool-call-delta", "index": index, "delta": one} for one in deltas),
        {"type": "tool-call-end", "index": index},
    ]
