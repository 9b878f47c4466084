"""Read a provider's error out of a payload, in whichever shape it comes.

What it means is for ``classifier.causes``; an echo of the request is never read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from classifier.records import ProviderError
from proxy.wire.dialect import Headers
from proxy.wire.error_shapes import (
    CODE_KEYS,
    ITEMS,
    MESSAGE_CAP,
    MESSAGE_KEYS,
    TYPE_KEYS,
    bare_exception,
    error_nodes,
    is_exception,
    substantial,
    text_of,
)
from proxy.wire.retry_after import LONGEST_S, parse_duration, plausible_wait

_NAME: Final = re.compile(r"[^\s]{1,120}")  # a code or type has no blanks; a sentence does
_DEPTH: Final = 6  # errors wrapped in errors: gateways nest two or three deep
_NODES: Final = 256  # objects, lists and texts that are looked into

_STATUS_KEYS: Final = (
    "status", "status_code", "statusCode", "StatusCode", "http_status_code", "http_status",
    "originalStatusCode",
)  # fmt: skip
_WAIT_KEYS: Final = ("retryDelay", "retry_after", "retry_after_s", "retryAfter",
                     "retry_after_seconds")  # fmt: skip
_WRAPS: Final = ("error", "errors", "message", "detail", "raw")  # a whole error may sit inside
_QUALIFIES: Final = ("innererror", "inner_error", "innerError", "details", "metadata")
_METADATA_NAMES: Final = (
    "reason", "error_type", "error_code", "provider_code", "limit_source",
    "quotaId", "quotaMetric", "quota_limit", "quota_metric", "quota_unit",
)  # fmt: skip


@dataclass(slots=True)
class _ErrorFacts:
    """What has been read so far; the innermost error comes first."""

    code: str | None = None
    type: str | None = None
    param: str | None = None
    status: int | None = None
    retry_after_s: float | None = None
    messages: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    nodes_left: int = _NODES

    def add_message(self, text: str) -> None:
        text = text.strip()[:MESSAGE_CAP]
        if text and text not in self.messages:
            self.messages.append(text)

    def add_reason(self, name: str) -> None:
        if name and name not in self.reasons and name not in (self.code, self.type):
            self.reasons.append(name)

    def add_code(self, value: object) -> None:
        """Take a code: an HTTP status, a token, or (xAI) a sentence."""
        if (status := _status(value)) is not None:
            self.status = self.status or status
        elif isinstance(value, int) and not isinstance(value, bool):
            self._first("code", str(value))
        elif isinstance(value, str) and _NAME.fullmatch(value):
            self._first("code", value)
        elif isinstance(value, str):
            self.add_message(value)

    def add_type(self, value: object) -> None:
        if isinstance(value, str) and value not in ("error", "") and _NAME.fullmatch(value):
            self._first("type", value)

    def _first(self, slot: str, value: str) -> None:
        if getattr(self, slot) is None:
            setattr(self, slot, value)
        else:
            self.add_reason(value)

    def any(self) -> bool:
        return bool(self.code or self.type or self.messages or self.reasons or self.status)

    def error(self) -> ProviderError:
        return ProviderError(
            code=self.code,
            type=self.type,
            message="\n".join(self.messages)[:MESSAGE_CAP] or None,
            param=self.param,
            reasons=tuple(r for r in self.reasons if r not in (self.code, self.type)),
            status=self.status,
            retry_after_s=self.retry_after_s,
        )


def read_error(payload: object, *, event: str | None = None) -> ProviderError | None:
    """Read the error out of a parsed JSON value, or None when it holds none.

    Args:
        payload: any JSON value: a whole body, one stream event's data, a list of them
            (Gemini without ``alt=sse``).
        event: the event's own name, where the framing carries one (SSE ``event:``, AWS
            ``:exception-type``). An exception's name makes any payload an error.

    Shapes: openai-python ``APIError.body``, docs.claude.com/en/api/errors, Google
    ``google.rpc.Status``, botocore ``service-2.json``, openrouter.ai/docs/errors,
    docs.mistral.ai, docs.cohere.com, platform.minimax.io errorcode, FastAPI
    ``HTTPException``, developers.cloudflare.com/workers-ai/platform/errors.
    """
    for body in _bodies(payload):
        facts = _ErrorFacts()
        for node in error_nodes(body, event):
            _gather(node, facts, _DEPTH)
        if facts.any():
            return facts.error()
    if is_exception(event):
        return ProviderError(type=event, message=text_of(payload))
    if event == "error" and (message := text_of(payload)):
        return ProviderError(message=message)
    return None


def read_text_error(text: str) -> ProviderError | None:
    """Take a short plain-text error body as the message; None for HTML or nothing."""
    message = text.strip()[:MESSAGE_CAP]
    return ProviderError(message=message) if message and not message.startswith("<") else None


# -- bodies --------------------------------------------------------------------------


def _bodies(payload: object) -> Iterator[Mapping[str, object]]:
    if isinstance(payload, list):
        yield from (item for item in payload[:ITEMS] if isinstance(item, dict))
    elif isinstance(payload, dict):
        yield payload


# -- its parts -------------------------------------------------------------------------


def _gather(node: object, facts: _ErrorFacts, depth: int) -> None:
    if depth == 0 or facts.nodes_left == 0:
        return
    facts.nodes_left -= 1
    if isinstance(node, str):
        _gather_text(node, facts, depth)
    elif isinstance(node, list):
        for item in node[:ITEMS]:
            _gather(item, facts, depth - 1)
    elif isinstance(node, dict):
        _gather_object(node, facts, depth)


def _gather_text(text: str, facts: _ErrorFacts, depth: int) -> None:
    """Gather a sentence, or an error body inside a string (OpenRouter ``raw``, gateways)."""
    inner = _json(text)
    nodes = [n for body in _bodies(inner) for n in error_nodes(body, None)]
    for node in nodes:
        _gather(node, facts, depth - 1)
    if not nodes:
        facts.add_message(text)


def _gather_object(node: Mapping[str, object], facts: _ErrorFacts, depth: int) -> None:
    for key in _WRAPS:
        if isinstance(node.get(key), dict | list):
            _gather(node[key], facts, depth - 1)
    if isinstance(node.get("metadata"), dict):
        _gather_wrapped_metadata(node["metadata"], facts, depth)
    _gather_names(node, facts)
    _gather_numbers(node, facts)
    _gather_messages(node, facts, depth)
    for key in _QUALIFIES:
        _qualify(node.get(key), facts, depth - 1)


def _gather_wrapped_metadata(metadata: object, facts: _ErrorFacts, depth: int) -> None:
    """OpenRouter: the provider's own body rides in ``metadata.raw``."""
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if substantial(raw):
        _gather(raw, facts, depth - 1)


