"""Answers of the control plane: problem JSON (RFC 9457) for every refusal and invalid request.

Also the JSON answers of routes, and the parts of the application that routes depend on.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from secrets import token_hex
from typing import Annotated, Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl

import orjson
from fastapi import Depends, FastAPI, Header, Path, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from proxy.control import queries
from proxy.control.queries import run_in_thread
from proxy.routing.errors import PROBLEM_TYPE, RateLimiter, Refusal, RefusalCode, problem
from truezero import mistakes
from truezero.models.verdicts import LATER_CHECKS

log = logging.getLogger("truezero")
T = TypeVar("T")

_PROBLEM = {"$ref": "#/components/schemas/Problem"}  # a schema as items of `BulkRegistered` have it
_TYPE = PROBLEM_TYPE.decode()
_CODES: Mapping[int, RefusalCode] = {
    404: "not_found",
    405: "method_not_allowed",
    401: "unauthorized",
    413: "body_too_large",
}


def documented(description: str) -> dict[str, Any]:
    """Return a problem as a response of an OpenAPI document.

    FastAPI would describe a `model` as `application/json`, and make a type adapter for each route.
    """
    return {"description": description, "content": {_TYPE: {"schema": _PROBLEM}}}


BATCH = Path(description="percent-encode `/` as `%2F`")
ROLLOUT_ID = Path(description="percent-encode `/` as `%2F`")

PROBLEMS: dict[int | str, dict[str, Any]] = {
    401: documented("missing or wrong admin token"),
    404: documented("not found"),
    409: documented("conflicts with the stored state"),
    422: documented("invalid field, named in `detail`"),
    429: documented("rate limit exceeded; see `retry-after`"),
    503: documented("database unavailable"),
}

Page: TypeAlias = Callable[[int, str], Awaitable[Response]]


def install(app: FastAPI, page: Page | None = None) -> None:
    """Make the app answer every error in problem JSON, and refuse addresses with NUL.

    Arguments:
        page: renders a status and a sentence as a page of the dashboard, for paths of pages.
    """
    app.add_middleware(_WithoutNul, page=page)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


_VERSION = re.compile(r"[0-9]{1,4}(\.[0-9a-z+]{1,20}){1,5}")
_SECRET = {"key", "keys"}  # fields whose values no message repeats
_READING = ("GET", "HEAD")
_NOT_FOUND = Refusal(404, "not_found", "not found")
_UNUSABLE = Refusal(422, "invalid", "the path must not contain control characters")


class _WithoutNul:
    """Refuses addresses with NUL: nothing is named so, and PostgreSQL takes no such text."""

    def __init__(self, app: ASGIApp, page: Page | None) -> None:
        self._app = app
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            refusal = None
            if "\0" in scope["path"]:
                refusal = _NOT_FOUND if scope["method"] in _READING else _UNUSABLE
            elif b"%00" in scope["query_string"]:
                refusal = _with_nul(scope["query_string"])
            if refusal is not None:
                await (await self._answer(refusal, scope["path"]))(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _answer(self, refusal: Refusal, path: str) -> Response:
        if self._page is not None and path.startswith("/ui/"):
            return await self._page(refusal.status, refusal.detail)
        return render(refusal)


def _with_nul(query: bytes) -> Refusal:
    parameters = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    field = next((name for name, value in parameters if "\0" in value), "query")
    message = "must not contain control characters"
    errors = [{"field": field, "message": message}]
    return Refusal(422, "invalid", f"{field}: {message}", extra={"errors": errors})


def render(refusal: Refusal) -> Response:
    """Render a refusal as a response."""
    headers, body = problem(refusal)
    response = Response(body, refusal.status)
    response.raw_headers = headers
    return response


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return render(error)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    refusal = invalid(error.errors(), _models(request))
    client = request.headers.get("x-truezero-client", "")
    if _VERSION.fullmatch(client):  # which may know other fields
        other = mistakes.other_release(service=queries.version(), client=client)
        refusal.detail += f"; {other}" if other else ""
    return render(refusal)


def _models(request: Request) -> dict[str, Any]:
    """Return the models that a route reads its body and its query by."""
    parts = request.scope["route"].dependant
    places = (("body", parts.body_params), ("query", parts.query_params))
    return {place: each.field_info.annotation for place, several in places for each in several}


def invalid(errors: Sequence[Any], models: Mapping[str, Any]) -> Refusal:
    """Return the refusal of fields that pydantic found invalid, with a message for each.

    Arguments:
        models: what `body` and `query` are read by.
    """
    fields = [{"field": _field(each), "message": _message(each, models)} for each in errors]
    first = fields[0]
    detail = f"{first['field']}: {first['message']}"
    return Refusal(422, "invalid", detail, extra={"errors": fields})


async def _http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 400:  # how FastAPI answers a body nested too deep
        return render(Refusal(422, "invalid", "body: not readable as JSON"))
    code = _CODES.get(error.status_code, "http_error")
    headers = tuple(
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in (error.headers or {}).items()
    )
    return render(Refusal(error.status_code, code, str(error.detail), headers))


def note_unexpected(error: Exception) -> str:
    """Log an unexpected exception; return the id of its log line."""
    incident = token_hex(4)
    log.error("unexpected error %s", incident, exc_info=error)
    return incident


async def _unexpected(_request: Request, error: Exception) -> Response:
    incident = note_unexpected(error)
    detail = f"unexpected error {incident}: the service's log has the reason under this id"
    return render(Refusal(500, "internal_error", detail, extra={"incident": incident}))


def _field(error: Mapping[str, Any]) -> str:
    """Name the field: `termination_reason`, `rewards.reward`, or the whole `body`."""
    place, *inside = error["loc"]
    if error["type"] == "json_invalid" or not inside:
        return str(place)
    if place == "query":
        return str(inside[0])  # which of several values it was is in the message
    return ".".join(str(part) for part in inside if part != "")


def _message(error: Mapping[str, Any], models: Mapping[str, Any]) -> str:
    if error["type"] == "json_invalid":
        return f"invalid JSON at byte {error['loc'][-1]}"
    place, *inside = error["loc"]
    takes = mistakes.names_at(models.get(place), inside)
    return mistakes.message(error, takes=takes, secret=not _SECRET.isdisjoint(inside))


# --- JSON, serialized beside the event loop ----------------------------------------------------


async def json_answer(payload: Mapping[str, Any]) -> Response:
    """Serialize in a thread: a list of thousands would delay agents' bytes."""
    content = await run_in_thread(orjson.dumps, payload)
    return Response(content, media_type="application/json")


