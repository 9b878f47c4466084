"""Registration of thousands of rollouts in one call: each is answered as if it came alone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.types import Message

from proxy.api.problems import PROBLEMS, Limiter, Service, base_url, documented, invalid
from proxy.control import queries, rollouts
from proxy.control.queries import run_in_thread
from proxy.routing.errors import RateLimiter, Refusal, problem
from truezero import models

CHUNK = 500  # registrations that are stored in one transaction, and answered together
MOST_BYTES = 16 * 1024 * 1024

_TOO_LARGE: dict[int | str, dict[str, Any]] = {
    413: documented(f"a body of more than {MOST_BYTES >> 20} MiB")
}
_Request = models.RolloutRequest | Refusal
_Response = models.RolloutRegistered | Refusal


class BoundedRoute(APIRoute):
    """A route that reads no more of a body than its limit."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the route's handler, which gives up on a body over the limit."""
        handle = super().get_route_handler()

        async def bounded(request: Request) -> Response:
            taken = 0

            async def receive() -> Message:
                nonlocal taken
                message = await request.receive()
                taken += len(message.get("body", b""))
                if taken > MOST_BYTES:  # the only error that FastAPI passes on from here
                    raise HTTPException(413, f"a body has at most {MOST_BYTES} bytes here")
                return message

            return await handle(Request(request.scope, receive))

        return bounded


router = APIRouter(route_class=BoundedRoute, responses={**PROBLEMS, **_TOO_LARGE})


@router.post(
    "/rollouts/bulk",
    response_model=models.BulkRegistered,
    tags=["rollouts"],
    operation_id="register_rollouts",
)
async def register_many(
    service: Service, limiter: Limiter, request: Request, body: models.BulkRequest
) -> StreamingResponse:
    """Register up to 10,000 rollouts, each answered by itself.

    A registration that is refused keeps no other back: its item has the problem that
    `POST /rollouts` would have answered. Repeating the call is harmless.
    """
    answers = _answers(service, limiter, body.rollouts, base_url(request))
    return StreamingResponse(_written(answers), media_type="application/json")


async def _answers(
    service: queries.Service, limiter: RateLimiter, items: Sequence[Any], public_url: str
) -> AsyncIterator[Sequence[_Response]]:
    for start in range(0, len(items), CHUNK):
        requests = await run_in_thread(_read, items[start : start + CHUNK])
        requests = [_admitted(limiter, each) for each in requests]
        valid = [each for each in requests if not isinstance(each, Refusal)]
        done = iter(await _registered(service, valid, public_url))
        yield [each if isinstance(each, Refusal) else next(done) for each in requests]


def _read(items: Sequence[Any]) -> list[_Request]:
    return list(map(_read_one, items))


def _read_one(item: Any) -> _Request:
    try:
        return models.RolloutRequest.model_validate(item, from_attributes=True)  # as FastAPI
    except ValidationError as error:
        errors = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        return invalid(errors, {"body": models.RolloutRequest})


def _admitted(limiter: RateLimiter, request: _Request) -> _Request:
    """Return the request, or its refusal by the rate limit."""
    if isinstance(request, Refusal):
        return request
    try:
        limiter.step()
    except Refusal as refusal:
        return refusal
    return request


async def _registered(
    service: queries.Service, valid: Sequence[models.RolloutRequest], public_url: str
) -> Sequence[_Response]:
    """Register in one transaction; without the database each is refused."""
    if not valid:
        return []
    try:
        return await rollouts.register_all(service, valid, public_url=public_url)
    except Refusal as refusal:
        return [refusal] * len(valid)


async def _written(chunks: AsyncIterator[Sequence[_Response]]) -> AsyncIterator[bytes]:
    """Write the answer some items at a time: thousands have megabytes of base URLs."""
    separator = b'{"items":['
    async for answers in chunks:
        yield separator + await run_in_thread(_items, answers)
        separator = b","
    yield b"]}"


def _items(answers: Sequence[_Response]) -> bytes:
    return b",".join(orjson.dumps(_item(each)) for each in answers)


def _item(answer: _Response) -> dict[str, Any]:
    if isinstance(answer, Refusal):
        document = json.loads(problem(answer)[1])
        return {"status": answer.status, "rollout": None, "problem": document}
    return {"status": 201, "rollout": answer.model_dump(), "problem": None}
