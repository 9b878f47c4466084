"""The OpenAPI document as people read it: summaries, descriptions, examples, parameters.

A handler's docstring is its description: the first paragraph is the summary.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from truezero.models.batches import NO_ADVANTAGES

# Real answers; ``python -m tests.test_docs`` writes them.
_EXAMPLES = Path(__file__).with_name("examples.json")

# Of parameters that mean the same in every call; a handler's own description comes first.
_PARAMETERS: Mapping[str, str] = {
    "accept": "media type of the answer",
    "after": "value of `next` of the page before",
    "attempt": "only this try of a sample",
    "batch": "only rollouts of this batch",
    "fingerprint": "only rollouts with this cause and status, such as `quota:429`",
    "health": "only rollouts with this health",
    "key": "the key, `tz-…`",
    "lane": "only this lane, `upstream/model/key digest`; all by default",
    "last-event-id": "as browsers send it when they reconnect; `after` comes first",
    "limit": "maximum number of items",
    "method": f"gone, without effect: {NO_ADVANTAGES}",
    "min_valid": "groups that cannot have as many measured rollouts are dropped",
    "policy": "`seed` judges by status codes alone, for comparison; nothing is stored",
    "repeat": "only this sample of its task",
    "settled": "only groups that have settled, or only those that have not",
    "subcategory": "only rollouts whose deciding calls failed for this reason",
    "task": "only rollouts of this task",
    "timeout_s": "longest wait, in seconds",
    "validity": "only rollouts by their worst finding, or by a check that found something",
    "wait": "`settled` waits until no call is in flight and the outcome is judged",
}
# Where the name says something else.
_OF_CALLS: Mapping[tuple[str, str], str] = {
    ("/batches/{batch}/events", "after"): "id of the last event that is known; all by default",
}

# Optional: a service on loopback may have no token. With one, `/docs` asks for it.
_TOKEN = {
    "adminToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "TRUEZERO_ADMIN_TOKEN, where one is set",
    }
}
_SECURITY: list[dict[str, list[str]]] = [{"adminToken": []}, {}]
_OPEN = frozenset({"/healthz", "/readyz"})  # as in proxy.api.auth

# FastAPI's own, in whose place problems are answered.
_NOT_OURS = frozenset({"HTTPValidationError", "ValidationError"})


def document_of(app: FastAPI) -> dict[str, Any]:
    """Return the complete document of an application; the first time takes 90 ms."""
    return described(app.openapi())


def described(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with summaries, parameters and examples; the argument is unchanged.

    Paths are in the order of their tags, and then of their letters: whoever adds one.
    """
    places = {tag["name"]: at for at, tag in enumerate(document["tags"])}
    paths = {
        path: {method: _operation(path, method, each) for method, each in sorted(methods.items())}
        for path, methods in sorted(document["paths"].items(), key=partial(_place, places))
    }
    schemas = document["components"]["schemas"]
    ours = {name: each for name, each in schemas.items() if name not in _NOT_OURS}
    components = {"schemas": ours, "securitySchemes": _TOKEN}
    return {**document, "security": _SECURITY, "paths": paths, "components": components}


@cache
def examples() -> Mapping[str, Mapping[str, Any]]:
    """Return the examples by `METHOD /path`: a `response`, and a `request` if it has a body."""
    by_route: dict[str, dict[str, Any]] = json.loads(_EXAMPLES.read_text("utf-8"))
    return by_route


def _place(places: Mapping[str, int], path: tuple[str, Mapping[str, Any]]) -> tuple[int, str]:
    name, methods = path
    tags = {tag for each in methods.values() for tag in each.get("tags", ())}
    return min((places[tag] for tag in tags), default=len(places)), name


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> dict[str, Any]:
    summary, _, rest = operation["description"].partition("\n\n")
    example = examples()[f"{method.upper()} {path}"]
    documented = {
        **operation,
        "summary": " ".join(summary.split()).rstrip("."),
        "description": rest,
        "responses": {
            status: _response(response, example["response"]) if status.startswith("2") else response
            for status, response in operation["responses"].items()
            if not _is_fastapis(response)
        },
    }
    if path in _OPEN:
        documented["security"] = []
    if "parameters" in operation:
        documented["parameters"] = [_parameter(path, each) for each in operation["parameters"]]
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]
        documented["requestBody"] = {
            **operation["requestBody"],
            "content": _with_example(content, example["request"]),
        }
    return documented


def _is_fastapis(response: Mapping[str, Any]) -> bool:
    """Return True if a response is FastAPI's default, which the route does not describe."""
    schemas = (media.get("schema", {}) for media in response.get("content", {}).values())
    return any(each.get("$ref", "").rpartition("/")[2] in _NOT_OURS for each in schemas)


def _parameter(path: str, parameter: Mapping[str, Any]) -> dict[str, Any]:
    name = parameter["name"]
    description = (
        _OF_CALLS.get((path, name)) or parameter.get("description") or _PARAMETERS.get(name)
    )
    return {**parameter, "description": description} if description else dict(parameter)


def _response(response: Mapping[str, Any], example: Any) -> dict[str, Any]:
    return {**response, "content": _with_example(response["content"], example)}


def _with_example(content: Mapping[str, Any], example: Any) -> dict[str, Any]:
    return {kind: {"example": example, **media} for kind, media in content.items()}
