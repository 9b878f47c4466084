"""A provider in good health that says what real agents' side questions want to hear.

It reads all of every prompt, and counts it. It fails nobody: failures are injected by the proxy
(proxy/relay/faults.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.fakes import answers, replies
from tests.fakes.provider import Answer, Request
from tests.fakes.replies import Reply

_BYTES_PER_TOKEN = 4  # of English text and JSON, about
_LEAST: Mapping[str, Any] = {
    "string": "zero",
    "number": 0,
    "integer": 0,
    "boolean": False,
    "array": [],
    "null": None,
}


def obliging(request: Request) -> Answer:
    """Answer in words, and a Gemini call that asks for JSON in its schema; 404 to the rest.

    Gemini CLI lets a small model choose the model of every turn, and reads its answer as
    JSON (google-gemini/gemini-cli: packages/core/src/routing, ``responseJsonSchema``).
    """
    asked = answers.asked_by(request)
    if asked is None:
        return answers.healthy(request)
    schema = _wanted(request)
    reply = Reply(
        model=asked.model,
        input_tokens=len(request.body) // _BYTES_PER_TOKEN,
        output_tokens=len(answers.TEXT),
        text=answers.TEXT if schema is None else (json.dumps(least(schema)),),
    )
    return replies.answer(asked.api, reply, streams=asked.streams)


def _wanted(request: Request) -> Mapping[str, Any] | None:
    """The schema that a Gemini call wants its answer in; None where it wants words."""
    if not request.path.endswith(":generateContent"):
        return None
    config = json.loads(request.body).get("generationConfig", {})
    if config.get("responseMimeType") != "application/json":
        return None
    schema: Mapping[str, Any] = config.get("responseJsonSchema") or config.get("responseSchema", {})
    return schema


def least(schema: Mapping[str, Any]) -> Any:
    """The smallest value that a JSON schema allows, as far as the agents' schemas go."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = str(schema.get("type", "object")).lower()
    if kind in _LEAST:
        return _LEAST[kind]
    fields = schema.get("properties", {})
    return {name: least(fields.get(name, {})) for name in schema.get("required", fields)}
