"""OpenAI's Responses API, whole or as a stream of named events.

Counts come from the last snapshot: earlier ones have ``usage: null``.
"""

from __future__ import annotations

import re

from proxy.wire import usage
from proxy.wire.dialect import Dialect, Payload, Reading, joined, name, part, parts

# openai-python: types/responses/response_stream_event.py
_ENDS = frozenset(("response.completed", "response.incomplete", "response.failed"))
_KEYS = (
    rb'"(?:response\.(?:completed|incomplete|failed|output_item\.added|output_item\.done)'
    rb'|error|keepalive)"'  # which is no content, though there is nothing in it to be read
)
_RELEVANT = re.compile(_KEYS)
_AFTER_REASONING = re.compile(_KEYS + rb'|"response\.(?!reasoning)[a-z_.]+\.delta"')
# developers.openai.com/api/docs/guides/background: until then `GET /responses/{id}` is repeated
_UNFINISHED = frozenset(("queued", "in_progress"))
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
    if kind.startswith("response.reasoning"):
        reading.note_reasoning(payload.get("delta"))
    elif kind.endswith(".delta"):
        reading.note_content(payload.get("delta"))
    elif kind.startswith("response.output_item."):
        _item(reading, part(payload.get("item")))


def _snapshot(reading: Reading, response: Payload) -> None:
    reading.understood = True
    reading.take_model(response.get("model"))
    usage.take(reading, usage.OPENAI, response.get("usage"))
    usage.cost(reading, response.get("usage"))
    for item in parts(response.get("output")):
        _item(reading, item)
    reading.response_id = name(response.get("id")) or reading.response_id
    status = name(response.get("status"))
    if status in _UNFINISHED:
        reading.pending = True
    elif status is not None:
        reading.pending = False
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
        reading.output = reading.content = True
    note = reading.note_reasoning if kind == "reasoning" else reading.note_content
    for key in ("content", "summary"):
        for piece in parts(item.get(key)):
            note(piece.get("text") or piece.get("refusal"))
    if item.get("encrypted_content") and kind in _SAYS_NOTHING:
        reading.output = True


def _text(payload: Payload, event: str | None) -> str:
    # of a whole response, or of a delta: what else a stream has repeats it
    kind = payload.get("type") or event
    if kind == "response.output_text.delta":
        return joined(payload.get("delta"))
    items = [item for item in parts(payload.get("output")) if item.get("type") == "message"]
    return "".join([joined(item.get("content")) for item in items])


RESPONSES: Dialect = Dialect(
    name="openai.responses",
    read=_read,
    totals=usage.inclusive,
    relevant=_RELEVANT,
    relevant_reasoning=_AFTER_REASONING,
    shape_keys=frozenset(("output",)),
    text=_text,
)
