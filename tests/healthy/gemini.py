"""Gemini and Vertex as bytes: ai.google.dev/api/generate-content."""

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
from tests.healthy.writing import JSON, SSE, Told, Written, data, ident, meant, options, pieces
from tests.proxy.wire.samples import dump

_STOPS = {"stop": "STOP", "tools": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY",
          "stop_sequence": "STOP"}  # fmt: skip


def write(ask: Ask, told: Told) -> Written:
    """Write one call and its answer."""
    array = told.lane.flavour == "array"
    verb = "streamGenerateContent" if ask.streamed else "generateContent"
    written = Written(
        path=f"{told.lane.base_path}/{told.name.asked}:{verb}",
        query="alt=sse" if ask.streamed and not array else "",
        request_headers=_request_headers(told),
        body=_body(ask, told),
        response_headers=(("server", "scaffolding on HTTPServer2"), ("vary", "Origin")),
        meant=meant(told.counts),
    )
    if not ask.streamed:
        whole = _answer(told, _parts(ask, told), _STOPS[ask.reply.finish], told.counts.output)
        written.events = [dump(_grounded(ask, whole))]
        return written
    stream = [_grounded(ask, one) for one in _stream(ask, told)]
    written.type = JSON if array else SSE
    if array:  # without alt=sse the stream is an array of JSON
        written.events = [b"[" + dump(stream[0]), *(b",\r\n" + dump(one) for one in stream[1:])]
        written.events.append(b"]")
    else:
        written.events = [data(one).replace(b"\n\n", b"\r\n\r\n") for one in stream]
    return written


# -- the request ---------------------------------------------------------------------------


def _body(ask: Ask, told: Told) -> Json:
    prompt = ask.prompt
    sent: Json = {"contents": [_content(one, told) for one in prompt.messages]}
    if prompt.stored:
        sent["cachedContent"] = f"cachedContents/{told.session[:12]}"
    elif prompt.system:
        sent["systemInstruction"] = {"parts": [{"text": prompt.system}]}
    if prompt.tools and not prompt.stored:
        declared = [
            {"name": t.name, "description": t.description, "parameters": t.parameters}
            for t in prompt.tools
        ]
        sent["tools"] = [{"functionDeclarations": declared}]
    if ask.found:
        sent["tools"] = [{"googleSearch": {}}]
    config = options(ask, limit="maxOutputTokens", stop="stopSequences")
    if ask.schema is not None:
        config |= {"responseMimeType": "application/json",
                   "responseSchema": ask.schema["json_schema"]["schema"]}  # fmt: skip
    if told.lane.reasons:
        config["thinkingConfig"] = {"includeThoughts": True, "thinkingBudget": -1}
    if config:
        sent["generationConfig"] = config
    return sent


def _content(message: Message, told: Told) -> Json:
    sealed = [one.sealed for one in message.of(Thinking)]
    found = [_part(part, told) for part in message.parts if not isinstance(part, Thinking)]
    calls = [part for part in found if "functionCall" in part]
    if sealed and calls:
        calls[0]["thoughtSignature"] = sealed[0]
    return {"role": "model" if message.role == "assistant" else "user", "parts": found}


def _part(part: Part, told: Told) -> Json:
    match part:
        case Text():
            return {"text": part.text}
        case Picture():
            return {"inlineData": {"mimeType": part.media_type, "data": part.data}}
        case Document():
            if part.reference:
                uri = f"https://generativelanguage.googleapis.com/v1beta/files/{part.reference}"
                return {"fileData": {"mimeType": "application/pdf", "fileUri": uri}}
            return {"inlineData": {"mimeType": "application/pdf", "data": part.data}}
        case Thinking():
            return {"text": part.shown, "thought": True}
        case ToolUse():
            return {"functionCall": {"name": part.name, "args": part.arguments}}
        case ToolResult():
            return {"functionResponse": {"name": part.name, "response": {"output": part.text}}}
        case Compacted():
            raise AssertionError(part)


def _request_headers(told: Told) -> Pairs:
    headers = (
        ("content-type", JSON),
        ("user-agent", "google-genai-sdk/1.42.0 gl-python/3.12.3"),
        ("x-goog-api-client", "google-genai-sdk/1.42.0 gl-python/3.12.3"),
        ("accept-encoding", "gzip, deflate"),
    )
    if told.lane.flavour == "vertex":
        return (*headers, ("authorization", f"Bearer ya29.{told.session}"))
    return (*headers, ("x-goog-api-key", f"AIza{told.session}"))


# -- the answer ----------------------------------------------------------------------------


def _parts(ask: Ask, told: Told) -> list[Json]:
    reply = ask.reply
    parts: list[Json] = []
    if reply.thinking is not None and reply.thinking.shown:
        parts.append({"text": reply.thinking.shown, "thought": True})
    if reply.text and reply.finish != "refusal":
        parts.append({"text": reply.text})
    calls = [_part(use, told) for use in reply.uses]
    if calls and reply.thinking is not None:
        calls[0]["thoughtSignature"] = reply.thinking.sealed
    return [*parts, *calls]


def _answer(told: Told, parts: list[Json], finish: str | None, made: int) -> Json:
    counts = told.counts
    said = max(0, made - counts.reasoning)
    usage: Json = {"promptTokenCount": counts.input}
    if said:
        usage["candidatesTokenCount"] = said  # a count of 0 is left out
    usage["totalTokenCount"] = counts.input + said + counts.reasoning
    if counts.cached:
        usage["cachedContentTokenCount"] = counts.cached
        usage["cacheTokensDetails"] = [{"modality": "TEXT", "tokenCount": counts.cached}]
    usage["promptTokensDetails"] = [{"modality": "TEXT", "tokenCount": counts.input}]
    if counts.reasoning:
        usage["thoughtsTokenCount"] = counts.reasoning
    if told.lane.flavour == "vertex":
        usage["trafficType"] = "ON_DEMAND"
    candidate: Json = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if not parts:
        candidate = {"content": {}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": told.name.answered,
        "responseId": ident(told.rng, "", 22),
    }


def _grounded(ask: Ask, answer: Json) -> Json:
    """Say what a search of Google's own put before the model, beside the prompt."""
    if ask.found:
        usage = answer["usageMetadata"]
        usage["promptTokenCount"] -= ask.found
        usage["toolUsePromptTokenCount"] = ask.found
        answer["candidates"][0]["groundingMetadata"] = {"webSearchQueries": ["late parcels"]}
    return answer


def _stream(ask: Ask, told: Told) -> list[Json]:
    bits: list[list[Json]] = []
    for part in _parts(ask, told):
        if "text" not in part:
            bits.append([part])
            continue
        bits += [[part | {"text": one}] for one in pieces(told.rng, part["text"])]
    bits = bits or [[]]
    total, reasoning = told.counts.output, told.counts.reasoning
    made = [reasoning + (total - reasoning) * (i + 1) // len(bits) for i in range(len(bits))]
    stops = [None] * (len(bits) - 1) + [_STOPS[ask.reply.finish]]
    stream = [_answer(told, p, f, m) for p, f, m in zip(bits, stops, made, strict=True)]
    for one in stream:
        one["responseId"] = stream[0]["responseId"]
    return stream
