"""OpenAI's Responses API as bytes: platform.openai.com/docs/api-reference/responses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

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
from tests.healthy.writing import SSE, Told, Written, ident, meant, pieces, stainless
from tests.proxy.wire.samples import dump, named


def write(ask: Ask, told: Told) -> Written:
    """Write one call and its answer, over HTTP."""
    streamed = ask.streamed and told.lane.flavour != "background"
    written = Written(
        path=f"{told.lane.base_path}/responses",
        query="api-version=preview" if told.lane.upstream == "azure" else "",
        request_headers=_request_headers(told),
        body=body(ask, told) | ({"stream": True} if streamed else {}),
        response_headers=(("x-request-id", f"req_{told.rng.randbytes(16).hex()}"),
                          ("openai-version", "2020-10-01")),
        meant=meant(told.counts),
    )  # fmt: skip
    if ask.compacts:
        return _compacting(ask, told, written)
    if streamed:
        written.type = f"{SSE}; charset=utf-8"
        written.events = [named(one) for one in events(ask, told)]
    elif told.lane.flavour == "background":
        written.body["background"] = True
        written.events = [dump(_response(ask, told, "queued"))]
        written.meant = Meant()
    else:
        written.events = [dump(finished(ask, told))]
    return written


def _compacting(ask: Ask, told: Told, written: Written) -> Written:
    """Write the call that has the provider compact the conversation."""
    written.path += "/compact"
    written.body = {key: written.body[key] for key in ("model", "instructions", "input")}
    whole = finished(ask, told)
    sealed = {"id": f"cmp_{told.response_id[5:]}", "type": "compaction",
              "encrypted_content": ask.reply.text}  # fmt: skip
    answer = {"id": told.response_id, "object": "response.compaction", "created_at": told.created,
              "output": [sealed], "usage": whole["usage"]}  # fmt: skip
    written.events = [dump(answer)]
    return written


def poll(ask: Ask, told: Told, *, done: bool) -> Written:
    """Write a look at a background response."""
    answer = finished(ask, told) if done else _response(ask, told, "in_progress")
    return Written(
        path=f"{told.lane.base_path}/responses/{told.response_id}",
        request_headers=_request_headers(told),
        body={},
        events=[dump(answer)],
        meant=meant(told.counts) if done else Meant(),
    )


def message(ask: Ask, told: Told) -> tuple[bytes, list[bytes]]:
    """Write one call inside a WebSocket: the agent's message, and the provider's."""
    sent = {"type": "response.create", **body(ask, told)}
    return dump(sent), [dump(one) for one in events(ask, told)]


# -- the request ---------------------------------------------------------------------------


def body(ask: Ask, told: Told) -> Json:
    """Return what both ways of calling send."""
    prompt = ask.prompt
    messages = prompt.messages[told.since :] if told.previous else prompt.messages
    items = [item for one in messages for item in _items(one, told)]
    sent: Json = {"model": told.name.asked, "instructions": prompt.system, "input": items}
    if told.previous:
        sent["previous_response_id"] = told.previous
    if prompt.tools:
        sent["tools"] = [
            {"type": "function", "name": t.name, "description": t.description,
             "parameters": t.parameters, "strict": False}
            for t in prompt.tools
        ]  # fmt: skip
        sent |= {"tool_choice": "auto", "parallel_tool_calls": True}
    if ask.found:
        sent["tools"] = [*sent.get("tools", []), {"type": "web_search"}]
    stores = told.lane.flavour in ("continued", "background")
    sent |= {"store": stores, "prompt_cache_key": told.session}
    if told.lane.reasons:
        sent["reasoning"] = {"effort": "medium", "summary": "auto"}
        sent["include"] = ["reasoning.encrypted_content"]
    if ask.max_tokens is not None:
        sent["max_output_tokens"] = ask.max_tokens
    if ask.schema is not None:
        sent["text"] = {"format": {"type": "json_schema", "name": "answer", "strict": True,
                                   "schema": ask.schema["json_schema"]["schema"]}}  # fmt: skip
    return sent


def _items(message: Message, told: Told) -> Iterator[Json]:
    texts: list[Json] = []
    for part in message.parts:
        match part:
            case Text():
                kind = "output_text" if message.role == "assistant" else "input_text"
                texts.append({"type": kind, "text": part.text})
            case Picture():
                url = f"data:{part.media_type};base64,{part.data}"
                texts.append({"type": "input_image", "image_url": url, "detail": "auto"})
            case Document():
                file = {"file_id": part.reference}
                if not part.reference:
                    url = f"data:application/pdf;base64,{part.data}"
                    file = {"filename": "report.pdf", "file_data": url}
                texts.append({"type": "input_file", **file})
            case Thinking():
                if told.lane.reasons:
                    yield {"type": "reasoning", "summary": [], "encrypted_content": part.sealed}
            case ToolUse():
                yield {"type": "function_call", "call_id": part.id, "name": part.name,
                       "arguments": dump(part.arguments).decode()}  # fmt: skip
            case ToolResult():
                yield {"type": "function_call_output", "call_id": part.id, "output": part.text}
            case Compacted():
                yield {"type": "compaction", "encrypted_content": part.sealed}
    if texts:
        yield {"type": "message", "role": message.role, "content": texts}


def _request_headers(told: Told) -> Pairs:
    if told.lane.flavour == "codex":
        return (
            ("authorization", f"Bearer sk-{told.session}"),
            ("user-agent", "codex_cli_rs/0.169.0 (Ubuntu 24.4.0; x86_64) xterm"),
            ("originator", "codex_cli_rs"),
            ("session_id", told.session),
            ("accept", SSE),
            ("content-type", "application/json"),
        )
    return (*stainless("js", "OpenAI/JS 6.1.0"), ("authorization", f"Bearer sk-{told.session}"))


# -- the answer ----------------------------------------------------------------------------


def finished(ask: Ask, told: Told) -> Json:
    """Return the response as it stands at its end."""
    cut = ask.reply.finish == "length"
    whole = _response(ask, told, "incomplete" if cut else "completed")
    if cut:
        whole["incomplete_details"] = {"reason": "max_output_tokens"}
    whole["output"] = _output(ask, told)
    counts = told.counts
    whole["usage"] = {
        "input_tokens": counts.input,
        "input_tokens_details": {"cached_tokens": counts.cached},
        "output_tokens": counts.output,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning},
        "total_tokens": counts.input + counts.output,
    }
    return whole


def _response(ask: Ask, told: Told, status: str) -> Json:
    return {
        "id": told.response_id,
        "object": "response",
        "created_at": told.created,
        "status": status,
        "background": told.lane.flavour == "background",
        "error": None,
        "incomplete_details": None,
        "instructions": ask.prompt.system,
        "max_output_tokens": ask.max_tokens,
        "model": told.name.answered,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": told.previous,
        "service_tier": "default" if status == "completed" else "auto",
        "store": False,
        "tool_choice": "auto",
        "tools": [{"type": "function", "name": t.name} for t in ask.prompt.tools],
        "truncation": "disabled",
        "usage": None,
        "metadata": {},
    }


def _output(ask: Ask, told: Told) -> list[Json]:
    reply, tail = ask.reply, told.response_id[5:]
    items: list[Json] = []
    if (thinking := reply.thinking) is not None:
        shown = [{"type": "summary_text", "text": thinking.shown}] if thinking.shown else []
        items.append({"id": f"rs_{tail}", "type": "reasoning", "summary": shown,
                      "encrypted_content": thinking.sealed})  # fmt: skip
    if ask.found:
        items.append({"id": f"ws_{tail}", "type": "web_search_call", "status": "completed",
                      "action": {"type": "search", "query": "late parcels"}})  # fmt: skip
    if reply.text:
        refuses = reply.finish == "refusal"
        piece: Json = {"type": "output_text", "annotations": [], "logprobs": [], "text": reply.text}
        piece = {"type": "refusal", "refusal": reply.text} if refuses else piece
        items.append({"id": f"msg_{tail}", "type": "message", "status": "completed",
                      "role": "assistant", "content": [piece]})  # fmt: skip
    for place, use in enumerate(reply.uses):
        items.append({"id": f"fc_{place}{tail}", "type": "function_call", "status": "completed",
                      "call_id": use.id, "name": use.name,
                      "arguments": dump(use.arguments).decode()})  # fmt: skip
    return items


def events(ask: Ask, told: Told) -> list[Json]:
    """Return the events of a stream, numbered."""
    opening = _response(ask, told, "in_progress")
    stream: list[Json] = [{"type": "response.created", "response": opening},
                          {"type": "response.in_progress", "response": opening}]  # fmt: skip
    for index, item in enumerate(_output(ask, told)):
        empty = item | {"content": []} if "content" in item else item | {"status": "in_progress"}
        if item["type"] == "reasoning":
            empty = item | {"summary": []}
        if item["type"] == "function_call":
            empty = item | {"arguments": ""}
        stream.append({"type": "response.output_item.added", "output_index": index, "item": empty})
        stream += _deltas(item, index, told)
        stream.append({"type": "response.output_item.done", "output_index": index, "item": item})
    last = finished(ask, told)
    stream.append({"type": f"response.{last['status']}", "response": last})
    for number, one in enumerate(stream):
        one["sequence_number"] = number
    return stream


def _deltas(item: Json, index: int, told: Told) -> list[Json]:
    place = {"item_id": item["id"], "output_index": index}
    if item["type"] == "web_search_call":
        steps = ("in_progress", "searching", "completed")
        return [{"type": f"response.web_search_call.{one}", **place} for one in steps]
    if item["type"] == "function_call":
        head = "response.function_call_arguments"
        text, done = item["arguments"], {"arguments": item["arguments"]}
    elif item["type"] == "reasoning":
        if not item["summary"]:
            return []
        head, place = "response.reasoning_summary_text", {**place, "summary_index": 0}
        text = item["summary"][0]["text"]
        done = {"text": text}
    else:
        piece = item["content"][0]
        key = "refusal" if piece["type"] == "refusal" else "text"
        head = "response.refusal" if key == "refusal" else "response.output_text"
        place, text = {**place, "content_index": 0}, piece[key]
        done = {key: text}
    deltas = [{"type": f"{head}.delta", **place, "delta": one} for one in pieces(told.rng, text)]
    return [*deltas, {"type": f"{head}.done", **place, **done}]


def with_id(told: Told) -> Told:
    """Return the same with an id for the response that is to come."""
    prefix = "resp_" if told.lane.dialect == "responses" else "v1_"
    return replace(told, response_id=ident(told.rng, prefix, 48))
