"""Interpret the JSON payloads of one response: usage, output, finish reason and error."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import orjson

from classifier.records import ProviderError
from proxy.wire import routes
from proxy.wire.dialect import Dialect, Reading, part
from proxy.wire.framing.sse import SseEvent
from proxy.wire.provider_error import read_error, read_text_error
from proxy.wire.written_call import WrittenCall

# Where in a payload errors are found; the rest of a successful response is not searched.
_ERROR_KEYS = frozenset(("error", "errors", "base_resp", "detail", "error_code", "error_msg"))
_ERROR_TYPES = ("error", "response.failed")
_UNFINISHED = ("error", "ERROR", "TIMEOUT")  # finish reasons that name a failure
_ERROR_HOLDERS = _ERROR_KEYS | {"type", "finish_reason", "response", "delta", "message"}
# What servers write that is no strict JSON: raw control characters and halves of a character in
# a string (a message cut short), and the numbers that JSON does not have (log-probabilities).
_LOOSE = re.compile(rb"[\x00-\x1f]|\\u[dD][89a-fA-F]|NaN|Infinity")
_LOOSE_BYTES = 262_144  # of such a document


class PayloadReader:
    """Apply a dialect to payloads and keep the first error among them.

    ``dialect`` and ``api`` follow the first payload where two dialects share a path.
    ``repeated`` is the newest unparsed event of a cumulative dialect: it only repeats the
    counts. ``any_object`` is true once a JSON object came, in whatever shape. ``written`` looks for
    a tool call in the text; None where nobody does.
    """

    __slots__ = ("_shapes", "any_object", "api", "dialect", "error", "repeated", "written")

    def __init__(self, route: routes.Route) -> None:
        self._shapes = route.shapes
        self.dialect: Dialect = route.dialect
        self.api = route.api
        self.error: ProviderError | None = None
        self.repeated: bytes | None = None
        self.any_object = False
        self.written: WrittenCall | None = None

    def is_worth_parsing(self, reading: Reading, data: bytes) -> bool:
        """Whether an event can add to the reading: each can until output was seen."""
        dialect = self.dialect
        if not reading.output or data == dialect.done:
            return True
        relevant = dialect.relevant if reading.content else dialect.relevant_reasoning
        if relevant is None or relevant.search(data) is not None:
            return True
        return self.written is not None and self.written.wants(data)

    def read_event(self, reading: Reading, event: SseEvent) -> None:
        """Add a server-sent event to the reading."""
        if event.data == self.dialect.done:
            reading.ended = True
            return
        self.read_document(reading, event.data, event.name)

    def read_document(self, reading: Reading, data: bytes, event: str | None) -> None:
        """Add a JSON document to the reading; ``event`` is its name in the stream."""
        payload = parse_json(data)
        if isinstance(payload, dict):
            self.read(reading, payload, event)
        elif event == "error" and self.error is None and not data.lstrip().startswith(b"{"):
            text = payload if isinstance(payload, str) else data.decode("utf-8", "replace")
            self.error = read_text_error(text)

    def read(self, reading: Reading, payload: dict[str, object], event: str | None) -> None:
        """Add a parsed payload to the reading."""
        if self._shapes and not reading.understood:
            found = routes.by_shape(payload, self._shapes)
            self.dialect, self.api = found or (self.dialect, self.api)
        self.dialect.read(reading, payload, event)
        if self.written is not None:
            self._look_for_call(self.written, reading, payload, event)
        self.repeated = None
        known = self.any_object or reading.understood  # else the first payload is of no known shape
        self.any_object = True
        if self.error is None and (not known or _hints_at_error(payload, event)):
            self.error = read_error(payload, event=event)

    def written_call(self, reading: Reading) -> bool | None:
        """Whether the text ends in a call that was left unparsed; None where nobody looked."""
        written = self.written
        try:
            return None if written is None else not reading.calls and written.ends_in_call()
        except Exception:  # the rest of the record is made all the same
            return None

    def _look_for_call(
        self, written: WrittenCall, reading: Reading, payload: dict[str, object], event: str | None
    ) -> None:
        try:
            if reading.calls:
                written.close(verdict=False)
            else:
                written.take(self.dialect.text(payload, event))
        except Exception:  # the rest of the answer is read all the same
            self.written = None

    def read_exception(self, name: str, body: bytes, message: str) -> None:
        """Take an AWS exception; ``message`` stands in for a body that is no JSON."""
        payload = parse_json(body) or {"message": message}
        error = read_error(payload, event=name)
        if error is not None and error.code is None and error.type is None:
            error = replace(error, type=name)  # it is no exception's: "InternalFailure"
        self.error = self.error or error


def parse_json(data: bytes) -> object:
    """Parse JSON; None where it is none."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return _parse_loosely(data)


def _parse_loosely(data: bytes) -> object:
    if len(data) > _LOOSE_BYTES or not _LOOSE.search(data):
        return None
    try:
        value: object = json.loads(data, strict=False)
    except (ValueError, RecursionError):
        return None
    return value


def _hints_at_error(payload: dict[str, object], event: str | None) -> bool:
    """Check cheaply whether a payload may hold an error."""
    if event == "error":
        return True
    if not _ERROR_HOLDERS.isdisjoint(payload) and _holds_error(payload):
        return True
    choices = payload.get("choices")
    if isinstance(choices, list):
        for choice in choices:
            if isinstance(choice, dict) and (
                choice.get("error") or choice.get("finish_reason") in _UNFINISHED
            ):
                return True
    return False


def _holds_error(payload: dict[str, object]) -> bool:
    if not _ERROR_KEYS.isdisjoint(payload) or payload.get("type") in _ERROR_TYPES:
        return True
    if payload.get("finish_reason") in _UNFINISHED or _is_bare_error(payload):
        return True
    response, delta = part(payload.get("response")), part(payload.get("delta"))
    if response.get("error") or response.get("status") == "failed":
        return True
    if part(response.get("status_details")).get("error"):
        return True
    return bool(delta.get("error")) or delta.get("finish_reason") in _UNFINISHED


def _is_bare_error(payload: dict[str, object]) -> bool:
    """Whether the payload itself is the error: vLLM and Mistral, DashScope."""
    if payload.get("object") == "error" or payload.get("status") == "error":
        return True
    return isinstance(payload.get("message"), str) and "code" in payload
