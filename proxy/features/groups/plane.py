"""The part of groups in REST."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from classifier.groups import MIN_VALID
from proxy.api.gone import log_gone
from proxy.api.problems import BATCH, PROBLEMS, Service, json_answer
from proxy.features.groups.control import group_page
from proxy.plane import Plane
from truezero import models
from truezero.models.batches import NO_ADVANTAGES

router = APIRouter(responses=PROBLEMS)


@router.get(
    "/batches/{batch:path}/groups",
    response_model=models.GroupPage,
    tags=["batches"],
    operation_id="list_groups",
)
async def groups(
    service: Service,
    batch: Annotated[str, BATCH],
    method: Annotated[str | None, Query(deprecated=True)] = None,
    min_valid: Annotated[int, Query(ge=1, le=10_000)] = MIN_VALID,
    settled: bool | None = None,
    task: str | None = None,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Get a batch's rollouts as groups for RL, one for each task.

    The baseline is over what was measured only; the lists of a group have one place for each
    repeat. `ended`: no group settles any more unless somebody runs it again.
    """
    if method is not None:
        log_gone("`method` of GET /batches/{batch}/groups", NO_ADVANTAGES)
    page = await group_page(
        service, batch, min_valid=min_valid, settled=settled, task=task, after=after, limit=limit
    )
    return await json_answer(page)


PLANE = Plane(routes=router.routes)
