"""The part of exports in REST."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from proxy.api.lists import LINES, Parameters, lines
from proxy.api.problems import PROBLEMS, Service
from proxy.control.queries import run_in_thread
from proxy.features.exports import control
from proxy.plane import Plane

_EXPORTED: dict[int | str, dict[str, Any]] = {
    200: {"content": {LINES: {"schema": {"type": "string"}}}, "description": "OK"}
}

router = APIRouter(responses=PROBLEMS)


@router.get(
    "/rollouts/export",
    tags=["rollouts"],
    response_class=StreamingResponse,
    responses=_EXPORTED,
    operation_id="export_rollouts",
)
async def export(service: Service, parameters: Parameters) -> StreamingResponse:
    """Export rollouts, outcomes and calls as JSON lines.

    Each line has a `record`: `rollout`, `outcome` or `exchange`. A rollout says under `counted`
    what it counts in its batch, by the verdict that stands, without what is null; calls after a
    final verdict are left out. `truezero classify` judges them offline, `truezero card verify`
    counts them. Filters and order are those of `GET /rollouts`.
    """
    parts = await control.export(service, parameters)
    return StreamingResponse(_as_lines(parts), media_type=LINES)


async def _as_lines(parts: AsyncIterator[Iterable[dict[str, Any]]]) -> AsyncIterator[bytes]:
    async for part in parts:
        yield await run_in_thread(lines, part)


PLANE = Plane(routes=router.routes)
