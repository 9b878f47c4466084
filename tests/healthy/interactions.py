"""Gemini's Interactions as bytes: ai.google.dev/api/interactions-api."""

from __future__ import annotations

from collections.abc import Iterator

from tests.healthy.conversation import (
    Ask,
    Compacted,
    Document,
    Message,
    Picture,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
)
from tests.healthy.traffic import Json, Meant, Pairs
from tests.healthy.writing import SSE, Told, Written, meant, options, pieces
from tests.proxy.wire.samples import dump, named

_STATUSES = {"tools": "requires_action", "length": "incomplete", "refusal": "failed"}
_BLOCKED = [{"code": "safety", "message": "Safety violations blocked the request."}]
_DONE = b"event: done\ndata: [DONE]\n\n"


def write(ask: Ask, told: Told) -> Written:
    """Write one call and its answer."""
    background = told.lane.flavour == "background"
    streamed = ask.streamed and not background
    written = Written(
        path=f"{told.lane.base_path}/interactions",
        request_headers=_request_headers(told, streamed=streamed),
        body=_body(ask, told) | ({"stream": True} if streamed else {}),
        response_headers=(("server", "scaffolding on HTTPServer2"), ("vary", "Origin")),
        meant=meant(told.counts),
    )
    if streamed:
        written.type = SSE
        written.events = [*(named(one) for one in _events(ask, told)), _DONE]
    elif background:
        written.body["background"] = True
        written.events = [dump(_interaction(told, "in_progress"))]
        written.meant = Meant()
    else:
        written.events = [dump(_finished(ask, told))]
    return written


def poll(ask: Ask, told: Told, *, done: bool) -> Written:
    """Write a look at an interaction in the background."""
    answer = _finished(ask, told) if done else _interaction(told, "in_progress")
    return Written(
        path=f"{told.lane.base_path}/interactions/{told.response_id}",
        request_headers=_request_headers(told, streamed=False),
        body={},
        events=[dump(answer)],
        meant=meant(told.counts) if done else Meant(),
    )


# -- the request ---------------------------------------------------------------------------


def _body(ask: Ask, told: Told) -> Json:
    prompt = ask.prompt
    messages = prompt.messages[told.since :] if told.previous else prompt.messages
    sent: Json = {
        "model": told.name.asked,
        "input": [step for one in messages for step in _steps(one)],
        "store": told.lane.flavour in ("continued", "background"),
    }
    if prompt.system:
        sent["system_instruction"] = prompt.system
    if told.previous:
        sent["previous_interaction_id"] = told.previous
    tools: list[Json] = [
        {"type": "function", "name": t.name, "description": t.description,
         "parameters": t.parameters}
        for t in prompt.tools
    ]  # fmt: skip
    if ask.found:
        tools.append({"type": "google_search"})
    if tools:
        sent["tools"] = tools
    config: Json = {"thinking_summaries": "auto"} if told.lane.reasons else {}
    config |= options(ask, limit="max_output_tokens", stop="stop_sequences")
    if config:
        sent["generation_config"] = config
    if ask.schema is not None:
        schema = ask.schema["json_schema"]["schema"]
        sent["response_format"] = {
            "type": "text", "mime_type": "application/json", "schema": schema,
        }  # fmt: skip
    return sent


def _steps(message: Message) -> Iterator[Json]:
    contents: list[Json] = []
    for part in message.parts:
        match part:
            case Text():
                contents.append({"type": "text", "text": part.text})
            case Picture():
                contents.append({"type": "image", "mime_type": part.media_type, "data": part.data})
            case Document():
                where = {"uri": part.reference} if part.reference else {"data": part.data}
                contents.append({"type": "document", "mime_type": "application/pdf", **where})
            case Thinking():
                yield {"type": "thought", "signature": part.sealed}
            case ToolUse():
                yield {"type": "function_call", "id": part.id, "name": part.name,
                       "arguments": part.arguments}  # fmt: skip
            case ToolResult():
                yield {"type": "function_result", "call_id": part.id, "name": part.name,
                       "result": part.text}  # fmt: skip
            case Compacted():
                raise AssertionError(part)
    if contents:
        kind = "model_output" if message.role == "assistant" else "user_input"
        yield {"type": kind, "content": contents}


