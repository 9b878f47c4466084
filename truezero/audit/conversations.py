"""The calls behind a conversation that a harness kept in place of them."""

from __future__ import annotations

from typing import Any, Final

from truezero.audit.runs import RecordedCall
from truezero.audit.values import Json, items, mapping, objects, text

_MODEL: Final = "assistant"


def calls_in(messages: object) -> tuple[RecordedCall, ...]:
    """Return an answered call for each message of the assistant."""
    return tuple(_call(each) for each in objects(messages) if each.get("role") == _MODEL)


def _call(message: Json) -> RecordedCall:
    called = len(items(message.get("tool_calls"))) + bool(mapping(message.get("function_call")))
    return RecordedCall(content=bool(_words(message) or called), tool_calls=called)


def _words(message: Json) -> bool:
    """Return True if a message holds a text, whole or in parts."""
    content: Any = message.get("content")
    if isinstance(content, str):
        return bool(content)
    parts = (mapping(part) for part in items(content))
    return any(text(part.get("text")) or text(part.get("content")) for part in parts)
