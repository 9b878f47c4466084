"""Answers written after what providers document, each with the counts it states.

No answer here was recorded; each row states one fact, and where it is documented.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

JSON = "application/json"
SSE = "text/event-stream"
NDJSON = "application/x-ndjson"
EVENTS = "application/vnd.amazon.eventstream"

Counts = tuple[int | None, ...]  # input, output, cached, cache write, reasoning, total
NOTHING: Counts = (None,) * 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One answer: ``counts`` as the provider states them, ``totals`` normalised.

    ``content``: whether it holds more than reasoning; None where it does as ``output`` says.
    """

    name: str
    fact: str
    source: str
    path: str
    body: bytes
    type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    counts: Counts = NOTHING
    totals: tuple[int | None, int | None] = (None, None)
    model: str | None = None
    finish: str | None = None
    calls: int = 0
    output: bool = True
    content: bool | None = None
    cost: float | None = None
    usage_from: str = "provider"
    unread: str | None = None


# -- builders ------------------------------------------------------------------------------


def dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def sse(*events: object, done: bool = True, end: bytes = b"\n") -> bytes:
    """Events as OpenAI writes them: data only, and [DONE]."""
    lines = [b"data: " + (e if isinstance(e, bytes) else dump(e)) + end * 2 for e in events]
    return b"".join(lines) + (b"data: [DONE]" + end * 2 if done else b"")


def named(*events: Mapping[str, Any]) -> bytes:
    """Events as Anthropic and the Responses API write them: named by their type."""
    return b"".join(b"event: %s\ndata: %s\n\n" % (str(e["type"]).encode(), dump(e)) for e in events)


def lines(*documents: object) -> bytes:
    return b"".join(dump(one) + b"\n" for one in documents)


def frame(payload: object, **headers: str) -> bytes:
    """One AWS event stream message; header names as ``event_type`` for ``:event-type``."""
    raw = payload if isinstance(payload, bytes) else dump(payload)
    head = b""
    for key, value in headers.items():
        name = b":" + key.replace("_", "-").encode()
        head += bytes([len(name)]) + name + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    prelude = struct.pack(">II", 16 + len(head) + len(raw), len(head))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + raw
    return message + struct.pack(">I", zlib.crc32(message))


def event(kind: str, payload: object) -> bytes:
    return frame(payload, event_type=kind, content_type=JSON, message_type="event")


def chunk(native: object) -> bytes:
    """Make a chunk of InvokeModelWithResponseStream."""
    return event("chunk", {"bytes": base64.b64encode(dump(native)).decode()})


def chat(usage: object, *, finish: str | None = "stop", **message: object) -> bytes:
    told = {"role": "assistant", "content": "Yes."} | message
    return dump(
        {
            "id": "c1",
            "object": "chat.completion",
            "model": "m-1",
            "choices": [{"index": 0, "message": told, "finish_reason": finish}],
            "usage": usage,
        }
    )


def delta(finish: str | None = None, **told: object) -> dict[str, Any]:
    choice = {"index": 0, "delta": told, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m-1", "choices": [choice]}


def last(usage: object, **more: object) -> dict[str, Any]:
    return {"id": "c1", "model": "m-1", "choices": [], "usage": usage} | more


def call(index: int, name: str | None, arguments: str, id_: str | None = "t") -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"index": index, "function": function} | ({"id": f"{id_}{index}"} if id_ else {})


def message(usage: object, *content: object, stop: str | None = "end_turn") -> bytes:
    return dump(
        {
            "type": "message",
            "role": "assistant",
            "model": "claude-x",
            "content": list(content),
            "stop_reason": stop,
            "usage": usage,
        }
    )


def messages(
    start: object, *middle: Mapping[str, Any], end: object, stop: str = "end_turn"
) -> bytes:
    return named(
        {"type": "message_start", "message": {"type": "message", "model": "claude-x",
                                              "content": [], "stop_reason": None, "usage": start}},
        *middle,
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": end},
        {"type": "message_stop"},
    )  # fmt: skip


def block(index: int, **content: object) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": content}


def text(index: int, said: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index,
            "delta": {"type": "text_delta", "text": said}}  # fmt: skip


def response(
    usage: object, *output: object, status: str = "completed", **more: object
) -> dict[str, Any]:
    return {"object": "response", "model": "m-2", "status": status, "error": None,
            "output": list(output), "usage": usage} | more  # fmt: skip


def says(said: str) -> dict[str, Any]:
    return {"type": "message", "id": "m", "content": [{"type": "output_text", "text": said}]}


def responses(
    *middle: Mapping[str, Any], final: Mapping[str, Any], kind: str = "completed"
) -> bytes:
    return named(
        {"type": "response.created", "response": response(None, status="in_progress")},
        *middle,
        {"type": f"response.{kind}", "response": final},
    )


def gemini(usage: object, *parts: object, finish: str | int | None = "STOP") -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-y"}


OPENAI_PY = "openai-python src/openai/types/completion_usage.py"
CHUNK_PY = "openai-python src/openai/types/chat/chat_completion_chunk.py"
RESPONSE_PY = "openai-python src/openai/types/responses/response_usage.py"
EVENTS_PY = "openai-python src/openai/types/responses/response_stream_event.py"
ANTHROPIC_PY = "anthropic-sdk-python src/anthropic/types/usage.py"
DELTA_PY = "anthropic-sdk-python src/anthropic/types/message_delta_usage.py"
GENAI_PY = "python-genai google/genai/types.py"
BOTOCORE = "botocore data/bedrock-runtime/2023-09-30/service-2.json"
COHERE_PY = "cohere-python src/cohere/types/usage.py"
OLLAMA_GO = "ollama api/types.go"
OPENROUTER = "openrouter.ai/docs/use-cases/usage-accounting"

CHAT = "/v1/chat/completions"
HI = {"text": "Hi"}

