"""Read the events of OpenAI's WebSocket APIs: ids, error status, headers, close frames."""

from __future__ import annotations

import re
from collections.abc import Iterator

import orjson

from proxy.wire.dialect import Payload, name, part

# Close codes that state no error (RFC 6455 §7.4.1).
_QUIET_CODES = frozenset((None, 1000, 1001, 1005, 1006, 1012))
# How OpenAI names why it closes: "invalid_request_error.invalid_api_key" after code 3000.
_CLOSE_REASON = re.compile(r"([a-z][a-z_]+)(?:\.([a-z][a-z_]+))?\Z")


def as_sse(message: bytes) -> bytes:
    """Frame a message as the server-sent event that the same API sends over HTTP.

    Line breaks between JSON's tokens are blanks; inside its strings there are none.
    """
    if b"\n" in message or b"\r" in message:
        message = message.replace(b"\r", b" ").replace(b"\n", b" ")
    return b"data: " + message + b"\n\n"


def parse_message(message: bytes) -> Payload:
    """Parse a message; empty where it is no JSON object."""
    try:
        return part(orjson.loads(message))
    except orjson.JSONDecodeError:
        return {}


def response_id(payload: Payload) -> str | None:
    """Return the id of the response that an event belongs to."""
    return name(payload.get("response_id")) or name(part(payload.get("response")).get("id"))


def error_status(payload: Payload) -> int:
    """Return the HTTP status that an error event states; 200 where it states none.

    Codex reads ``status`` or ``status_code`` beside ``error`` (openai/codex,
    codex-api/src/endpoint/responses_websocket.rs).
    """
    for key in ("status", "status_code"):
        status = payload.get(key)
        if type(status) is int and 400 <= status < 600:
            return status
    return 200


def error_headers(payload: Payload) -> Iterator[tuple[bytes, bytes]]:
    """Yield the headers that an error event states beside its status (same source)."""
    for key, value in part(payload.get("headers")).items():
        if isinstance(value, str | int | float):
            yield key.lower().encode(), str(value).encode()


def close_error(code: int | None, reason: str) -> bytes | None:
    """Return the error event that a close frame stands for; None for a normal close."""
    if code in _QUIET_CODES:
        return None
    match = _CLOSE_REASON.match(reason)
    kind, inner = match.groups() if match else (None, None)
    error = {"type": kind, "code": inner} if match else {"message": reason or f"closed: {code}"}
    return orjson.dumps({"type": "error", "error": error})