# --- dependencies of routes, read from `app.state` ---------------------------------------------
# Making a route takes a millisecond, so a process makes each once, for all its applications: a
# route may hold nothing of any one.


Address = Callable[[Request], str]  # the base URL handed to agents, by a runner's request


def of_app(name: str) -> Any:
    """Make the dependency on an attribute of `app.state`."""

    async def read(request: Request) -> Any:  # async, or FastAPI would call it in a thread
        return getattr(request.app.state, name)

    return Depends(read)


Service = Annotated[queries.Service, of_app("service")]
Limiter = Annotated[RateLimiter, of_app("limiter")]  # of registrations
Version = Annotated[str, of_app("version")]
# True for a request that shows the admin token, or a session on a page.
Authorized = Annotated[Callable[[dict[str, Any]], bool], of_app("authorized")]
# Renders the health of lanes as a page, in the short form or not, if `Accept` asks for one: None if
# it asks for JSON.
StatusPage = Annotated[
    Callable[[Request, Mapping[str, Any], bool], Awaitable[Response | None]], of_app("status_page")
]


# What only a client sends that reads every name of a check as text.
ClientVersion = Annotated[
    str | None,
    Header(
        alias="x-truezero-client",
        description="release of the client; without it, checks that 0.2.0's client rejects are "
        "left out of `validity` and `validity_coverage`",
    ),
]


def known_to(client: str | None, judged: dict[str, Any]) -> dict[str, Any]:
    """Return a verdict or result without the checks that a client of 0.2.0 rejects.

    Arguments:
        client: the release that the client states; one of 0.2.0 states none.
    """
    if client is not None:
        return judged
    found, coverage = judged.get("validity", ()), judged.get("validity_coverage", {})
    return judged | {
        "validity": [each for each in found if each["check"] not in LATER_CHECKS],
        "validity_coverage": {k: v for k, v in coverage.items() if k not in LATER_CHECKS},
    }


def base_url(request: Request) -> str:
    """Return the base URL handed to agents."""
    address: Address = request.app.state.address
    return address(request)


async def _step(request: Request) -> None:
    request.app.state.limiter.step()


LIMITED = [Depends(_step)]  # dependencies of a route that registers one rollout
