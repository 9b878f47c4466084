"""What a request asks for: its model, whether streamed, whether tools are offered.

It reads these and nothing else of a body, and keeps none of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from proxy.wire.dialect import Payload, name, part


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked; None is unknown, for a body that is no JSON object."""

    model: str | None = None
    streamed: bool | None = None
    has_tools: bool | None = None


_UNKNOWN = Asked()


def asked(body: bytes) -> Asked:
    """Read a whole JSON request body, decoded.

    The body is parsed once, whole: one pass of orjson costs what two searches for a key
    cost (61 µs against 2 × 36 for 123 kB), and a search cannot tell a key of the request
    from the same key in an earlier tool call's arguments.
    """
    try:
        payload = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _UNKNOWN
    if not isinstance(payload, dict):
        return _UNKNOWN
    inner = payload.get("request")  # Code Assist wraps the request (gemini-cli)
    return Asked(
        model=name(payload.get("model")),
        streamed=payload.get("stream") is True,
        has_tools=_tools(payload) or _tools(part(inner)),
    )


def _tools(payload: Payload) -> bool:
    """``functions`` is OpenAI's before tools; ``toolConfig`` holds them at Converse."""
    configured = part(payload.get("toolConfig")).get("tools")
    return any((payload.get("tools"), payload.get("functions"), configured))
