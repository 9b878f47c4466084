"""OpenAI's dialects: chat and legacy completions, Responses, realtime, embeddings and images.

Compatible APIs are read alike. No provider is named: they differ by the fields that are present.
"""

from __future__ import annotations

import re
from dataclasses import replace

from proxy.wire import usage
from proxy.wire.dialect import (
    FAILURE,
    FIELDS,
    Dialect,
    Payload,
    ResponseFacts,
    joined,
    model_name,
    name,
    part,
    parts,
    take_serving,
    take_tier,
)

# Once output was seen: counts, an error, a finish reason, or a tool call's name.
# "message" is how an error field without an error object says it (llama.cpp, vLLM); the other keys
# are those of `FAILURE`.
_CHAT_RELEVANT = re.compile(
    rb'"(?=[abdeEfmMntux])'  # at which most quotes fail: half the time of a search
    rb"(?:(?:usage|[eE]rr\w{0,12}|x_groq|timings|base_resp|[mM]essage|msg|detail|fault\w{0,8}"
    rb')"'
    rb"(?:: ?[^n ]|\s+:)"
    rb'|(?:finish_reason|name)"(?:: ?"[^"]|\s+:)|annotations"\s*:\s*\[\s*\{)'
)
# The same, and the first text, while there was only reasoning.
_CHAT_AFTER_REASONING = re.compile(
    _CHAT_RELEVANT.pattern.replace(b"[abdeEfmMntux]", b"[abcdeEfmMnrtux]")
    + rb'|"(?:content|refusal|text)"\s*:\s*(?:"[^"]|\[)|"(?:audio|images)"'
)
_REASONING = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
_THOUGHTS = frozenset(("thinking", "redacted_thinking", "reasoning"))  # parts of a content list
_CALLED = frozenset(("tool_calls", "function_call"))
# platform.openai.com/docs/guides/tools-web-search: citations of a search model's answer;
# console.groq.com/docs/compound: the tools that ran.
_SEARCHED = frozenset(("annotations", "executed_tools"))
_DONE = _CALLED | _SEARCHED
_SELDOM_COUNTED = usage.COSTS | usage.TOOLS | {"cache_creation_input_tokens"}


