"""OpenAI's Responses API, whole or as a stream of named events.

Counts come from the last snapshot: earlier ones have ``usage: null``.
"""

from __future__ import annotations

import re

from proxy.wire import usage
from proxy.wire.dialect import Dialect, Payload, Reading, name, part, parts

# openai-python: types/responses/response_stream_event.py
_ENDS = frozenset(("response.completed", "response.incomplete", "response.failed"))
_RELEVANT = re.compile(
    rb'"(?:response\.(?:completed|incomplete|failed|output_item\.added|output_item\.done)'
    rb'|error)"'
)
# Items that ask the agent to do something; a web search or an MCP call was done already.
_CALLS = frozenset(("function_call", "custom_tool_call", "computer_call", "local_shell_call",
                    "shell_call", "apply_patch_call"))  # fmt: skip
_SAYS_NOTHING = frozenset(("reasoning", "message"))  # an item of this type may be empty


def _read(reading: Reading, payload: Payload, event: str | None) -> None:
    kind = payload.get("type")
    kind = kind if isinstance(kind, str) else event
    response = payload.get("response")
    if isinstance(response, dict):
        _snapshot(reading, response)
    elif payload.get("object") == "response" or isinstance(payload.get("output"), list):
        _snapshot(reading, payload)
    elif kind is not None and kind.startswith("response."):
        _event(reading, payload, kind)
    if kind in _ENDS:
        reading.ended = True
        if reading.finish_reason is None:
            reading.take_finish_reason(kind.removeprefix("response."))


def _event(reading: Reading, payload: Payload, kind: str) -> None:
    reading.understood = True
    if kind.endswith(".delta"):
        reading.note_output(payload.get("delta"))
    elif kind.startswith("response.output_item."):
        _item(reading, part(payload.get("item")))


def _snapshot(reading: Reading, response: Payload) -> None:
    reading.understood = True
    reading.take_model(response.get("model"))
    usage.take(reading, usage.OPENAI, response.get("usage"))
    usage.cost(reading, response.get("usage"))
    for item in parts(response.get("output")):
        _item(reading, item)
    status = name(response.get("status"))
    if status not in (None, "in_progress", "queued"):
        why = name(part(response.get("incomplete_details")).get("reason"))
        reading.take_finish_reason(f"{status}:{why}" if why else status)


def _item(reading: Reading, item: Payload) -> None:
    kind = item.get("type")
    if not isinstance(kind, str):
        return
    if kind in _CALLS:
        # added, done and the last snapshot report the same call; gateways leave ids out
        reading.add_tool_call(name(item.get("call_id")) or name(item.get("id")) or kind)
    elif kind.endswith("_call"):
        reading.output = True
    for key in ("content", "summary"):
        for piece in parts(item.get(key)):
            reading.note_output(piece.get("text") or piece.get("refusal"))
    if item.get("encrypted_content") and kind in _SAYS_NOTHING:
        reading.output = True


RESPONSES = Dialect(
    name="openai.responses",
    read=_read,
    totals=usage.inclusive,
    relevant=_RELEVANT,
    shape_keys=frozenset(("output",)),
)
