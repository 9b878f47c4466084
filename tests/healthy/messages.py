"""Anthropic's Messages API as bytes: docs.claude.com/en/api/messages, -streaming."""

from __future__ import annotations

from tests.healthy.conversation import (
    Ask,
    Compacted,
    Document,
    Message,
    Part,
    Picture,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
)
from tests.healthy.traffic import Json, Pairs
from tests.healthy.writing import SSE, Told, Written, ident, meant, pieces, stainless
from tests.proxy.wire.samples import dump, named

STOPS = {"stop": "end_turn", "tools": "tool_use", "length": "max_tokens", "refusal": "refusal",
         "stop_sequence": "stop_sequence"}  # fmt: skip
_CLEAR = "clear_tool_uses_20250919"
_MARK = {"cache_control": {"type": "ephemeral"}}


def write(ask: Ask, told: Told) -> Written:
    """Write one call and its answer."""
    flavour = told.lane.flavour
    written = Written(
        path=f"{told.lane.base_path}/messages",
        query="beta=true" if flavour == "code" else "",
        request_headers=_request_headers(told),
        body={"model": told.name.asked} | body(ask, told),
        response_headers=_response_headers(told),
        meant=meant(told.counts),
    )
    if ask.streamed:
        written.body["stream"] = True
    if flavour == "vertex":
        verb = "streamRawPredict" if ask.streamed else "rawPredict"
        written.path = f"{told.lane.base_path}/{told.name.asked}:{verb}"
        del written.body["model"]
        written.body["anthropic_version"] = "vertex-2023-10-16"
    if ask.streamed:
        written.type = f"{SSE}; charset=utf-8"
        written.events = [named(one) for one in events(ask, told)]
    else:
        written.events = [dump(whole(ask, told))]
    return written


# -- the request ---------------------------------------------------------------------------


def body(ask: Ask, told: Told) -> Json:
    """Return a request without what names the model: InvokeModel sends the same."""
    prompt = ask.prompt
    sent: Json = {"max_tokens": ask.max_tokens or 32_000}
    sent["messages"] = [_message(one) for one in prompt.messages]
    caches = told.counts.cached or told.counts.written
    if prompt.system:
        system = {"type": "text", "text": prompt.system}
        sent["system"] = [system | _MARK] if caches else prompt.system
    if prompt.tools:
        sent["tools"] = [
            {"name": t.name, "description": t.description, "input_schema": t.parameters}
            for t in prompt.tools
        ]
    if caches:
        last = sent["messages"][-1]["content"]
        last[-1] = last[-1] | _MARK
    if told.lane.reasons and ask.model == "main":
        sent["thinking"] = {"type": "enabled", "budget_tokens": 16_000}
    if ask.found:
        search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
        sent["tools"] = [*sent.get("tools", []), search]
    if ask.stop:
        sent["stop_sequences"] = list(ask.stop)
    if ask.temperature is not None and "thinking" not in sent:
        sent["temperature"] = ask.temperature
    if ask.cleared:
        edit = {"type": _CLEAR, "trigger": {"type": "input_tokens", "value": 2500},
                "keep": {"type": "tool_uses", "value": 3}}  # fmt: skip
        sent["context_management"] = {"edits": [edit]}
    if told.lane.flavour == "code":
        account = f"user_{told.session * 2}_account__session_{told.session}"
        sent["metadata"] = {"user_id": account}
    return sent


def _message(message: Message) -> Json:
    return {"role": message.role, "content": [block(part) for part in message.parts]}


def block(part: Part) -> Json:
    """Return one block of content."""
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Picture():
            source = {"type": "base64", "media_type": part.media_type, "data": part.data}
            return {"type": "image", "source": source}
        case Document():
            source = {"type": "file", "file_id": part.reference} if part.reference else {
                "type": "base64", "media_type": "application/pdf", "data": part.data
            }  # fmt: skip
            return {"type": "document", "source": source}
        case Thinking():
            return _thinking(part)
        case ToolUse():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": part.arguments}
        case ToolResult():
            content: list[Json] = [{"type": "text", "text": part.text}]
            if part.picture is not None:
                content.append(block(part.picture))
            return {"type": "tool_result", "tool_use_id": part.id, "content": content}
        case Compacted():
            return {"type": "compaction", "content": part.sealed}


def _thinking(part: Thinking) -> Json:
    if not part.shown:
        return {"type": "redacted_thinking", "data": part.sealed}
    return {"type": "thinking", "thinking": part.shown, "signature": part.sealed}


def _request_headers(told: Told) -> Pairs:
    headers = (*stainless("js", "Anthropic/JS 0.66.0"), ("anthropic-version", "2023-06-01"))
    if told.lane.flavour == "vertex":
        return (*headers, ("authorization", f"Bearer ya29.{told.session}"))
    headers = (*headers, ("x-api-key", f"sk-ant-api03-{told.session}"))
    if told.lane.flavour == "code":
        beta = "claude-code-20250219,interleaved-thinking-2025-05-14"
        return (*headers, ("anthropic-beta", beta), ("x-app", "cli"),
                ("x-claude-code-session-id", told.session))  # fmt: skip
    return headers