def _request_headers(told: Told, *, streamed: bool) -> Pairs:
    return (
        ("content-type", "application/json"),
        ("accept", SSE if streamed else "application/json"),
        ("user-agent", "google-genai-sdk/3.6.1 gl-python/3.12.3"),
        ("x-goog-api-client", "google-genai-sdk/3.6.1 gl-python/3.12.3"),
        ("x-goog-api-key", f"AIza{told.session}"),
    )


# -- the answer ----------------------------------------------------------------------------


def _interaction(told: Told, status: str, **more: object) -> Json:
    return {
        "id": told.response_id,
        "status": status,
        "object": "interaction",
        "model": told.name.answered,
        "created": "2026-11-28T10:00:00Z",
        "updated": "2026-11-28T10:00:01Z",
        "service_tier": "standard",
        **more,
    }


def _status(ask: Ask) -> str:
    return _STATUSES.get(ask.reply.finish, "completed")


def _usage(ask: Ask, told: Told) -> Json:
    counts = told.counts
    return {
        "total_tokens": counts.input + counts.output,
        "total_input_tokens": counts.input - ask.found,
        "input_tokens_by_modality": [{"modality": "text", "tokens": counts.input - ask.found}],
        "total_cached_tokens": counts.cached,
        "total_output_tokens": counts.output - counts.reasoning,
        "total_tool_use_tokens": ask.found,
        "total_thought_tokens": counts.reasoning,
    }


def _ended(ask: Ask, told: Told, **more: object) -> Json:
    errors = {"errors": _BLOCKED} if ask.reply.finish == "refusal" else {}
    return _interaction(told, _status(ask), usage=_usage(ask, told), **more, **errors)


def _finished(ask: Ask, told: Told) -> Json:
    return _ended(ask, told, steps=_output(ask))


def _output(ask: Ask) -> list[Json]:
    reply = ask.reply
    steps: list[Json] = []
    if (thinking := reply.thinking) is not None:
        shown = [{"type": "text", "text": thinking.shown}] if thinking.shown else []
        steps.append({"type": "thought", "signature": thinking.sealed, "summary": shown})
    if ask.found:
        steps += [{"type": "google_search_call", "id": "s1", "signature": "c2ln",
                   "arguments": {"queries": ["late parcels"]}},
                  {"type": "google_search_result", "call_id": "s1", "result": []}]  # fmt: skip
    if reply.text and reply.finish != "refusal":
        content = [{"type": "text", "text": reply.text}]
        steps.append({"type": "model_output", "content": content})
    for use in reply.uses:
        steps.append({"type": "function_call", "id": use.id, "name": use.name,
                      "arguments": use.arguments})  # fmt: skip
    return steps


def _events(ask: Ask, told: Told) -> Iterator[Json]:
    created = {"interaction": _interaction(told, "in_progress")}
    yield {"event_type": "interaction.created", **created}
    yield {"event_type": "interaction.status_update", "interaction_id": told.response_id,
           "status": "in_progress"}  # fmt: skip
    for index, step in enumerate(_output(ask)):
        begun = {k: v for k, v in step.items() if k not in ("content", "summary", "signature")}
        begun |= {"arguments": {}} if "arguments" in step else {}
        yield {"event_type": "step.start", "index": index, "step": begun}
        for delta in _deltas(step, told):
            yield {"event_type": "step.delta", "index": index, "delta": delta}
        yield {"event_type": "step.stop", "index": index}
    yield {"event_type": "interaction.completed", "interaction": _ended(ask, told)}


def _deltas(step: Json, told: Told) -> Iterator[Json]:
    for content in step.get("content", ()):
        for piece in pieces(told.rng, content["text"]):
            yield {"type": "text", "text": piece}
    for summary in step.get("summary", ()):
        yield {"type": "thought_summary", "content": summary}
    if step["type"] == "thought":
        yield {"type": "thought_signature", "signature": step["signature"]}
    if step["type"] == "function_call":
        for piece in pieces(told.rng, dump(step["arguments"]).decode()):
            yield {"type": "arguments_delta", "arguments": piece}
