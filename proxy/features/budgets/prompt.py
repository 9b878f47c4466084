"""Estimate the tokens of a prompt from its length; the estimate is rather too high."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proxy.features.budgets.amounts import BYTES_A_TOKEN
from proxy.wire.dialect import part

# Of a picture, rather too many: most are scaled down to some 1,600 before they are counted
# (platform.claude.com/docs/en/build-with-claude/vision); a few local models take more.
_PICTURE_TOKENS = 5_000
_WORTH_A_LOOK = 3 * _PICTURE_TOKENS * BYTES_A_TOKEN  # bytes of a body
_MOST_VALUES = 20_000  # that are looked at: milliseconds, whatever the body
_PROMPTS = ("messages", "input", "contents", "request")
_OPENING = "data:image/"


def prompt_tokens(body: bytes, payload: Mapping[str, Any]) -> int:
    """Estimate how many tokens a request's prompt has; base64 of a picture is not text."""
    tokens = len(body) // BYTES_A_TOKEN
    if len(body) < _WORTH_A_LOOK:
        return tokens
    left = [payload[name] for name in _PROMPTS if name in payload]
    for _ in range(_MOST_VALUES):
        if not left:
            break
        value = left.pop()
        if isinstance(value, list):
            left += value[:_MOST_VALUES]
        elif isinstance(value, dict):
            tokens -= max(0, len(_picture(value)) // BYTES_A_TOKEN - _PICTURE_TOKENS)
            left += list(value.values())[:_MOST_VALUES]
    return tokens


def _picture(holder: dict[str, Any]) -> str:
    """Return the base64 of a picture where an API has one, else nothing.

    OpenAI's image_url, Anthropic's source, Gemini's inlineData and Converse's image.
    """
    url = holder.get("image_url")
    url = part(url).get("url") if isinstance(url, dict) else url
    if isinstance(url, str) and url.startswith(_OPENING):
        return url
    kind = holder.get("media_type") or holder.get("mimeType") or holder.get("mime_type")
    data = holder.get("data")
    if isinstance(kind, str) and kind.startswith("image/") and isinstance(data, str):
        return data
    data = part(part(holder.get("image")).get("source")).get("bytes")
    return data if isinstance(data, str) else ""
