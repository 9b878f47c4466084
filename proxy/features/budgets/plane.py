"""The part of budgets in REST, on the pages of rollouts and batches, and in alerts."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter

from proxy.api.problems import BATCH, PROBLEMS, ROLLOUT_ID, Service
from proxy.features.budgets import control
from proxy.features.budgets.tables import BATCH as OF_BATCH
from proxy.features.budgets.tables import ROLLOUT as OF_ROLLOUT
from proxy.plane import Plane
from proxy.web.panels import Panel, PanelPlace
from truezero import models

router = APIRouter(responses=PROBLEMS)


@router.get("/rollouts/{rollout_id:path}/limits", tags=["rollouts"], operation_id="get_limits")
async def rollout_limits(service: Service, rollout_id: Annotated[str, ROLLOUT_ID]) -> models.Budget:
    """Get a rollout's limits, and what its agent has spent of them.

    Nulls where neither it nor its batch was registered with limits.
    """
    return await control.budget(service, OF_ROLLOUT, rollout_id)


@router.post("/rollouts/{rollout_id:path}/limits", tags=["rollouts"], operation_id="change_limits")
async def change_rollout_limits(
    service: Service, rollout_id: Annotated[str, ROLLOUT_ID], limits: models.Limits
) -> models.Budget:
    """Change the limits that a rollout was registered with.

    Calls that are held for one that is raised go on within a second.
    """
    return await control.change(service, OF_ROLLOUT, rollout_id, limits)


@router.get("/batches/{batch:path}/limits", tags=["batches"], operation_id="get_budget")
async def batch_limits(service: Service, batch: Annotated[str, BATCH]) -> models.Budget:
    """Get a batch's limits, and what its rollouts have spent of them together.

    Nulls where it was registered without.
    """
    return await control.budget(service, OF_BATCH, batch)


@router.post("/batches/{batch:path}/limits", tags=["batches"], operation_id="change_budget")
async def change_batch_limits(
    service: Service, batch: Annotated[str, BATCH], limits: models.Limits
) -> models.Budget:
    """Change the limits that a batch was registered with.

    Calls that are held for one that is raised go on within a second.
    """
    return await control.change(service, OF_BATCH, batch, limits)


PLANE = Plane(
    routes=router.routes,
    panels=[
        Panel(
            place=PanelPlace.ROLLOUT_SUMS,
            template="budgets/rollout.html",
            read=partial(control.shown, kind=OF_ROLLOUT),
        ),
        Panel(
            place=PanelPlace.BATCH_COST,
            template="budgets/batch.html",
            read=partial(control.shown, kind=OF_BATCH),
        ),
    ],
    look=control.spent_limits,
)
