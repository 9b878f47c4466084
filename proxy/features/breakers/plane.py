"""The part of breakers in REST, on the pages of batches, and in alerts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter

from proxy.api.problems import BATCH, PROBLEMS, Service
from proxy.features.breakers import control, page
from proxy.plane import Plane
from proxy.web.batch_tabs import BatchTab
from proxy.web.panels import BatchMark, LaneColumn
from truezero import models

router = APIRouter(responses=PROBLEMS, tags=["batches"])


@router.post(
    "/batches/{batch:path}/breaker/reset",
    response_model=models.Breaker,
    operation_id="reset_breaker",
)
async def reset_breaker(
    service: Service, batch: Annotated[str, BATCH], lane: str | None = None
) -> dict[str, Any]:
    """Reset open breakers, after their cause is fixed.

    Each becomes half-open: one rollout is admitted as a probe, and its health closes the
    breaker or opens it again.
    """
    return await control.reset_breaker(service, batch, lane=lane)


@router.get(
    "/batches/{batch:path}/breaker",
    response_model=models.Breaker,
    operation_id="get_breaker",
)
async def breaker(service: Service, batch: Annotated[str, BATCH]) -> dict[str, Any]:
    """Get a batch's circuit breakers.

    There is one for each lane (`upstream/model/key digest`). It opens when the same
    permanent failure has ended `threshold` rollouts in a row.
    """
    return await control.breaker(service, batch)


PLANE = Plane(
    routes=[*router.routes, *page.router.routes],
    tabs=[
        BatchTab(
            name="breakers",
            label="Breakers",
            template="breakers/tab.html",
            read=page.read,
            mark=page.mark,
        )
    ],
    batch_marks=[
        BatchMark("breaker", "Breaker open or half-open", "breakers", control.open_by_batch)
    ],
    lane_columns=[LaneColumn("breaker", "Breaker", page.lane_marks)],
    look=control.open_breakers,
)
