"""Read the messages of a request, whatever its dialect: which they are, and samples of them.

A look costs the same however long the messages are. Samples hold texts: the caller digests them
at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from proxy.wire.dialect import Payload, part, parts

# Where messages stand: OpenAI chat, Anthropic, Converse, Ollama, Cohere; Responses and Gemini's
# Interactions, whose input may be one content; Gemini; legacy completions and Ollama's generate,
# whose prompt is one message.
_LISTS: Final = ("messages", "input", "contents", "prompt")
WRAPPER: Final = "request"  # Code Assist wraps the whole request (gemini-cli)
# What a model is told before the first message, and the tools it is offered.
_SYSTEM: Final = frozenset((
    "system", "instructions", "systemInstruction", "system_instruction", "preamble",
))  # fmt: skip
_TOOLS: Final = ("tools", "functions", "toolConfig")
OPENING: Final = frozenset((*_SYSTEM, *_TOOLS))
# Keys under which a message or a part of one has its text, or what leads there. Left out is what
# agents move or make anew with each request: cache_control, ids.
_TEXTUAL: Final = frozenset((
    "text", "content", "parts", "arguments", "output", "input", "function", "refusal", "message",
    "functionCall", "functionResponse", "args", "response", "toolUse", "toolResult", "json",
    "function_call", "functionDeclarations", "toolSpec", "name",
))  # fmt: skip
_LEVELS: Final = 8
_SPREAD: Final = 6  # 64 to 127 characters all over a longer text are sampled
_END: Final = 48  # characters at its end, lest a text that repeats itself hides what is new in it
_KEYS: Final = 64  # of an object that is followed down; of a larger one only their number

# What may be counted otherwise the next time: reasoning that is dropped, images that are scaled,
# what a server looks up by itself.
_CHANGING: Final = frozenset((
    "reasoning_content", "reasoning", "reasoning_details", "reasoningContent", "thinking",
    "thought", "thoughtSignature", "thought_signature", "signature", "data", "summary",
    "encrypted_content", "image", "images", "image_url", "audio", "input_audio", "video",
    "document", "documents", "file", "file_id", "file_data", "source", "inlineData",
    "inline_data", "fileData", "executableCode", "codeExecutionResult", "action", "uri",
))  # fmt: skip
_PLAIN_TYPES: Final = (
    "message", "function_call", "function_call_output", "custom_tool_call",
    "custom_tool_call_output", "additional_tools", "user_input", "model_output", "function_result",
    "text", None,
)  # fmt: skip
_PARTS: Final = 64  # of one message; one with more is not looked through
# Fields with which a server changes the conversation, or has a part of it already.
_EDITED: Final = frozenset((
    "previous_response_id", "previous_interaction_id", "continuation_token", "conversation",
    "context_management", "truncation", "cachedContent", "cached_content", "transforms", "plugins",
    "context",
))  # fmt: skip
# With an earlier part of it.
HELD: Final = frozenset(("previous_response_id", "previous_interaction_id", "conversation"))
_UNEDITED: Final[tuple[object, ...]] = (
    None,
    False,
    "",
    "disabled",
    [],
)  # what such a field says where it does nothing
_BEFORE_ANSWERS: Final = (None, "user", "system", "developer")
# Types of what a person says: Responses' messages, Interactions' steps and their content.
_ASKING: Final = (None, "message", "user_input", "text", "image", "audio", "document", "video")


def messages_of(payload: Payload) -> Sequence[object] | None:
    """Return the messages of a JSON request, in order; None if it has none."""
    for key in _LISTS:
        if key in payload:
            value = payload[key]
            if isinstance(value, list):
                return value or None
            alone = isinstance(value, str) or (key == "input" and isinstance(value, dict))
            return (value,) if alone else None
    if "message" in payload:  # Cohere v1
        earlier = payload.get("chat_history")
        return (*(earlier if isinstance(earlier, list) else ()), payload["message"])
    return None


def unwrapped(payload: Payload) -> Payload:
    """Return the request that has the messages: a wrapped one, or the payload itself."""
    if WRAPPER in payload and "contents" in (inner := part(payload[WRAPPER])):
        return inner
    return payload


def opening(payload: Payload) -> Hashable:
    """Sample a request's instructions and tools: the last of each, and how many tools there are.

    Claude Code's first instructions are about the request, and differ in each.
    """
    if OPENING.isdisjoint(payload):
        return None
    system = _SYSTEM.intersection(payload)
    head = sample(payload[min(system)]) if system else None
    tools = _tools(payload)
    return (head, len(tools), sample(tools[-1])) if tools else head


def sample(message: object) -> Hashable:
    """Sample a message, or whatever holds a text: its length, its end, characters all over it.

    Of several parts the last one is sampled. A text has the same sample whether it stands by
    itself or as a part of a list; keys that agents move or make anew don't matter.
    """
    text = message
    if type(text) is dict:
        text = text.get("content") or text.get("result") or text
    if type(text) is list and text:
        text = text[-1]
    if type(text) is dict:
        text = text.get("text") or text.get("content") or text
    if type(text) is not str:
        text = _leaf(text)
        if type(text) is not str:
            return text if isinstance(text, int | float) else None
    size = len(text)
    return size, text[:: (size >> _SPREAD) + 1], text[-_END:]


def _leaf(value: object) -> object:
    """Go down to a text, a number or nothing."""
    for _ in range(_LEVELS):
        if isinstance(value, dict) and 0 < len(value) <= _KEYS:
            value = value[min(_TEXTUAL.intersection(value) or value)]
        elif isinstance(value, list) and value:
            value = value[-1]
        else:
            return value
    return None


def is_edited(payload: Payload) -> bool:
    """Return True if the server changes the conversation of a request or holds a part of it."""
    if _EDITED.isdisjoint(payload):
        return isinstance(payload.get("prompt"), dict)  # a template of the server's
    edits = [payload[key] for key in _EDITED.intersection(payload)]
    return any(each not in _UNEDITED and not _clears_thinking(each) for each in edits)


def goes_on(payload: Payload) -> bool:
    """Return True if the server holds what came before the request's messages."""
    return any(payload[key] for key in HELD.intersection(payload))


