"""The part of live in REST and on pages: a batch's events as a stream, and pages that follow."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from proxy.api.problems import BATCH, PROBLEMS, Service
from proxy.features.live import pages
from proxy.features.live.changes import ChangeFeed
from proxy.features.live.events import BatchEvent, follow
from proxy.plane import Plane

_SSE = "text/event-stream"
_LIVE = {"cache-control": "no-cache", "x-accel-buffering": "no"}
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {_SSE: {"schema": {"type": "string"}}}, "description": "OK"}
}

router = APIRouter(responses=PROBLEMS)


@router.get(
    "/batches/{batch:path}/events",
    tags=["batches"],
    response_class=StreamingResponse,
    responses=_STREAM,
    operation_id="follow_events",
)
async def events(
    service: Service,
    batch: Annotated[str, BATCH],
    after: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    last_event_id: Annotated[int | None, Header(ge=0, le=2**53)] = None,
) -> StreamingResponse:
    """Follow a batch live, as server-sent events.

    `exchange_failed`, `rollout_doomed`, `verdict_given`, `group_settled`, `batch_ended` and
    `breaker_opened`; the stream does not end by itself and resumes by `Last-Event-ID`.
    """
    start = after if after is not None else last_event_id
    body = _as_sse(follow(service, batch, after=start))
    return StreamingResponse(body, media_type=_SSE, headers=_LIVE)


async def _as_sse(events: AsyncIterator[BatchEvent]) -> AsyncIterator[bytes]:
    async for event in events:
        if event.kind:
            data = json.dumps(event.data)
            yield f"id: {event.id}\nevent: {event.kind}\ndata: {data}\n\n".encode()
        else:
            yield f": alive\nid: {event.id}\n\n".encode()  # a stream that breaks resumes there


PLANE = Plane(
    routes=[*router.routes, *pages.router.routes],
    head=["live/indicator.html"],
    sharing=lambda service: pages.LivePages(ChangeFeed(service)),
)
