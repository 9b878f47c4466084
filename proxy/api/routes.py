"""The routes of the control plane.

Each asks the desk once; none reads a table or judges.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from proxy.control.rollouts import BatchEvent, RolloutService
from proxy.control.threads import run_in_thread
from proxy.routing.limits import RateLimiter
from truezero import models

Address = Callable[[Request], str]  # how agents reach us, from how the runner did

BATCH = Path(description="percent-encode a `/` in it as %2F")
ROLLOUT_ID = Path(description="percent-encode a `/` in it as %2F")

PROBLEMS: dict[int | str, dict[str, Any]] = {
    401: {"model": models.Problem, "description": "the admin token is not shown"},
    404: {"model": models.Problem, "description": "no such rollout"},
    409: {"model": models.Problem, "description": "it contradicts what is known"},
    422: {"model": models.Problem, "description": "a field is invalid; `detail` names it"},
    429: {"model": models.Problem, "description": "registered too fast; `retry-after` says when"},
    503: {"model": models.Problem, "description": "the database does not answer"},
}

_LINES, _SSE = "application/x-ndjson", "text/event-stream"
_LIVE = {"cache-control": "no-cache", "x-accel-buffering": "no"}

PolicyName = Literal["evidence", "seed"]


def _told_as(media_type: str) -> dict[int | str, dict[str, Any]]:
    """How an answer that is no JSON object is described."""
    return {200: {"content": {media_type: {"schema": {"type": "string"}}}, "description": "OK"}}


def router(desk: RolloutService, pace: RateLimiter, address: Address, *, version: str) -> APIRouter:
    """All routes of contract §2 that read and write rollouts.

    Arguments:
        pace: how often a rollout may be registered.
        address: how agents reach us.
    """
    routes = APIRouter(responses=PROBLEMS)
    _rollout_routes(routes, desk, pace, address)
    _batch_routes(routes, desk)
    _service_routes(routes, desk, version)
    return routes


def paced(pace: RateLimiter) -> list[Any]:
    """What a route depends on that registers something."""

    async def step() -> None:
        pace.step()

    return [Depends(step)]


def _rollout_routes(
    routes: APIRouter, desk: RolloutService, pace: RateLimiter, address: Address
) -> None:
    @routes.post("/rollouts", status_code=201, tags=["rollouts"], dependencies=paced(pace))
    async def register(
        request: Request, rollout: models.RolloutRequest
    ) -> models.RolloutRegistered:
        """Announce a rollout; the answer says where to point its agent."""
        return await desk.register(rollout, public_url=address(request))

    @routes.get("/rollouts", response_model=models.RolloutPage, tags=["rollouts"])
    async def rollouts(
        batch: str | None = None,
        task: str | None = None,
        health: models.Health | None = None,
        subcategory: models.Subcategory | None = None,
        fingerprint: str | None = None,
        after: str | None = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        """Rollouts with the verdict they have, oldest first."""
        named = {
            "batch": batch,
            "task": task,
            "health": health,
            "subcategory": subcategory,
            "fingerprint": fingerprint,
        }
        filters = {name: value for name, value in named.items() if value is not None}
        return await _written(await desk.rollouts(filters, after=after, limit=limit))

    @routes.get("/rollouts/export", tags=["rollouts"], responses=_told_as(_LINES))
    async def export(batch: str | None = None) -> StreamingResponse:
        """JSON lines of rollouts, outcomes and exchanges; `truezero classify` judges them again."""
        parts = await desk.export(batch=batch)
        return StreamingResponse(_as_lines(parts), media_type=_LINES)

    @routes.post(
        "/rollouts/{rollout_id:path}/outcome", response_model=models.Result, tags=["rollouts"]
    )
    async def outcome(
        rollout_id: Annotated[str, ROLLOUT_ID], seen: models.OutcomeRequest
    ) -> dict[str, Any]:
        """Report what the runner saw; the answer is the result. Repeating it is harmless."""
        return await desk.report(rollout_id, seen)

    @routes.get(
        "/rollouts/{rollout_id:path}/verdict", response_model=models.Verdict, tags=["rollouts"]
    )
    async def verdict(
        rollout_id: Annotated[str, ROLLOUT_ID],
        wait: Literal["settled"] | None = None,
        timeout_s: Annotated[float, Query(ge=0, le=600)] = 10.0,
        policy: PolicyName | None = None,
    ) -> dict[str, Any]:
        """Judge the rollout on everything recorded before this call."""
        return await desk.verdict(
            rollout_id, policy=policy, settled=wait == "settled", timeout_s=timeout_s
        )

    @routes.get(
        "/rollouts/{rollout_id:path}/result", response_model=models.Result, tags=["rollouts"]
    )
    async def result(rollout_id: Annotated[str, ROLLOUT_ID]) -> dict[str, Any]:
        """The record a runner stores as `result.json`."""
        return await desk.stored_result(rollout_id)

    @routes.get(
        "/rollouts/{rollout_id:path}/exchanges",
        response_model=models.ExchangePage,
        tags=["rollouts"],
    )
    async def exchanges(
        rollout_id: Annotated[str, ROLLOUT_ID],
        after: str | None = None,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    ) -> Response:
        """Each call of the rollout, oldest first."""
        return await _written(await desk.exchanges(rollout_id, after=after, limit=limit))


def _batch_routes(routes: APIRouter, desk: RolloutService) -> None:
    @routes.get("/batches/{batch:path}/check", response_model=models.Check, tags=["batches"])
    async def check(batch: Annotated[str, BATCH]) -> Response:
        """One line per invalid or suspect measurement, and whether the batch is valid."""
        return await _written(await desk.check(batch))

    @routes.post(
        "/batches/{batch:path}/breaker/reset", response_model=models.Breaker, tags=["batches"]
    )
    async def reset_breaker(
        batch: Annotated[str, BATCH], lane: str | None = None
    ) -> dict[str, Any]:
        """Let one canary into an open lane, or into each of the batch."""
        return await desk.reset_breaker(batch, lane=lane)

    @routes.get("/batches/{batch:path}/breaker", response_model=models.Breaker, tags=["batches"])
    async def breaker(batch: Annotated[str, BATCH]) -> dict[str, Any]:
        """The batch's breakers, lane by lane."""
        return await desk.breaker(batch)

    @routes.get("/batches/{batch:path}/events", tags=["batches"], responses=_told_as(_SSE))
    async def events(
        batch: Annotated[str, BATCH],
        after: Annotated[int | None, Query(ge=0, le=2**53)] = None,
        last_event_id: Annotated[int | None, Header(ge=0, le=2**53)] = None,
    ) -> StreamingResponse:
        """Server-sent events: exchange failed, rollout doomed, verdict given, breaker opened."""
        start = after if after is not None else last_event_id
        stream = _as_sse(desk.events(batch, after=start))
        return StreamingResponse(stream, media_type=_SSE, headers=_LIVE)

    @routes.get("/batches/{batch:path}", response_model=models.BatchSummary, tags=["batches"])
    async def summary(batch: Annotated[str, BATCH]) -> Response:
        """Counts, tokens, cost, scores with their bounds, and who should be retried."""
        return await _written(await desk.batch(batch))

    @routes.get("/fingerprints", response_model=models.Fingerprints, tags=["batches"])
    async def fingerprints() -> dict[str, Any]:
        """Which causes strike how many rollouts, across batches."""
        return await desk.fingerprints()


