"""Renders every refusal and every invalid request of the control plane as problem JSON.

It decides nothing: a Refusal already carries its status and sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from proxy.routing.errors import Refusal, problem

_PROBLEM = {"$ref": "#/components/schemas/Problem"}
_TYPE = "application/problem+json"
_TITLES = {404: "not_found", 405: "method_not_allowed", 401: "unauthorized"}


def install(app: FastAPI) -> None:
    """Make the app answer every error in problem JSON, and describe it so."""
    describe = app.openapi
    app.openapi = lambda: _described(describe())  # type: ignore[method-assign]
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


def _described(document: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI with the media type of problems, which FastAPI takes for that of answers."""
    for ways in document["paths"].values():
        for way in ways.values():
            for answer in way["responses"].values():
                if {"schema": _PROBLEM} in answer.get("content", {}).values():
                    answer["content"] = {_TYPE: {"schema": _PROBLEM}}
    return document


def render(refusal: Refusal) -> Response:
    """A refusal as a response."""
    headers, body = problem(refusal)
    response = Response(body, refusal.status)
    response.raw_headers = headers
    return response


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return render(error)


async def _invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [{"field": _field(found), "message": _message(found)} for found in error.errors()]
    first = errors[0]
    detail = f"{first['field']}: {first['message']}"
    return render(Refusal(422, "invalid", detail, extra={"errors": errors}))


async def _http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 400:  # FastAPI's word for a body nested too deep to read
        return render(Refusal(422, "invalid", "body: is not JSON that can be read"))
    code = _TITLES.get(error.status_code, "http_error")
    headers = tuple(
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in (error.headers or {}).items()
    )
    return render(Refusal(error.status_code, code, str(error.detail), headers))


def _field(found: Mapping[str, Any]) -> str:
    """Where in the request it is: `termination_reason`, `rewards.reward`, or the whole `body`."""
    place, *inside = found["loc"]
    if found["type"] == "json_invalid" or not inside:
        return str(place)
    return ".".join(str(part) for part in inside)


def _message(found: Mapping[str, Any]) -> str:
    if found["type"] == "json_invalid":
        return f"is not JSON ({found['ctx']['error']} at byte {found['loc'][-1]})"
    return str(found["msg"]).removeprefix("Value error, ")