OPENAI_SAMPLES = (
    Sample(
        name="chat-plain", fact="prompt, completion and total", source=OPENAI_PY, path=CHAT,
        body=chat({"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}),
        counts=(11, 3, None, None, None, 14), totals=(11, 3), model="m-1", finish="stop",
    ),
    Sample(
        name="chat-details", fact="the prompt includes cached, the completion reasoning tokens",
        source=OPENAI_PY, path=CHAT,
        body=chat({"prompt_tokens": 900, "completion_tokens": 70, "total_tokens": 970,
                   "prompt_tokens_details": {"cached_tokens": 768, "audio_tokens": 0},
                   "completion_tokens_details": {"reasoning_tokens": 64}}),
        counts=(900, 70, 768, None, 64, 970), totals=(900, 70), model="m-1", finish="stop",
    ),
    Sample(
        name="chat-cache-write", fact="prompt_tokens_details.cache_write_tokens is new",
        source=OPENAI_PY, path=CHAT,
        body=chat({"prompt_tokens": 1300, "completion_tokens": 9, "total_tokens": 1309,
                   "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 1280}}),
        counts=(1300, 9, 0, 1280, None, 1309), totals=(1300, 9), model="m-1", finish="stop",
    ),
    Sample(
        name="chat-explicit-zero", fact="a stated 0 is a count, not a gap",
        source="BerriAI/litellm#37992", path=CHAT,
        body=chat({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}),
        counts=(0, 0, None, None, None, 0), totals=(0, 0), model="m-1", finish="stop",
    ),
    Sample(
        name="chat-null-details", fact="details and their fields may be null", source=OPENAI_PY,
        path=CHAT,
        body=chat({"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9,
                   "prompt_tokens_details": None,
                   "completion_tokens_details": {"reasoning_tokens": None}}),
        counts=(7, 2, None, None, None, 9), totals=(7, 2), model="m-1", finish="stop",
    ),
    Sample(
        name="chat-no-usage", fact="a body without usage leaves it absent",
        source="api7/aisix#794", path=CHAT, body=chat(None), model="m-1", finish="stop",
        usage_from="absent",
    ),
    Sample(
        name="chat-tool-calls", fact="each entry of tool_calls is a call; content is null then",
        source="openai-python src/openai/types/chat/chat_completion_message.py", path=CHAT,
        body=chat({"prompt_tokens": 40, "completion_tokens": 22, "total_tokens": 62},
                  finish="tool_calls", content=None,
                  tool_calls=[{"id": "a", "type": "function",
                               "function": {"name": "f", "arguments": "{}"}},
                              {"id": "b", "type": "function",
                               "function": {"name": "f", "arguments": "{}"}}]),
        counts=(40, 22, None, None, None, 62), totals=(40, 22), model="m-1", finish="tool_calls",
        calls=2,
    ),
    Sample(
        name="chat-custom-tool", fact="a custom tool call is a call too",
        source="openai-python src/openai/types/chat/chat_completion_message_custom_tool_call.py",
        path=CHAT,
        body=chat({"prompt_tokens": 41, "completion_tokens": 8, "total_tokens": 49},
                  finish="tool_calls", content=None,
                  tool_calls=[{"id": "a", "type": "custom",
                               "custom": {"name": "grep", "input": "x"}}]),
        counts=(41, 8, None, None, None, 49), totals=(41, 8), model="m-1", finish="tool_calls",
        calls=1,
    ),
    Sample(
        name="chat-function-call", fact="before tools, an answer held one function_call",
        source="openai-python src/openai/types/chat/chat_completion_message.py", path=CHAT,
        body=chat({"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11},
                  finish="function_call", content=None,
                  function_call={"name": "look", "arguments": "{}"}),
        counts=(5, 6, None, None, None, 11), totals=(5, 6), model="m-1", finish="function_call",
        calls=1,
    ),
    Sample(
        name="chat-refusal", fact="a refusal is output and no failure",
        source="openai-python src/openai/types/chat/chat_completion_message.py", path=CHAT,
        body=chat({"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9},
                  content=None, refusal="I will not."),
        counts=(5, 4, None, None, None, 9), totals=(5, 4), model="m-1", finish="stop",
    ),
    Sample(
        name="chat-empty", fact="an answer with no text and no call has no output",
        source="openai-python src/openai/types/chat/chat_completion_message.py", path=CHAT,
        body=chat({"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5}, content=""),
        counts=(5, 0, None, None, None, 5), totals=(5, 0), model="m-1", finish="stop",
        output=False,
    ),
    Sample(
        name="chat-reasoning-only", fact="reasoning_content is output",
        source="api-docs.deepseek.com/guides/reasoning_model", path=CHAT,
        body=chat({"prompt_tokens": 5, "completion_tokens": 90, "total_tokens": 95},
                  finish="length", content="", reasoning_content="Let me see"),
        counts=(5, 90, None, None, None, 95), totals=(5, 90), model="m-1", finish="length",
        content=False,
    ),
    Sample(
        name="chat-deepseek-cache", fact="prompt_cache_hit_tokens is the cached part",
        source="api-docs.deepseek.com/api/create-chat-completion", path="/chat/completions",
        body=chat({"prompt_tokens": 300, "completion_tokens": 12, "total_tokens": 312,
                   "prompt_cache_hit_tokens": 256, "prompt_cache_miss_tokens": 44}),
        counts=(300, 12, 256, None, None, 312), totals=(300, 12), model="m-1", finish="stop",
    ),
    Sample(
        name="chat-xai-reasoning", fact="reasoning may be counted beside: the total says so",
        source="docs.x.ai/docs/key-information/consumption-and-rate-limits", path=CHAT,
        body=chat({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 141,
                   "completion_tokens_details": {"reasoning_tokens": 100},
                   "cost_in_usd_ticks": 25_000_000}),
        counts=(32, 9, None, None, 100, 141), totals=(32, 109), model="m-1", finish="stop",
        cost=0.0025,
    ),
    Sample(
        name="chat-openrouter-cost", fact="usage.cost is dollars", source=OPENROUTER,
        path="/api/v1/chat/completions",
        body=chat({"prompt_tokens": 50, "completion_tokens": 5, "total_tokens": 55,
                   "cost": 0.00125, "cost_details": {"upstream_inference_cost": None}}),
        counts=(50, 5, None, None, None, 55), totals=(50, 5), model="m-1", finish="stop",
        cost=0.00125,
    ),
    Sample(
        name="chat-openrouter-blanks", fact="blank keep-alive lines stand before the JSON",
        source="openrouter.ai/docs/api-reference/streaming", path="/api/v1/chat/completions",
        body=b"\n         \n\n         \n"
        + chat({"prompt_tokens": 51, "completion_tokens": 6, "total_tokens": 57, "cost": 0}),
        counts=(51, 6, None, None, None, 57), totals=(51, 6), model="m-1", finish="stop",
        cost=0.0,
    ),
    Sample(
        name="chat-perplexity", fact="cost is an object, and a delta stands beside the message",
        source="docs.perplexity.ai/api-reference/chat-completions-post", path="/chat/completions",
        body=dump({"model": "sonar-z", "choices": [
            {"index": 0, "finish_reason": "stop", "delta": {"role": "assistant", "content": ""},
             "message": {"role": "assistant", "content": "Seven."}}],
            "usage": {"prompt_tokens": 8, "completion_tokens": 2, "total_tokens": 10,
                      "cost": {"request_cost": 0.005, "total_cost": 0.0052}}}),
        counts=(8, 2, None, None, None, 10), totals=(8, 2), model="sonar-z", finish="stop",
        cost=0.0052,
    ),
    Sample(
        name="chat-together-flat", fact="cached and reasoning tokens may stand at the top of usage",
        source="docs.together.ai/reference/chat-completions-1", path=CHAT,
        body=chat({"prompt_tokens": 80, "completion_tokens": 44, "total_tokens": 124,
                   "cached_tokens": 16, "reasoning_tokens": 30}),
        counts=(80, 44, 16, None, 30, 124), totals=(80, 44), model="m-1", finish="stop",
    ),
    Sample(
        name="chat-mould-zero", fact="a gateway's Anthropic field filled with 0 is no count",
        source="BerriAI/litellm litellm/types/utils.py Usage", path=CHAT,
        body=chat({"prompt_tokens": 20, "completion_tokens": 2, "total_tokens": 22,
                   "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}),
        counts=(20, 2, 0, None, None, 22), totals=(20, 2), model="m-1", finish="stop",
    ),
    Sample(
        name="chat-mould-count", fact="a gateway in front of Anthropic states its cache writes",
        source="BerriAI/litellm litellm/types/utils.py Usage", path=CHAT,
        body=chat({"prompt_tokens": 2020, "completion_tokens": 2, "total_tokens": 2022,
                   "cache_creation_input_tokens": 1500, "cache_read_input_tokens": 400}),
        counts=(2020, 2, 400, 1500, None, 2022), totals=(2020, 2), model="m-1", finish="stop",
    ),
    Sample(
        name="chat-llamacpp-timings", fact="timings without usage give normalised totals only",
        source="llama.cpp tools/server/README.md", path=CHAT,
        body=dump({"model": "m-1", "choices": [
            {"index": 0, "finish_reason": "stop",
             "message": {"role": "assistant", "content": "Hm"}}],
            "timings": {"cache_n": 90, "prompt_n": 6, "predicted_n": 4, "prompt_ms": 12.5}}),
        totals=(96, 4), model="m-1", finish="stop",
    ),
    Sample(
        name="chat-azure", fact="Azure speaks OpenAI under its deployment's path",
        source="learn.microsoft.com/azure/ai-services/openai/reference",
        path="/openai/deployments/d-1/chat/completions",
        body=chat({"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}),
        counts=(10, 1, None, None, None, 11), totals=(10, 1), model="m-1", finish="stop",
    ),
    Sample(
        name="chat-writer-path", fact="/v1/chat is Cohere's path, and Writer's OpenAI-like one",
        source="dev.writer.com/api-reference/completion-api/chat-completion", path="/v1/chat",
        body=chat({"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}),
        counts=(12, 3, None, None, None, 15), totals=(12, 3), model="m-1", finish="stop",
    ),
    Sample(
        name="chat-int64-finish", fact="counts beyond whole doubles are no counts",
        source="RFC 8259 §6", path=CHAT,
        body=chat({"prompt_tokens": 2**60, "completion_tokens": -1, "total_tokens": True}),
        model="m-1", finish="stop", usage_from="absent",
        unread="a count or a cost that no call can have",
    ),
    Sample(
        name="completions", fact="legacy completions carry text in the choice",
        source="openai-python src/openai/types/completion.py", path="/v1/completions",
        body=dump({"object": "text_completion", "model": "m-0", "choices": [
            {"text": " and so", "index": 0, "finish_reason": "length"}],
            "usage": {"prompt_tokens": 4, "completion_tokens": 16, "total_tokens": 20}}),
        counts=(4, 16, None, None, None, 20), totals=(4, 16), model="m-0", finish="length",
    ),
    Sample(
        name="embeddings", fact="embeddings state prompt and total only",
        source="openai-python src/openai/types/create_embedding_response.py",
        path="/v1/embeddings",
        body=dump({"object": "list", "model": "e-1", "data": [{"embedding": [0.5], "index": 0}],
                   "usage": {"prompt_tokens": 6, "total_tokens": 6}}),
        counts=(6, None, None, None, None, 6), totals=(6, None), model="e-1",
    ),
    Sample(
        name="images", fact="images state input and output tokens",
        source="openai-python src/openai/types/images_response.py", path="/v1/images/generations",
        body=dump({"created": 1, "data": [{"b64_json": "AA"}],
                   "usage": {"input_tokens": 13, "output_tokens": 1056, "total_tokens": 1069,
                             "input_tokens_details": {"text_tokens": 13, "image_tokens": 0}}}),
        counts=(13, 1056, None, None, None, 1069), totals=(13, 1056),
    ),
)  # fmt: skip

U = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}
STREAMED: Counts = (12, 5, None, None, None, 17)

OPENAI_STREAMS = (
    Sample(
        name="stream-include-usage", fact="usage comes in a last chunk without choices",
        source=CHUNK_PY, path=CHAT, type=SSE,
        body=sse(delta(role="assistant", content="") | {"usage": None},
                 delta(content="Yes") | {"usage": None}, delta(content=".") | {"usage": None},
                 delta("stop") | {"usage": None}, last(U)),
        counts=STREAMED, totals=(12, 5), model="m-1", finish="stop",
    ),
    Sample(
        name="stream-no-usage", fact="without include_usage a stream states none",
        source=CHUNK_PY, path=CHAT, type=SSE, body=sse(delta(content="Yes"), delta("stop")),
        model="m-1", finish="stop", usage_from="absent",
    ),
    Sample(
        name="stream-azure", fact="the first chunk has no choices and an empty model",
        source="learn.microsoft.com/azure/ai-services/openai/concepts/content-streaming",
        path="/openai/deployments/d-1/chat/completions", type=SSE,
        body=sse({"choices": [], "model": "", "prompt_filter_results": [{"prompt_index": 0}]},
                 delta(content="Yes"), delta("stop"), last(U)),
        counts=STREAMED, totals=(12, 5), model="m-1", finish="stop",
    ),
    Sample(
        name="stream-vllm-continuous", fact="usage in every chunk is cumulative: the last stands",
        source="docs.vllm.ai stream_options.continuous_usage_stats", path=CHAT, type=SSE,
        body=sse(*(delta(content="a") | {"usage": {"prompt_tokens": 12, "completion_tokens": n,
                                                   "total_tokens": 12 + n}} for n in range(1, 5)),
                 delta("stop") | {"usage": U}),
        counts=STREAMED, totals=(12, 5), model="m-1", finish="stop",
    ),
    Sample(
        name="stream-mistral", fact="usage rides on the chunk that has the finish reason",
        source="docs.mistral.ai/api", path=CHAT, type=SSE,
        body=sse(delta(content="Yes"), delta("stop", content="") | {"usage": U}),
        counts=STREAMED, totals=(12, 5), model="m-1", finish="stop",
    ),
    Sample(
        name="stream-groq", fact="x_groq.usage states the counts",
        source="console.groq.com/docs/api-reference", path="/openai/v1/chat/completions",
        type=SSE,
        body=sse(delta(content="Yes") | {"x_groq": {"id": "req"}},
                 delta("stop") | {"x_groq": {"id": "req", "usage": U}}),
        counts=STREAMED, totals=(12, 5), model="m-1", finish="stop",
    ),
    Sample(
        name="stream-moonshot", fact="usage stands in the choice of the last chunk",
        source="platform.moonshot.ai/docs/api/chat", path=CHAT, type=SSE,
        body=sse(delta(content="Yes"),
                 {"model": "m-1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop",
                                               "usage": U}]}),
        counts=STREAMED, totals=(12, 5), model="m-1", finish="stop",
    ),
    Sample(
        name="stream-openrouter", fact="comments keep the line alive, usage has the cost",
        source=OPENROUTER, path="/api/v1/chat/completions", type=SSE,
        body=b": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n"
        + sse(delta(content="Yes"), delta("stop"), last(U | {"cost": 0.002})),
        counts=STREAMED, totals=(12, 5), model="m-1", finish="stop", cost=0.002,
    ),
    Sample(
        name="stream-llamacpp-timings", fact="timings ride on the last chunk",
        source="llama.cpp tools/server/README.md", path=CHAT, type=SSE,
        body=sse(delta(content="Hm"),
                 delta("stop") | {"timings": {"cache_n": 1, "prompt_n": 2, "predicted_n": 3}}),
        totals=(3, 3), model="m-1", finish="stop",
    ),
    Sample(
        name="stream-no-done", fact="a healthy server may leave [DONE] out",
        source=CHUNK_PY, path=CHAT, type=SSE,
        body=sse(delta(content="Yes"), delta("stop"), last(U), done=False),
        counts=STREAMED, totals=(12, 5), model="m-1", finish="stop",
    ),
    Sample(
        name="stream-crlf", fact="lines may end in CRLF", source="WHATWG HTML §9.2.5", path=CHAT,
        type="text/event-stream; charset=utf-8",
        body=sse(delta(content="Yes"), delta("stop"), last(U), end=b"\r\n"),
        counts=STREAMED, totals=(12, 5), model="m-1", finish="stop",
    ),
    Sample(
        name="stream-cr", fact="lines may end in CR alone", source="WHATWG HTML §9.2.5", path=CHAT,
        type=SSE, body=sse(delta(content="Yes"), delta("stop"), last(U), end=b"\r"),
        counts=STREAMED, totals=(12, 5), model="m-1", finish="stop",
    ),
    Sample(
        name="stream-bom", fact="a byte order mark may come first", source="WHATWG HTML §9.2.5",
        path=CHAT, type=SSE,
        body=b"\xef\xbb\xbf" + sse(delta(content="Yes"), delta("stop"), last(U)),
        counts=STREAMED, totals=(12, 5), model="m-1", finish="stop",
    ),
    Sample(
        name="stream-no-space", fact="the blank after data: may be missing",
        source="WHATWG HTML §9.2.6", path=CHAT, type=SSE,
        body=sse(delta(content="Yes"), delta("stop"), last(U)).replace(b"data: ", b"data:"),
        counts=STREAMED, totals=(12, 5), model="m-1", finish="stop",
    ),
    Sample(
        name="stream-multi-line", fact="one event's data may stand on several lines",
        source="WHATWG HTML §9.2.6", path=CHAT, type=SSE,
        body=sse(delta(content="Yes"), delta("stop"), done=False)
        + b'data: {"choices": [],\ndata: "usage": {"prompt_tokens": 12,\n'
        + b'data: "completion_tokens": 5, "total_tokens": 17}}\n\ndata: [DONE]\n\n',
        counts=STREAMED, totals=(12, 5), model="m-1", finish="stop",
    ),
    Sample(
        name="stream-spaced-json", fact="JSON may have blanks around its colons",
        source="RFC 8259 §2", path=CHAT, type=SSE,
        body=sse(*(json.dumps(e, separators=(", ", " : ")).encode()
                   for e in (delta(content="Yes"), delta(content="!"), delta("stop"), last(U)))),
        counts=STREAMED, totals=(12, 5), model="m-1", finish="stop",
    ),
    Sample(
        name="stream-wrong-type", fact="some servers send SSE as text/plain", source=CHUNK_PY,
        path=CHAT, type="text/plain", body=sse(delta(content="Yes"), delta("stop"), last(U)),
        counts=STREAMED, totals=(12, 5), model="m-1", finish="stop",
    ),
    Sample(
        name="stream-tool-calls", fact="only a call's first delta names its function",
        source=CHUNK_PY, path=CHAT, type=SSE,
        body=sse(delta(content="Look"), delta(tool_calls=[call(0, "ls", "")]),
                 delta(tool_calls=[call(0, None, '{"p"', None)]),
                 delta(tool_calls=[call(0, None, ':1}', None)]),
                 delta(tool_calls=[call(1, "cat", "{}")]), delta("tool_calls"), last(U)),
        counts=STREAMED, totals=(12, 5), model="m-1", finish="tool_calls", calls=2,
    ),
    Sample(
        name="stream-tool-name-repeated", fact="some servers repeat the name with each delta",
        source="NousResearch/hermes-agent#8259", path=CHAT, type=SSE,
        body=sse(delta(tool_calls=[call(0, "ls", "{")]),
                 delta(tool_calls=[call(0, "ls", "}", None)]),
                 delta("tool_calls"), last(U)),
        counts=STREAMED, totals=(12, 5), model="m-1", finish="tool_calls", calls=1,
    ),
    Sample(
        name="stream-tool-index-zero", fact="parallel calls may all have index 0, with own ids",
        source="su-kaka/gcli2api#406", path="/v1beta/openai/chat/completions",
        type=SSE,
        body=sse(delta(tool_calls=[call(0, "ls", "{}", "a")]),
                 delta(tool_calls=[call(0, "ls", "{}", "b")]), delta("stop"), last(U)),
        counts=STREAMED, totals=(12, 5), model="m-1", finish="stop", calls=2,
    ),
    Sample(
        name="stream-tool-name-later", fact="a call's id and arguments may come before its name",
        source="vercel/ai#14722", path=CHAT, type=SSE,
        body=sse(delta(tool_calls=[call(0, None, "")]), delta(tool_calls=[call(0, "ls", "{}")]),
                 delta("tool_calls"), last(U)),
        counts=STREAMED, totals=(12, 5), model="m-1", finish="tool_calls", calls=1,
    ),
    Sample(
        name="stream-done-no-blank", fact="[DONE] may come without its blank line",
        source="darshi1337/apogee#139", path=CHAT, type=SSE,
        body=sse(delta(content="Yes"), delta("stop"), last(U), done=False) + b"data: [DONE]",
        counts=STREAMED, totals=(12, 5), model="m-1", finish="stop",
    ),
    Sample(
        name="stream-quoted-keys", fact="a quoted key inside a text is no key",
        source="RFC 8259 §7", path=CHAT, type=SSE,
        body=sse(delta(content="It is"), delta(content='"usage":{"prompt_tokens":99}'),
                 delta(content='"finish_reason":"stop"'), delta("length"), last(U)),
        counts=STREAMED, totals=(12, 5), model="m-1", finish="length",
    ),
    Sample(
        name="stream-empty-finish", fact='a finish reason "" says that the answer goes on',
        source="learn.microsoft.com/azure/ai-foundry/model-inference", path=CHAT, type=SSE,
        body=sse(delta("", content="Yes"), delta("stop"), last(U)),
        counts=STREAMED, totals=(12, 5), model="m-1", finish="stop",
    ),
    Sample(
        name="stream-completions", fact="legacy streams carry text in the choice",
        source="openai-python src/openai/types/completion.py", path="/v1/completions", type=SSE,
        body=sse({"model": "m-0", "choices": [{"text": "a", "index": 0, "finish_reason": None}]},
                 {"model": "m-0", "choices": [{"text": "", "index": 0, "finish_reason": "length"}]},
                 last(U)),
        counts=STREAMED, totals=(12, 5), model="m-0", finish="length",
    ),
    Sample(
        name="stream-unknown-shape", fact="a stream of unknown shape is no truncated one",
        source="dev.writer.com/api-reference/completion-api/text-generation",
        path="/v1/completions", type=SSE, body=sse({"value": "So"}, {"value": " be"}, done=False),
        usage_from="absent",
    ),
)  # fmt: skip

R = {"input_tokens": 30, "output_tokens": 8, "total_tokens": 38,
     "input_tokens_details": {"cached_tokens": 16},
     "output_tokens_details": {"reasoning_tokens": 4}}  # fmt: skip
RESPONDED: Counts = (30, 8, 16, None, 4, 38)
FUNCTION = {"type": "function_call", "id": "fc", "call_id": "k1", "name": "f", "arguments": "{}"}
TEXT_DELTA = {"type": "response.output_text.delta", "output_index": 0, "delta": "Yes"}

RESPONSES_SAMPLES = (
    Sample(
        name="responses", fact="input includes cached, output includes reasoning tokens",
        source=RESPONSE_PY, path="/v1/responses", body=dump(response(R, says("Yes"))),
        counts=RESPONDED, totals=(30, 8), model="m-2", finish="completed",
    ),
    Sample(
        name="responses-call", fact="a function_call item is a tool call",
        source="openai-python src/openai/types/responses/response_function_tool_call.py",
        path="/openai/v1/responses", body=dump(response(R, FUNCTION)),
        counts=RESPONDED, totals=(30, 8), model="m-2", finish="completed", calls=1,
    ),
    Sample(
        name="responses-web-search", fact="a search the provider ran is output, not a call to make",
        source="openai-python src/openai/types/responses/response_function_web_search.py",
        path="/v1/responses",
        body=dump(response(R, {"type": "web_search_call", "id": "ws", "status": "completed"})),
        counts=RESPONDED, totals=(30, 8), model="m-2", finish="completed",
    ),
    Sample(
        name="responses-incomplete", fact="incomplete_details says why it stopped",
        source="openai-python src/openai/types/responses/response.py", path="/v1/responses",
        body=dump(response(R, says("Ye"), status="incomplete",
                           incomplete_details={"reason": "max_output_tokens"})),
        counts=RESPONDED, totals=(30, 8), model="m-2", finish="incomplete:max_output_tokens",
    ),
    Sample(
        name="responses-cache-write", fact="input_tokens_details.cache_write_tokens is new",
        source=RESPONSE_PY, path="/api/v1/responses",
        body=dump(response(R | {"input_tokens_details": {"cached_tokens": 0,
                                                         "cache_write_tokens": 25},
                                "cost": 0.01}, says("Yes"))),
        counts=(30, 8, 0, 25, 4, 38), totals=(30, 8), model="m-2", finish="completed", cost=0.01,
    ),
    Sample(
        name="responses-stream", fact="response.completed has the usage, earlier echoes null",
        source=EVENTS_PY, path="/v1/responses", type=SSE,
        body=responses({"type": "response.in_progress",
                        "response": response(None, status="in_progress")},
                       TEXT_DELTA, TEXT_DELTA, final=response(R, says("YesYes"))),
        counts=RESPONDED, totals=(30, 8), model="m-2", finish="completed",
    ),
    Sample(
        name="responses-stream-call", fact="the same call is added, done and in the snapshot",
        source=EVENTS_PY, path="/backend-api/codex/responses", type=SSE,
        body=responses({"type": "response.output_item.added", "item": FUNCTION},
                       {"type": "response.function_call_arguments.delta", "delta": "{}"},
                       {"type": "response.output_item.done", "item": FUNCTION},
                       final=response(R, FUNCTION)),
        counts=RESPONDED, totals=(30, 8), model="m-2", finish="completed", calls=1,
    ),
    Sample(
        name="responses-stream-empty-snapshot", fact="unstored answers end with an empty output",
        source="openai/codex codex-rs/core/src/client.rs", path="/backend-api/codex/responses",
        type=SSE,
        body=responses(TEXT_DELTA, {"type": "response.output_item.done", "item": FUNCTION},
                       final=response(R)),
        counts=RESPONDED, totals=(30, 8), model="m-2", finish="completed", calls=1,
    ),
    Sample(
        name="responses-stream-incomplete", fact="response.incomplete ends a stream too",
        source=EVENTS_PY, path="/v1/responses", type=SSE,
        body=responses(TEXT_DELTA, kind="incomplete",
                       final=response(R, status="incomplete",
                                      incomplete_details={"reason": "content_filter"})),
        counts=RESPONDED, totals=(30, 8), model="m-2", finish="incomplete:content_filter",
    ),
    Sample(
        name="responses-stream-data-first", fact="the event's name may follow its data",
        source="WHATWG HTML §9.2.6", path="/v1/responses", type=SSE,
        body=b"".join(b"data: %s\nevent: %s\n\n" % (dump(e), str(e["type"]).encode()) for e in (
            {"type": "response.created", "response": response(None, status="in_progress")},
            TEXT_DELTA, {"type": "response.completed", "response": response(R)})),
        counts=RESPONDED, totals=(30, 8), model="m-2", finish="completed",
    ),
    Sample(
        name="responses-no-details", fact="compatible servers leave the details out",
        source="docs.vllm.ai serving/openai_compatible_server", path="/v1/responses",
        body=dump(response({"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}, says("x"))),
        counts=(3, 4, None, None, None, 7), totals=(3, 4), model="m-2", finish="completed",
    ),
)  # fmt: skip

A = {"input_tokens": 20, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 3000,
     "output_tokens": 40}  # fmt: skip
SAYS = {"type": "text", "text": "Yes"}
USES = {"type": "tool_use", "id": "tu", "name": "ls", "input": {}}

ANTHROPIC_SAMPLES = (
    Sample(
        name="anthropic", fact="input_tokens leaves cache reads and writes out",
        source=ANTHROPIC_PY, path="/v1/messages", body=message(A, SAYS),
        counts=(20, 40, 3000, 100, None, None), totals=(3120, 40), model="claude-x",
        finish="end_turn",
    ),
    Sample(
        name="anthropic-no-cache", fact="older answers state no cache counts", source=ANTHROPIC_PY,
        path="/v1/messages", body=message({"input_tokens": 9, "output_tokens": 3}, SAYS),
        counts=(9, 3, None, None, None, None), totals=(9, 3), model="claude-x", finish="end_turn",
    ),
    Sample(
        name="anthropic-thinking", fact="thinking_tokens are part of the output",
        source=ANTHROPIC_PY, path="/v1/messages",
        body=message(A | {"output_tokens_details": {"thinking_tokens": 25}},
                     {"type": "thinking", "thinking": "hm", "signature": "s"}, SAYS),
        counts=(20, 40, 3000, 100, 25, None), totals=(3120, 40), model="claude-x",
        finish="end_turn",
    ),
    Sample(
        name="anthropic-tool-use", fact="each tool_use block is a call",
        source="anthropic-sdk-python src/anthropic/types/tool_use_block.py", path="/v1/messages",
        body=message(A, SAYS, USES, USES | {"id": "tv"}, stop="tool_use"),
        counts=(20, 40, 3000, 100, None, None), totals=(3120, 40), model="claude-x",
        finish="tool_use", calls=2,
    ),
    Sample(
        name="anthropic-server-tool", fact="a server's tool is output, not a call to make",
        source="anthropic-sdk-python src/anthropic/types/server_tool_use_block.py",
        path="/v1/messages",
        body=message({"input_tokens": 9, "output_tokens": 3},
                     {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
        counts=(9, 3, None, None, None, None), totals=(9, 3), model="claude-x", finish="end_turn",
    ),
    Sample(
        name="anthropic-refusal", fact="stop_reason refusal is an answer",
        source="docs.claude.com/en/docs/test-and-evaluate/strengthen-guardrails/handle-streaming-refusals",
        path="/v1/messages", body=message({"input_tokens": 9, "output_tokens": 1}, stop="refusal"),
        counts=(9, 1, None, None, None, None), totals=(9, 1), model="claude-x", finish="refusal",
        output=False,
    ),
    Sample(
        name="anthropic-vertex", fact="Vertex relays Anthropic's bodies under rawPredict",
        source="docs.claude.com/en/api/claude-on-vertex-ai",
        path="/v1/projects/p/locations/l/publishers/anthropic/models/claude-x@1:rawPredict",
        body=message(A, SAYS), counts=(20, 40, 3000, 100, None, None), totals=(3120, 40),
        model="claude-x", finish="end_turn",
    ),
    Sample(
        name="anthropic-stream", fact="message_delta's output replaces message_start's 1",
        source=DELTA_PY, path="/v1/messages", type=SSE,
        body=messages(A | {"output_tokens": 1}, block(0, type="text", text=""), text(0, "Yes"),
                      {"type": "ping"}, text(0, "."), {"type": "content_block_stop", "index": 0},
                      end={"output_tokens": 40}),
        counts=(20, 40, 3000, 100, None, None), totals=(3120, 40), model="claude-x",
        finish="end_turn",
    ),
    Sample(
        name="anthropic-stream-repeats", fact="message_delta repeats the input: it is not added",
        source="langchain-ai/langchainjs#10249", path="/v1/messages", type=SSE,
        body=messages(A | {"output_tokens": 1}, text(0, "Yes"), end=A),
        counts=(20, 40, 3000, 100, None, None), totals=(3120, 40), model="claude-x",
        finish="end_turn",
    ),
    Sample(
        name="anthropic-stream-grows", fact="server tools raise input_tokens in message_delta",
        source="docs.claude.com/en/docs/build-with-claude/streaming", path="/v1/messages", type=SSE,
        body=messages(A | {"output_tokens": 1}, text(0, "Yes"), end=A | {"input_tokens": 777}),
        counts=(777, 40, 3000, 100, None, None), totals=(3877, 40), model="claude-x",
        finish="end_turn",
    ),
    Sample(
        name="anthropic-stream-zero", fact="a later explicit 0 replaces an earlier count",
        source="Arize-ai/openinference#3734", path="/v1/messages", type=SSE,
        body=messages(A | {"output_tokens": 1}, text(0, "Yes"),
                      end=A | {"cache_read_input_tokens": 0}),
        counts=(20, 40, 0, 100, None, None), totals=(120, 40), model="claude-x",
        finish="end_turn",
    ),
    Sample(
        name="anthropic-stream-null", fact="a later null leaves the earlier count",
        source=DELTA_PY, path="/v1/messages", type=SSE,
        body=messages(A | {"output_tokens": 1}, text(0, "Yes"),
                      end={"output_tokens": 40, "input_tokens": None}),
        counts=(20, 40, 3000, 100, None, None), totals=(3120, 40), model="claude-x",
        finish="end_turn",
    ),
    Sample(
        name="anthropic-stream-tools", fact="content_block_start tells of a call",
        source="docs.claude.com/en/docs/build-with-claude/streaming", path="/v1/messages", type=SSE,
        body=messages(A | {"output_tokens": 1}, text(0, "Look"), block(1, **USES),
                      {"type": "content_block_delta", "index": 1,
                       "delta": {"type": "input_json_delta", "partial_json": '{"a":'}},
                      block(2, **USES), end={"output_tokens": 40}, stop="tool_use"),
        counts=(20, 40, 3000, 100, None, None), totals=(3120, 40), model="claude-x",
        finish="tool_use", calls=2,
    ),
    Sample(
        name="anthropic-stream-thinking", fact="a thinking delta is output",
        source="docs.claude.com/en/docs/build-with-claude/streaming", path="/v1/messages", type=SSE,
        body=messages({"input_tokens": 5, "output_tokens": 1},
                      {"type": "content_block_delta", "index": 0,
                       "delta": {"type": "thinking_delta", "thinking": "hm"}},
                      end={"output_tokens": 9}, stop="max_tokens"),
        counts=(5, 9, None, None, None, None), totals=(5, 9), model="claude-x",
        finish="max_tokens", content=False,
    ),
)  # fmt: skip

G = {"promptTokenCount": 60, "candidatesTokenCount": 7, "totalTokenCount": 67}
GENERATE = "/v1beta/models/gemini-y:generateContent"
STREAM_GENERATE = "/v1beta/models/gemini-y:streamGenerateContent"

GEMINI_SAMPLES = (
    Sample(
        name="gemini", fact="prompt, candidates and total", source=GENAI_PY, path=GENERATE,
        body=dump(gemini(G, HI)), counts=(60, 7, None, None, None, 67), totals=(60, 7),
        model="gemini-y", finish="STOP",
    ),
    Sample(
        name="gemini-thoughts", fact="thoughts stand beside candidates", source=GENAI_PY,
        path=GENERATE,
        body=dump(gemini(G | {"thoughtsTokenCount": 50, "totalTokenCount": 117}, HI)),
        counts=(60, 7, None, None, 50, 117), totals=(60, 57), model="gemini-y", finish="STOP",
    ),
    Sample(
        name="gemini-cached", fact="the prompt includes the cached part", source=GENAI_PY,
        path=GENERATE, body=dump(gemini(G | {"cachedContentTokenCount": 48}, HI)),
        counts=(60, 7, 48, None, None, 67), totals=(60, 7), model="gemini-y", finish="STOP",
    ),
    Sample(
        name="gemini-tool-prompt", fact="toolUsePromptTokenCount is input beside the prompt",
        source=GENAI_PY, path=GENERATE,
        body=dump(gemini(G | {"toolUsePromptTokenCount": 33, "totalTokenCount": 100}, HI)),
        counts=(60, 7, None, None, None, 100), totals=(93, 7), model="gemini-y", finish="STOP",
    ),
    Sample(
        name="gemini-no-candidates", fact="a count of 0 is left out: thoughts are all output",
        source="protobuf.dev/programming-guides/json", path=GENERATE,
        body=dump(gemini({"promptTokenCount": 6, "thoughtsTokenCount": 30, "totalTokenCount": 36},
                         finish="MAX_TOKENS")),
        counts=(6, None, None, None, 30, 36), totals=(6, 30), model="gemini-y",
        finish="MAX_TOKENS", output=False,
    ),
    Sample(
        name="gemini-safety", fact="a safety stop is an answer without output",
        source="ai.google.dev/api/generate-content#FinishReason", path=GENERATE,
        body=dump({"candidates": [{"finishReason": "SAFETY", "index": 0}],
                   "usageMetadata": {"promptTokenCount": 8, "totalTokenCount": 8},
                   "modelVersion": "gemini-y"}),
        counts=(8, None, None, None, None, 8), totals=(8, None), model="gemini-y", finish="SAFETY",
        output=False,
    ),
    Sample(
        name="gemini-blocked", fact="a blocked prompt has no candidate; the block is its end",
        source="ai.google.dev/api/generate-content#PromptFeedback", path=GENERATE,
        body=dump({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
                   "usageMetadata": {"promptTokenCount": 8, "totalTokenCount": 8},
                   "modelVersion": "gemini-y"}),
        counts=(8, None, None, None, None, 8), totals=(8, None), model="gemini-y",
        finish="PROHIBITED_CONTENT", output=False,
    ),
    Sample(
        name="gemini-calls", fact="each functionCall part is a call",
        source="ai.google.dev/gemini-api/docs/function-calling", path=GENERATE,
        body=dump(gemini(G, {"functionCall": {"name": "f", "args": {}}},
                         {"functionCall": {"name": "g", "args": {}}})),
        counts=(60, 7, None, None, None, 67), totals=(60, 7), model="gemini-y", finish="STOP",
        calls=2,
    ),
    Sample(
        name="gemini-enum-int", fact="$alt=json;enum-encoding=int writes reasons as numbers",
        source="cloud.google.com/apis/docs/system-parameters",
        path="/v1/projects/p/locations/l/publishers/google/models/gemini-y:generateContent",
        body=dump(gemini(G, HI, finish=1)), counts=(60, 7, None, None, None, 67), totals=(60, 7),
        model="gemini-y", finish="1",
    ),
    Sample(
        name="gemini-code-assist", fact="Code Assist wraps the answer in response",
        source="google-gemini/gemini-cli packages/core/src/code_assist/converter.ts",
        path="/v1internal:generateContent", body=dump({"response": gemini(G, HI), "traceId": "x"}),
        counts=(60, 7, None, None, None, 67), totals=(60, 7), model="gemini-y", finish="STOP",
    ),
    Sample(
        name="gemini-sse", fact="each chunk repeats the counts, cumulative: the last stands",
        source="maximhq/bifrost#2438", path=STREAM_GENERATE, type=SSE,
        body=sse(*(gemini({"promptTokenCount": 60, "candidatesTokenCount": n}, HI, finish=None)
                   for n in (1, 3, 5)), gemini(G, {"text": ""}), done=False, end=b"\r\n"),
        counts=(60, 7, None, None, None, 67), totals=(60, 7), model="gemini-y", finish="STOP",
    ),
    Sample(
        name="gemini-array", fact="without alt=sse a stream is one JSON array",
        source="ai.google.dev/api/generate-content#method:-models.streamgeneratecontent",
        path=STREAM_GENERATE,
        body=b"[" + b",\r\n".join(json.dumps(g, indent=2).encode() for g in (
            gemini({"promptTokenCount": 60}, {"text": 'a "[{" b'}, finish=None),
            gemini(G, {"text": "c\\"}))) + b"\n]",
        counts=(60, 7, None, None, None, 67), totals=(60, 7), model="gemini-y", finish="STOP",
    ),
    Sample(
        name="gemini-sse-calls", fact="calls arrive whole, over several chunks",
        source="ai.google.dev/gemini-api/docs/function-calling", path=STREAM_GENERATE, type=SSE,
        body=sse(gemini({"promptTokenCount": 60}, HI, finish=None),
                 gemini(G, {"functionCall": {"name": "f"}}, finish=None),
                 gemini(G, {"functionCall": {"name": "g"}}), done=False),
        counts=(60, 7, None, None, None, 67), totals=(60, 7), model="gemini-y", finish="STOP",
        calls=2,
    ),
    Sample(
        name="gemini-traffic-only", fact="Vertex may state no count at all",
        source=GENAI_PY, path=GENERATE,
        body=dump(gemini({"trafficType": "ON_DEMAND"}, HI)), model="gemini-y", finish="STOP",
        usage_from="absent",
    ),
    Sample(
        name="gemini-embed", fact="newer embeddings state promptTokenCount",
        source="ai.google.dev/api/embeddings", path="/v1beta/models/e:batchEmbedContents",
        body=dump({"embeddings": [{"values": [0.1]}], "usageMetadata": {"promptTokenCount": 5}}),
        counts=(5, None, None, None, None, None), totals=(5, None),
    ),
)  # fmt: skip

C = {"billed_units": {"input_tokens": 9.0, "output_tokens": 4.0},
     "tokens": {"input_tokens": 504.0, "output_tokens": 6.0}, "cached_tokens": 448.0}  # fmt: skip

COHERE_SAMPLES = (
    Sample(
        name="cohere-v2", fact="tokens, not billed_units; numbers are floats", source=COHERE_PY,
        path="/v2/chat",
        body=dump({"id": "c", "finish_reason": "COMPLETE", "usage": C,
                   "message": {"role": "assistant", "content": [{"type": "text", "text": "Yes"}]}}),
        counts=(504, 6, 448, None, None, None), totals=(504, 6), finish="COMPLETE",
    ),
    Sample(
        name="cohere-v2-tools", fact="message.tool_calls are the calls",
        source="docs.cohere.com/v2/docs/tool-use", path="/v2/chat",
        body=dump({"id": "c", "finish_reason": "TOOL_CALL", "usage": C,
                   "message": {"role": "assistant", "tool_plan": "look",
                               "tool_calls": [{"id": "1", "function": {"name": "f"}}]}}),
        counts=(504, 6, 448, None, None, None), totals=(504, 6), finish="TOOL_CALL", calls=1,
    ),
    Sample(
        name="cohere-v1", fact="v1 states usage in meta",
        source="cohere-python src/cohere/types/api_meta.py", path="/v1/chat",
        body=dump({"text": "Yes", "generation_id": "g", "finish_reason": "COMPLETE",
                   "meta": C | {"api_version": {"version": "1"}}}),
        counts=(504, 6, 448, None, None, None), totals=(504, 6), finish="COMPLETE",
    ),
    Sample(
        name="cohere-v2-stream", fact="message-end has the usage and the finish reason",
        source="cohere-python src/cohere/types/chat_message_end_event_delta.py", path="/v2/chat",
        type=SSE,
        body=named({"type": "message-start", "delta": {"message": {"role": "assistant"}}},
                   {"type": "content-delta", "delta": {"message": {"content": {"text": "Yes"}}}},
                   {"type": "tool-call-start", "index": 0,
                    "delta": {"message": {"tool_calls": {"id": "t"}}}},
                   {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": C | {
                       "tokens": {"input_tokens": 504, "output_tokens": 6,
                                  "reasoning_tokens": 2}}}}) + b"data: [DONE]\n\n",
        counts=(504, 6, 448, None, 2, None), totals=(504, 6), finish="COMPLETE", calls=1,
    ),
    Sample(
        name="cohere-v1-stream", fact="v1 streams one JSON a line, stream-end has the meta",
        source="docs.cohere.com/v1/reference/chat-stream", path="/v1/chat",
        type="application/stream+json",
        body=lines({"event_type": "stream-start", "generation_id": "g"},
                   {"event_type": "text-generation", "text": "Yes"},
                   {"event_type": "stream-end", "finish_reason": "COMPLETE",
                    "response": {"text": "Yes", "meta": C}}),
        counts=(504, 6, 448, None, None, None), totals=(504, 6), finish="COMPLETE",
    ),
    Sample(
        name="cohere-embed", fact="embeddings state billed_units only",
        source="docs.cohere.com/reference/embed", path="/v2/embed",
        body=dump({"embeddings": {"float": [[0.1]]},
                   "meta": {"billed_units": {"input_tokens": 7}}}),
        counts=(7, None, None, None, None, None), totals=(7, None),
    ),
    Sample(
        name="cohere-rerank", fact="rerank bills search units, no tokens",
        source="docs.cohere.com/reference/rerank", path="/v2/rerank",
        body=dump({"results": [{"index": 0}], "meta": {"billed_units": {"search_units": 1}}}),
        usage_from="absent",
    ),
)  # fmt: skip

OLLAMA_SAMPLES = (
    Sample(
        name="ollama-chat", fact="counts stand at the top; durations are nanoseconds",
        source=OLLAMA_GO, path="/api/chat",
        body=dump({"model": "q", "message": {"role": "assistant", "content": "Yes"}, "done": True,
                   "done_reason": "stop", "total_duration": 4883583458, "prompt_eval_count": 26,
                   "eval_count": 298}),
        counts=(26, 298, None, None, None, None), totals=(26, 298), model="q", finish="stop",
    ),
    Sample(
        name="ollama-generate", fact="generate says its text in response", source=OLLAMA_GO,
        path="/api/generate",
        body=dump({"model": "q", "response": "Yes", "done": True, "done_reason": "length",
                   "prompt_eval_count": 3, "eval_count": 4}),
        counts=(3, 4, None, None, None, None), totals=(3, 4), model="q", finish="length",
    ),
    Sample(
        name="ollama-omitted", fact="prompt_eval_count is left out when the prompt was cached",
        source=OLLAMA_GO, path="/api/chat",
        body=dump({"model": "q", "message": {"content": "Yes"}, "done": True,
                   "done_reason": "stop", "eval_count": 4}),
        counts=(None, 4, None, None, None, None), totals=(None, 4), model="q", finish="stop",
    ),
    Sample(
        name="ollama-stream", fact="one JSON a line, counts on the last", source=OLLAMA_GO,
        path="/api/chat", type=NDJSON,
        body=lines(*({"model": "q", "message": {"content": w}, "done": False} for w in "abc"),
                   {"model": "q", "message": {"content": "", "tool_calls": [
                       {"function": {"name": "f"}}]}, "done": False},
                   {"model": "q", "message": {"content": ""}, "done": True, "done_reason": "stop",
                    "prompt_eval_count": 26, "eval_count": 9}),
        counts=(26, 9, None, None, None, None), totals=(26, 9), model="q", finish="stop", calls=1,
    ),
    Sample(
        name="ollama-embed", fact="embeddings state prompt_eval_count", source=OLLAMA_GO,
        path="/api/embed", body=dump({"model": "q", "embeddings": [[0.1]], "prompt_eval_count": 8}),
        counts=(8, None, None, None, None, None), totals=(8, None), model="q",
    ),
)  # fmt: skip

B = {"inputTokens": 10, "outputTokens": 4, "totalTokens": 7314,
     "cacheReadInputTokens": 7300, "cacheWriteInputTokens": 0}  # fmt: skip
METRICS = {"inputTokenCount": 15, "outputTokenCount": 6, "invocationLatency": 80}
CONVERSE = "/model/us.amazon.nova-x-v1%3A0/converse"
INVOKE = "/model/meta.llama-x/invoke"
INVOKE_STREAM = "/model/meta.llama-x/invoke-with-response-stream"
BEDROCK_DOCS = "docs.aws.amazon.com/bedrock/latest/userguide/model-parameters"

BEDROCK_SAMPLES = (
    Sample(
        name="converse", fact="inputTokens leaves cache reads and writes out", source=BOTOCORE,
        path=CONVERSE,
        body=dump({"output": {"message": {"role": "assistant", "content": [{"text": "Yes"}]}},
                   "stopReason": "end_turn", "usage": B, "metrics": {"latencyMs": 90}}),
        counts=(10, 4, 7300, 0, None, 7314), totals=(7310, 4), finish="end_turn",
    ),
    Sample(
        name="converse-tool", fact="a toolUse block is a call", source=BOTOCORE, path=CONVERSE,
        body=dump({"output": {"message": {"content": [{"text": "Look"}, {"toolUse": {
            "toolUseId": "t", "name": "f", "input": {}}}]}}, "stopReason": "tool_use",
            "usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}}),
        counts=(1, 2, None, None, None, 3), totals=(1, 2), finish="tool_use", calls=1,
    ),
    Sample(
        name="converse-stream", fact="the metadata event has the usage and is the last",
        source=BOTOCORE, path=CONVERSE + "-stream", type=EVENTS,
        body=event("messageStart", {"role": "assistant"})
        + event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Yes"}})
        + event("contentBlockStart", {"contentBlockIndex": 1, "start": {
            "toolUse": {"toolUseId": "t", "name": "f"}}})
        + event("contentBlockDelta", {"contentBlockIndex": 1,
                                      "delta": {"toolUse": {"input": "{}"}}})
        + event("messageStop", {"stopReason": "tool_use"})
        + event("metadata", {"usage": B, "metrics": {"latencyMs": 1}}),
        counts=(10, 4, 7300, 0, None, 7314), totals=(7310, 4), finish="tool_use", calls=1,
    ),
    Sample(
        name="invoke-anthropic", fact="InvokeModel answers in the family's own body",
        source=BEDROCK_DOCS + "-anthropic-claude-messages", path="/model/anthropic.claude-x/invoke",
        body=message(A, SAYS, USES, stop="tool_use"),
        headers={"x-amzn-bedrock-input-token-count": "20"},
        counts=(20, 40, 3000, 100, None, None), totals=(3120, 40), model="claude-x",
        finish="tool_use", calls=1,
    ),
    Sample(
        name="invoke-titan", fact="Titan counts input at the top and output in its result",
        source=BEDROCK_DOCS + "-titan-text", path="/model/amazon.titan-x/invoke",
        body=dump({"inputTextTokenCount": 5, "results": [
            {"tokenCount": 9, "outputText": "Yes", "completionReason": "FINISH"}]}),
        counts=(5, 9, None, None, None, None), totals=(5, 9), finish="FINISH",
    ),
    Sample(
        name="invoke-llama", fact="Llama counts prompt and generation", path=INVOKE,
        source=BEDROCK_DOCS + "-meta",
        body=dump({"generation": "Yes", "prompt_token_count": 15, "generation_token_count": 6,
                   "stop_reason": "stop"}),
        counts=(15, 6, None, None, None, None), totals=(15, 6), finish="stop",
    ),
    Sample(
        name="invoke-mistral-headers", fact="a body without counts: the headers have them",
        source=BEDROCK_DOCS + "-mistral-text-completion", path="/model/mistral.m/invoke",
        body=dump({"outputs": [{"text": "Yes", "stop_reason": "stop"}]}),
        headers={"x-amzn-bedrock-input-token-count": "15",
                 "x-amzn-bedrock-output-token-count": "6"},
        counts=(15, 6, None, None, None, None), totals=(15, 6), finish="stop", usage_from="header",
    ),
    Sample(
        name="invoke-half-headers", fact="each side is filled by itself",
        source="Instawork/llm-proxy internal/providers/bedrock.go",
        path="/model/amazon.nova-x/invoke",
        body=dump({"output": {"message": {"content": [{"text": "Yes"}]}},
                   "stopReason": "end_turn", "usage": {"inputTokens": 15}}),
        headers={"x-amzn-bedrock-input-token-count": "15",
                 "x-amzn-bedrock-output-token-count": "6",
                 "x-amzn-bedrock-cache-read-input-token-count": "0"},
        counts=(15, 6, 0, None, None, None), totals=(15, 6), finish="end_turn",
    ),
    Sample(
        name="invoke-stream-llama", fact="the last chunk has invocationMetrics for every family",
        source=BOTOCORE, path=INVOKE_STREAM, type=EVENTS,
        body=chunk({"generation": "Yes", "prompt_token_count": 15, "generation_token_count": 1,
                    "stop_reason": None})
        + chunk({"generation": "", "generation_token_count": 6, "stop_reason": "stop",
                 "amazon-bedrock-invocationMetrics": METRICS}),
        counts=(15, 6, None, None, None, None), totals=(15, 6), finish="stop",
    ),
    Sample(
        name="invoke-stream-anthropic", fact="chunks hold Anthropic's events in base64",
        source=BOTOCORE, path="/model/anthropic.claude-x/invoke-with-response-stream", type=EVENTS,
        body=chunk({"type": "message_start", "message": {"model": "claude-x", "usage": A | {
            "output_tokens": 1}}})
        + chunk(block(0, type="text", text="")) + chunk(text(0, "Yes"))
        + chunk(block(1, **USES))
        + chunk({"type": "message_delta", "delta": {"stop_reason": "tool_use"},
                 "usage": {"output_tokens": 40}})
        + chunk({"type": "message_stop", "amazon-bedrock-invocationMetrics": {
            "inputTokenCount": 20, "outputTokenCount": 40}}),
        counts=(20, 40, 3000, 100, None, None), totals=(3120, 40), model="claude-x",
        finish="tool_use", calls=1,
    ),
    Sample(
        name="invoke-stream-nova", fact="Nova streams Converse's events as keys of an object",
        source="docs.aws.amazon.com/nova/latest/userguide/using-invoke-api.html",
        path="/model/amazon.nova-x/invoke-with-response-stream", type=EVENTS,
        body=chunk({"messageStart": {"role": "assistant"}})
        + chunk({"contentBlockDelta": {"delta": {"text": "Yes"}, "contentBlockIndex": 0}})
        + chunk({"messageStop": {"stopReason": "max_tokens"}})
        + chunk({"metadata": {"usage": {"inputTokens": 5, "outputTokens": 9}},
                 "amazon-bedrock-invocationMetrics": METRICS}),
        counts=(15, 6, None, None, None, None), totals=(15, 6), finish="max_tokens",
    ),
)  # fmt: skip

OTHER_SAMPLES = (
    Sample(
        name="litellm-headers", fact="a gateway states total tokens and cost in headers",
        source="litellm/proxy/pass_through_endpoints/upstream_usage_headers.py", path=CHAT,
        body=chat(None),
        headers={"x-litellm-total-tokens": "44", "x-litellm-response-cost": "0.5"},
        counts=(None, None, None, None, None, 44), model="m-1", finish="stop", cost=0.5,
        usage_from="header",
    ),
)  # fmt: skip

SAMPLES = (
    *OPENAI_SAMPLES, *OPENAI_STREAMS, *RESPONSES_SAMPLES, *ANTHROPIC_SAMPLES, *GEMINI_SAMPLES,
    *COHERE_SAMPLES, *OLLAMA_SAMPLES, *BEDROCK_SAMPLES, *OTHER_SAMPLES,
)  # fmt: skip