def _read_chat(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    choices = payload.get("choices")
    if isinstance(choices, list):
        reading.understood = reading.has_part = True
        for choice in choices:
            if isinstance(choice, dict):
                _choice(reading, choice)
    if reading.model is None:
        reading.model = model_name(payload.get("model"))
    if reading.response_id is None:  # `take_id`, in place: most answers come here
        stated = payload.get("id")
        if type(stated) is str and stated:
            reading.response_id = stated
    if not FIELDS.isdisjoint(payload):
        take_serving(reading, payload)
    take_usage(reading, payload)


def take_usage(reading: ResponseFacts, payload: Payload) -> None:
    """Take the counts from wherever an OpenAI-compatible payload states them."""
    counts = payload.get("usage")
    if isinstance(counts, dict):
        usage.take(reading, usage.OPENAI, counts)
        if not _SELDOM_COUNTED.isdisjoint(counts):
            _mould(reading, counts)
            usage.cost(reading, counts)
            usage.tools(reading, counts)
    elif "x_groq" in payload:  # console.groq.com/docs: the last chunk of a stream
        usage.take(reading, usage.OPENAI, part(payload["x_groq"]).get("usage"))
    elif "timings" in payload:
        _timings(reading, part(payload["timings"]))


def _choice(reading: ResponseFacts, choice: Payload) -> None:
    reading.take_finish_reason(choice.get("finish_reason"))
    delta, message = choice.get("delta"), choice.get("message")  # Perplexity, Writer: both
    if isinstance(delta, dict):
        _message(reading, delta, choice)
    if isinstance(message, dict):
        _message(reading, message, choice)
    if "text" in choice:
        if delta is None and message is None and not reading.output:
            reading.understood = False  # by a client of chats: `COMPLETIONS` reads it
        reading.note_content(choice["text"])
    if not reading.content and choice.get("logprobs"):
        _logprobs(reading, choice["logprobs"])
    if "usage" in choice:  # Moonshot's streams state it in the choice
        usage.take(reading, usage.OPENAI, choice["usage"])


def _logprobs(reading: ResponseFacts, logprobs: object) -> None:
    """Note a score of each token, of an answer without a text: trainers ask for nothing else."""
    reading.note_items(*part(logprobs).values())


def _message(reading: ResponseFacts, message: Payload, choice: Payload) -> None:
    if not reading.content:
        _note_output(reading, message)
    if not _DONE.isdisjoint(message):
        _chat_calls(reading, message, choice.get("index"))
        reading.note_paid_tools(any(map(message.get, _SEARCHED)))


def _note_output(reading: ResponseFacts, message: Payload) -> None:
    content = message.get("content")
    if content:
        if isinstance(content, str):
            reading.output = reading.content = True
            reading.text = content
            return
        if isinstance(content, list):
            _content_parts(reading, content)
    if reading.content:
        return
    reading.note_content(message.get("refusal"))
    # openrouter.ai/docs/features/multimodal/image-generation: images
    reading.note_items(message.get("audio"), message.get("images"))
    reading.note_items(*parts(message.get("tool_calls")), message.get("function_call"))
    for key in _REASONING:
        reading.note_reasoning(message.get(key))


def _content_parts(reading: ResponseFacts, content: list[object]) -> None:
    """Note a content list, in which Mistral has its thinking too (docs.mistral.ai, reasoning)."""
    reading.output = True
    thoughts = sum(name(piece.get("type")) in _THOUGHTS for piece in parts(content))
    reading.content |= thoughts < len(content)


def _chat_calls(reading: ResponseFacts, message: Payload, choice: object) -> None:
    """Count the calls that start here: only a call's first delta names a function."""
    for place, call in enumerate(parts(message.get("tool_calls"))):
        if part(call.get("function") or call.get("custom")).get("name"):
            reading.add_tool_call(_call_key(reading, call, choice, place))
    if part(message.get("function_call")).get("name"):  # before tools: one call an answer
        reading.add_tool_call((name(choice), "function_call"))


def _call_key(reading: ResponseFacts, call: Payload, choice: object, place: int) -> object:
    """Return one key per call: servers repeat the name in each delta, or index all calls 0."""
    bare = (name(choice), name(call.get("index", place)))
    own = name(call.get("id"))
    if own is None:
        same = (key for key in reading.calls if isinstance(key, tuple) and key[:2] == bare)
        return next(same, (*bare, None))
    return (*bare, own)


def _mould(reading: ResponseFacts, counts: Payload) -> None:
    if reading.cache_write_tokens is None and counts.get("cache_creation_input_tokens"):
        usage.take(reading, usage.MOULD, counts)


def _timings(reading: ResponseFacts, timings: Payload) -> None:
    """Take llama.cpp's timings where usage is absent: prompt, cached and predicted tokens.

    tools/server/README.md: the context is ``cache_n + prompt_n + predicted_n``. They are
    parts and no provider's totals, so they fill the normalised ones only.
    """
    read = ResponseFacts()
    usage.take(read, usage.TIMINGS, timings)
    if read.unreadable:
        reading.unreadable |= read.unreadable
        return
    if read.input_tokens is not None:
        reading.input_total = read.input_tokens + (read.cached_input_tokens or 0)
    reading.output_total = read.output_tokens


def _chat_text(payload: Payload, event: str | None) -> str:
    for choice in parts(payload.get("choices")):
        if not choice.get("index"):
            message = choice.get("delta") or choice.get("message") or choice
            return joined(part(message).get("content") or choice.get("text"))
    return ""


CHAT: Dialect = Dialect(
    name="openai.chat",
    read=_read_chat,
    totals=usage.inclusive,
    relevant=_CHAT_RELEVANT,
    relevant_reasoning=_CHAT_AFTER_REASONING,
    done=b"[DONE]",
    shape_keys=frozenset(("choices",)),
    text=_chat_text,
)


# --- legacy completions ------------------------------------------------------------------------
# A text in each choice. Their path is also one of chats (Mistral's /fim/completions).


def speaks(choice: Payload) -> bool:
    """Return True if a choice has what a chat's has."""
    return choice.get("message") is not None or choice.get("delta") is not None


def _read_completion(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    _read_chat(reading, payload, event)
    reading.understood |= isinstance(payload.get("choices"), list)


COMPLETIONS: Dialect = replace(CHAT, read=_read_completion)


# --- Responses API, whole or as named events ---------------------------------------------------
# Counts come from the last snapshot: earlier ones have ``usage: null``.


# openai-python: types/responses/response_stream_event.py
_RESPONSES_ENDS = frozenset(("response.completed", "response.incomplete", "response.failed"))
_RESPONSES_KEYS = (
    rb'"(?=[bdeEfkmMr])(?:(?:response\.(?:completed|incomplete|failed|output_item\.added|output_item\.done)'
    rb'|error|keepalive)"|'  # which is no content, though there is nothing in it to be read
    + FAILURE
)
_RESPONSES_RELEVANT = re.compile(_RESPONSES_KEYS + rb")")
_RESPONSES_AFTER_REASONING = re.compile(
    _RESPONSES_KEYS + rb'|response\.(?!reasoning)[a-z_.]+\.delta")'
)
# developers.openai.com/api/docs/guides/background: until then `GET /responses/{id}` is repeated
_UNFINISHED = frozenset(("queued", "in_progress"))
# Items that ask the agent to do something; a web search or an MCP call was done already.
_CALLS = frozenset(("function_call", "custom_tool_call", "computer_call", "local_shell_call",
                    "shell_call", "apply_patch_call"))  # fmt: skip
# platform.openai.com/docs/pricing, built-in tools.
_PAID = frozenset(("web_search_call", "file_search_call", "code_interpreter_call",
                   "image_generation_call"))  # fmt: skip
# What else a model leaves: a question for leave, what a conversation was made shorter to.
_ITEMS = frozenset(("mcp_approval_request", "compaction", "compaction_summary"))
_SAYS_NOTHING = frozenset(("reasoning", "message"))  # an item of this type may be empty


def _read_responses(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    kind = payload.get("type")
    kind = kind if isinstance(kind, str) else event
    response = payload.get("response")
    if isinstance(response, dict):
        _snapshot(reading, response)
    elif payload.get("object") == "response" or isinstance(payload.get("output"), list):
        _snapshot(reading, payload)
    elif kind is not None and kind.startswith("response."):
        _responses_event(reading, payload, kind)
    if kind in _RESPONSES_ENDS:
        reading.ended = True
        if reading.finish_reason is None:
            reading.take_finish_reason(kind.removeprefix("response."))


def _responses_event(reading: ResponseFacts, payload: Payload, kind: str) -> None:
    reading.understood = True
    if kind.startswith("response.reasoning"):
        reading.note_reasoning(payload.get("delta"))
    elif kind.endswith(".delta"):
        reading.note_content(payload.get("delta"))
    elif kind.startswith("response.output_item."):
        _responses_item(reading, part(payload.get("item")))


def _snapshot(reading: ResponseFacts, response: Payload) -> None:
    reading.understood = True
    reading.has_part |= isinstance(response.get("output"), list)
    reading.take_model(response.get("model"))
    usage.take(reading, usage.OPENAI, response.get("usage"))
    usage.cost(reading, response.get("usage"))
    take_tier(reading, response.get("service_tier"))
    for item in parts(response.get("output")):
        _responses_item(reading, item)
    reading.response_id = name(response.get("id")) or reading.response_id
    status = name(response.get("status"))
    if status in _UNFINISHED:
        reading.pending = True
    elif status is not None:
        reading.pending = False
        why = name(part(response.get("incomplete_details")).get("reason"))
        reading.take_finish_reason(f"{status}:{why}" if why else status)
    elif reading.pending is None:
        reading.pending = False


def _responses_item(reading: ResponseFacts, item: Payload) -> None:
    kind = item.get("type")
    if not isinstance(kind, str):
        return
    if kind in _CALLS:
        # added, done and the last snapshot report the same call; gateways leave ids out
        reading.add_tool_call(name(item.get("call_id")) or name(item.get("id")) or kind)
    elif kind.endswith("_call") or kind in _ITEMS:
        reading.output = reading.content = True
        reading.note_paid_tools(kind in _PAID)
    note = reading.note_reasoning if kind == "reasoning" else reading.note_content
    for key in ("content", "summary"):
        for piece in parts(item.get(key)):
            note(piece.get("text") or piece.get("refusal"))
    if item.get("encrypted_content") and kind in _SAYS_NOTHING:
        reading.output = True


def _responses_text(payload: Payload, event: str | None) -> str:
    # of a whole response, or of a delta: what else a stream has repeats it
    kind = payload.get("type") or event
    if kind == "response.output_text.delta":
        return joined(payload.get("delta"))
    items = [item for item in parts(payload.get("output")) if item.get("type") == "message"]
    return "".join([joined(item.get("content")) for item in items])


RESPONSES: Dialect = Dialect(
    name="openai.responses",
    read=_read_responses,
    totals=usage.inclusive,
    relevant=_RESPONSES_RELEVANT,
    relevant_reasoning=_RESPONSES_AFTER_REASONING,
    shape_keys=frozenset(("output",)),
    text=_responses_text,
)


# --- realtime API: one response among the events of a WebSocket --------------------------------
# Counts are taken from `response.done` only.


# openai-python: types/realtime/realtime_server_event.py
_REALTIME_RELEVANT = re.compile(
    rb'"(?:response\.(?:done|output_item\.added|output_item\.done)|error)"'
)
_TEXT_DELTAS = ("response.output_text.delta", "response.text.delta")
_AUDIO = frozenset(("audio", "output_audio"))
# openai-python: types/realtime/realtime_response_usage.py and its two details, which are
# singular here: input_token_details. Cached tokens are among the input's.
_REALTIME_USAGE = usage.table(
    usage.row("input_tokens", "input_tokens"),
    usage.row("output_tokens", "output_tokens"),
    usage.row("total_tokens", "total_tokens"),
    usage.row("cached_input_tokens", "input_token_details.cached_tokens"),
    usage.row("reasoning_tokens", "output_token_details.reasoning_tokens"),
)


def _read_realtime(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    kind = payload.get("type")
    if not isinstance(kind, str) or not kind.startswith("response."):
        return
    reading.understood = True
    if kind == "response.done":
        _realtime_done(reading, part(payload.get("response")))
    elif kind.startswith("response.output_item."):
        _realtime_item(reading, part(payload.get("item")))
    elif kind.endswith(".delta"):
        reading.note_content(payload.get("delta"))


def _realtime_done(reading: ResponseFacts, response: Payload) -> None:
    reading.ended = True
    reading.take_id(response.get("id"))
    usage.take(reading, _REALTIME_USAGE, response.get("usage"))
    reading.has_part |= isinstance(response.get("output"), list)
    for item in parts(response.get("output")):
        _realtime_item(reading, item)
    status = name(response.get("status"))
    why = name(part(response.get("status_details")).get("reason"))
    reading.take_finish_reason(f"{status}:{why}" if why else status)


def _realtime_item(reading: ResponseFacts, item: Payload) -> None:
    if item.get("type") == "function_call":
        # added, done and response.done report the same call
        reading.add_tool_call(name(item.get("call_id")) or name(item.get("id")) or "function_call")
    for piece in parts(item.get("content")):
        reading.note_content(piece.get("text") or piece.get("transcript"))
        if piece.get("type") in _AUDIO:
            reading.output = reading.content = True


def _realtime_text(payload: Payload, event: str | None) -> str:
    return joined(payload.get("delta")) if payload.get("type") in _TEXT_DELTAS else ""


REALTIME: Dialect = Dialect(
    name="openai.realtime",
    read=_read_realtime,
    totals=usage.inclusive,
    relevant=_REALTIME_RELEVANT,
    text=_realtime_text,
)


# --- embeddings, images and the like -----------------------------------------------------------
# One JSON body with a list and its counts.


def _read_lists(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    if isinstance(payload.get("data"), list):
        reading.understood = reading.has_part = True
        reading.note_content(payload["data"])
    reading.take_model(payload.get("model"))
    reading.take_id(payload.get("id"))
    usage.take(reading, usage.OPENAI, payload.get("usage"))
    usage.cost(reading, payload.get("usage"))


LISTS: Dialect = Dialect(name="openai.lists", read=_read_lists, totals=usage.inclusive)