def _response_headers(told: Told) -> Pairs:
    return (
        ("request-id", ident(told.rng, "req_011C", 20)),
        ("anthropic-organization-id", "8d0c8f4e-7a8a-4d56-9c3e-0f2f0f9d1a11"),
        ("anthropic-ratelimit-input-tokens-remaining", str(told.rng.randrange(10**5, 10**6))),
        ("server", "cloudflare"),
    )


# -- the answer ----------------------------------------------------------------------------


def usage(told: Told) -> Json:
    """Return a whole answer's usage; input leaves out what a cache had or got."""
    counts = told.counts
    return {
        "input_tokens": counts.input - counts.cached - counts.written,
        "cache_creation_input_tokens": counts.written,
        "cache_read_input_tokens": counts.cached,
        "cache_creation": {"ephemeral_5m_input_tokens": counts.written,
                           "ephemeral_1h_input_tokens": 0},
        "output_tokens": counts.output,
        "service_tier": "standard",
    }  # fmt: skip


def whole(ask: Ask, told: Told) -> Json:
    """Return a whole answer."""
    answer = _opening(told) | {"usage": usage(told) | _searches(ask)} | _stop(ask)
    said = [block(part) for part in ask.reply.message().parts]
    answer["content"] = [*_searched(ask), *said]
    if ask.cleared:
        answer["context_management"] = _edited(ask)
    return answer


def _opening(told: Told) -> Json:
    return {
        "model": told.name.answered,
        "id": ident(told.rng, "msg_01", 22),
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _stop(ask: Ask) -> Json:
    finish = ask.reply.finish
    stopped = ask.stop[0] if finish == "stop_sequence" and ask.stop else None
    return {"stop_reason": STOPS[finish], "stop_sequence": stopped}


def _edited(ask: Ask) -> Json:
    return {"applied_edits": [{"type": _CLEAR, "cleared_tool_uses": 4,
                               "cleared_input_tokens": ask.cleared}]}  # fmt: skip


def events(ask: Ask, told: Told) -> list[Json]:
    """Return the events of a stream."""
    opening = _opening(told) | {"usage": usage(told) | {"output_tokens": told.rng.randrange(1, 9)}}
    opening["usage"]["input_tokens"] -= ask.found  # what is found is counted at the end
    stream: list[Json] = [{"type": "message_start", "message": opening}]
    blocks: list[tuple[Json, list[Json]]] = [(one, []) for one in _searched(ask)]
    blocks += [_block_events(part, told) for part in ask.reply.message().parts]
    for index, (start, deltas) in enumerate(blocks):
        stream.append({"type": "content_block_start", "index": index, "content_block": start})
        if index == 0:
            stream.append({"type": "ping"})
        stream += [{"type": "content_block_delta", "index": index, "delta": one} for one in deltas]
        stream.append({"type": "content_block_stop", "index": index})
    end: Json = {"type": "message_delta", "delta": _stop(ask)}
    counts = told.counts
    end["usage"] = {
        "input_tokens": counts.input - counts.cached - counts.written,
        "cache_creation_input_tokens": counts.written,
        "cache_read_input_tokens": counts.cached,
        "output_tokens": counts.output,
        **_searches(ask),
    }
    if ask.cleared:
        end["context_management"] = _edited(ask)
    return [*stream, end, {"type": "message_stop"}]


def _searches(ask: Ask) -> Json:
    if not ask.found:
        return {}
    return {"server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0}}


def _searched(ask: Ask) -> list[Json]:
    """Return the blocks of a search that Anthropic made by itself."""
    if not ask.found:
        return []
    found = {"type": "web_search_result", "title": "Late parcels", "url": "https://example.com/a",
             "encrypted_content": "EqgfCioIARgBIiQ3" * 40, "page_age": None}  # fmt: skip
    return [
        {"type": "server_tool_use", "id": "srvtoolu_01", "name": "web_search",
         "input": {"query": "late parcels"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_01", "content": [found]},
    ]  # fmt: skip


def _block_events(part: Part, told: Told) -> tuple[Json, list[Json]]:
    whole_block = block(part)
    match part:
        case Thinking():
            if whole_block["type"] == "redacted_thinking":
                return whole_block, []
            shown = [{"type": "thinking_delta", "thinking": one}
                     for one in pieces(told.rng, part.shown)]  # fmt: skip
            sealed = {"type": "signature_delta", "signature": part.sealed}
            return {"type": "thinking", "thinking": "", "signature": ""}, [*shown, sealed]
        case ToolUse():
            text = dump(part.arguments).decode()
            deltas = [{"type": "input_json_delta", "partial_json": one}
                      for one in ["", *pieces(told.rng, text)]]  # fmt: skip
            return whole_block | {"input": {}}, deltas
        case Text():
            deltas = [{"type": "text_delta", "text": one} for one in pieces(told.rng, part.text)]
            return {"type": "text", "text": ""}, deltas
        case _:
            raise AssertionError(part)
