"""The calls behind a conversation that a harness kept in place of them."""

from __future__ import annotations

from typing import Final

from truezero.audit.answers import content
from truezero.audit.runs import RecordedCall
from truezero.audit.values import Json, items, mapping, objects

_MODEL: Final = "assistant"


def calls_in(messages: object) -> tuple[RecordedCall, ...]:
    """Return an answered call for each message of the assistant."""
    return tuple(_call(each) for each in objects(messages) if each.get("role") == _MODEL)


def _call(message: Json) -> RecordedCall:
    called = len(items(message.get("tool_calls"))) + bool(mapping(message.get("function_call")))
    return RecordedCall(
        content=any(content(message.get("content"))) or called > 0, tool_calls=called
    )