def _clears_thinking(edits: object) -> bool:
    """Return True if only thinking may be cleared, of which a plain conversation has none.

    Claude Code always asks for that (platform.claude.com/docs: build-with-claude/context-editing).
    """
    kinds = [each.get("type") for each in parts(part(edits).get("edits"))]
    return bool(kinds) and all(str(kind).startswith("clear_thinking_") for kind in kinds)


def defers_tools(payload: Payload) -> bool:
    """Return True if a request has tools that the model reads only after searching for them.

    platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool,
    openrouter.ai/docs/guides/features/server-tools/tool-search.
    """
    return any(
        isinstance(tool, dict)
        and (tool.get("defer_loading") is True or "tool_search" in str(tool.get("type")))
        for tool in _tools(payload)
    )


def is_plain(message: object) -> bool:
    """Return True if a message is all text and tool calls: no reasoning, image, audio, document."""
    if type(message) is not dict:
        return isinstance(message, str)
    if not _CHANGING.isdisjoint(message) and _changes(message):
        return False
    if "type" in message and message["type"] not in _PLAIN_TYPES:
        return False
    content = message.get("content") or message.get("parts") or message.get("output")
    content = content or message.get("result")
    return content is None or isinstance(content, str) or _are_plain(content, 0)


def is_unanswered(messages: Sequence[object]) -> bool:
    """Return True if no message is an answer or a tool's result: the conversation begins."""
    for message in messages:
        if isinstance(message, dict) and (
            message.get("role") not in _BEFORE_ANSWERS or message.get("type") not in _ASKING
        ):
            return False
    return True


def _are_plain(pieces: object, level: int) -> bool:
    """Return True if the parts of a message are plain, and so are the tool results in them."""
    if type(pieces) is not list or len(pieces) > _PARTS or level > _LEVELS:
        return False
    for piece in pieces:
        if type(piece) is not dict:
            return False
        if not _CHANGING.isdisjoint(piece) and _changes(piece):
            return False
        inner = piece.get("content")
        if inner is None and "toolResult" in piece:
            inner = part(piece["toolResult"]).get("content")
        if inner and type(inner) is not str and not _are_plain(inner, level + 1):
            return False
    return True


def _changes(holder: Payload) -> bool:
    """Return True if any of these keys has a value: SDKs write null for absent ones."""
    return any(holder[key] for key in _CHANGING.intersection(holder))


def _tools(payload: Payload) -> list[object]:
    for key in _TOOLS:
        if key in payload:
            tools = payload[key]
            tools = tools.get("tools") if isinstance(tools, dict) else tools
            if isinstance(tools, list):
                return tools
    return []