async def _written(facts: Mapping[str, Any]) -> Response:
    """Facts as JSON, written in a thread: a list of thousands would hold up agents' bytes."""
    content = await run_in_thread(orjson.dumps, facts)
    return Response(content, media_type="application/json")


async def _as_lines(parts: AsyncIterator[Iterable[dict[str, Any]]]) -> AsyncIterator[bytes]:
    async for part in parts:
        yield await run_in_thread(_lines, part)


def _lines(records: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in records)


async def _as_sse(events: AsyncIterator[BatchEvent]) -> AsyncIterator[bytes]:
    async for event in events:
        if event.kind:
            data = json.dumps(event.data)
            yield f"id: {event.id}\nevent: {event.kind}\ndata: {data}\n\n".encode()
        else:
            yield b": alive\n\n"


def _service_routes(routes: APIRouter, desk: RolloutService, version: str) -> None:
    @routes.get("/healthz", tags=["service"])
    async def healthz() -> models.Alive:
        """The process is alive."""
        return models.Alive(status="ok", version=version)

    @routes.get("/readyz", tags=["service"])
    async def readyz(response: Response) -> models.Ready:
        """The database answers and the recorder writes; 503 while not."""
        ready = await desk.ready()
        if ready.status != "ready":
            response.status_code = 503
        return ready