def _gather_names(node: Mapping[str, object], facts: _ErrorFacts) -> None:
    for key in CODE_KEYS:
        facts.add_code(node.get(key))
    for key in TYPE_KEYS:
        facts.add_type(node.get(key))
    if isinstance(kind := node.get("__type"), str):
        facts.add_type(bare_exception(kind))
    if isinstance(reason := node.get("reason"), str) and _NAME.fullmatch(reason):
        facts.add_reason(reason)
    if isinstance(status := node.get("status"), str) and _NAME.fullmatch(status):
        facts.add_reason("" if _status(status) or status == "error" else status)
    param = node.get("param")
    facts.param = facts.param or (param if isinstance(param, str) else None) or _location(node)


def _gather_numbers(node: Mapping[str, object], facts: _ErrorFacts) -> None:
    for key in _STATUS_KEYS:
        facts.status = facts.status or _status(node.get(key))
    for key in _WAIT_KEYS:
        if facts.retry_after_s is None:
            facts.retry_after_s = _body_wait(node.get(key))


def _gather_messages(node: Mapping[str, object], facts: _ErrorFacts, depth: int) -> None:
    for key in MESSAGE_KEYS:
        if isinstance(text := node.get(key), str):
            _gather_text(text, facts, depth)
    if isinstance(text := node.get("error"), str):
        has_sentence = any(isinstance(node.get(k), str) for k in ("message", "detail"))
        if has_sentence:  # {"error": "not_found", "message": "…"}: the first is a name
            facts.add_code(text)
        else:
            _gather_text(text, facts, depth)


def _qualify(node: object, facts: _ErrorFacts, depth: int) -> None:
    """Gather names around an error: Google ``details``, Azure ``innererror``, metadata."""
    if depth <= 0 or facts.nodes_left == 0:
        return
    facts.nodes_left -= 1
    if isinstance(node, str):
        facts.add_message(node)
    elif isinstance(node, list):
        for item in node[:ITEMS]:
            if isinstance(item, dict):
                _qualify(item, facts, depth - 1)
    elif isinstance(node, dict):
        _qualify_object(node, facts, depth)


def _qualify_object(node: Mapping[str, object], facts: _ErrorFacts, depth: int) -> None:
    for key in (*_METADATA_NAMES, "code", "type"):
        if isinstance(name := node.get(key), str) and _NAME.fullmatch(name):
            facts.add_reason(name)
    if str(node.get("quota_limit_value", node.get("quotaValue"))) == "0":
        facts.add_reason("quota_limit_value.0")
    if isinstance(node.get("@type"), str):  # google.rpc.DebugInfo, LocalizedMessage
        for text in (node.get("detail"), node.get("message")):
            facts.add_message(text if isinstance(text, str) else "")
    if "flagged_input" in node:  # presence only: it quotes the prompt
        facts.add_reason("moderation")
    _gather_numbers({k: v for k, v in node.items() if k != "status"}, facts)
    for key in ("violations", "metadata", *_QUALIFIES[:3]):
        _qualify(node.get(key) if not isinstance(node.get(key), str) else None, facts, depth - 1)


# -- values ------------------------------------------------------------------------------


def _status(value: object) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"[45]\d\d", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:
        return value
    return None


def _location(node: Mapping[str, object]) -> str | None:
    """Return the field that FastAPI names in ``loc``: ``["body", "messages", 0]``."""
    where = node.get("loc")
    names = [w for w in where if isinstance(w, str)] if isinstance(where, list) else []
    return names[-1] if names else None


def _json(text: str) -> object:
    """Return the JSON value in a string, or None; a long text is no wrapped error."""
    text = text.strip()
    if not text.startswith(("{", "[")) or len(text) > 64 * 1024:
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def _body_wait(value: object) -> float | None:
    """Return seconds from ``"15s"``, ``15``, ``"15"`` or ``{"seconds": 15}``."""
    if isinstance(value, dict):
        return _body_wait(value.get("seconds"))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return plausible_wait(min(value, LONGEST_S))  # a float cannot hold every whole number
    return parse_duration(value) if isinstance(value, str) else None


# -- headers -----------------------------------------------------------------------------


def stated_type(headers: Headers) -> str | None:
    """Return the exception in ``x-amzn-errortype``, without namespace and link (botocore)."""
    for name, value in headers:
        if name == b"x-amzn-errortype":
            return bare_exception(value.decode("latin-1")) or None
    return None
