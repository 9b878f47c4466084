"""What the proxy makes of a path that an SDK asks, and of an answer as the SDK's types have it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from classifier.records import Kind
from proxy.wire import routes
from proxy.wire.dialect import ResponseFacts
from proxy.wire.response import PayloadReader
from tests.fakes.provider import Answer

_MODEL = re.compile(r"/?\{(?:model|resourceName)\}(?=:)")
_VERSION = re.compile(r"\{+api_version\}+")
_PARAMETER = re.compile(r"\{[^}]*\}")
_TAKEN = ("model", "response_id", "finish_reason", "content")


def read_as(line: str) -> str | None:
    """Return the API that the proxy reads a request line as; None if it has no dialect for it."""
    found = _route(line)
    if found.api != "opaque":
        return found.api
    return None if found.kind is Kind.OTHER else "by its shape"


def answers_are_sought(line: str) -> bool:
    """Return True if the proxy looks for a model's answer there, also by its shape alone."""
    return _route(line).kind is Kind.INFERENCE or (line != "" and read_as(line) is None)


def _route(line: str) -> routes.Route:
    method, _, target = line.partition(" ")
    path = _VERSION.sub("v1", _MODEL.sub("v1/models/veo", target.partition("?")[0]))
    return routes.route(method, _PARAMETER.sub("x", f"/{path.lstrip('/')}").encode())


def taken(line: str, payloads: Iterable[Any]) -> list[str]:
    """Return the facts that the proxy takes from payloads of an answer to a request line."""
    reader, facts = PayloadReader(_route(line)), ResponseFacts()
    for payload in payloads:
        inner = payload.get("data") if isinstance(payload, dict) else None
        event = inner if isinstance(inner, dict) else payload  # Mistral wraps each event
        if isinstance(event, dict):
            reader.read(facts, event, event.get("type"))
    counts = zip(("input", "output"), reader.dialect.totals(facts), strict=True)
    named = [name for name in _TAKEN if getattr(facts, name)]
    named += [f"{side} tokens" for side, count in counts if count is not None]
    return sorted([*named, *(["tool calls"] if facts.calls else [])])


def payloads(answer: Answer) -> Iterator[Any]:
    """Yield the JSON objects of an answer: one, or a stream's."""
    for line in answer.content.splitlines():
        text = line.removeprefix(b"data: ").strip()
        if text.startswith(b"{"):
            yield json.loads(text)
