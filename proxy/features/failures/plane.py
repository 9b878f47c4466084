"""The part of failures in REST and on pages."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from proxy.api.problems import PROBLEMS, Service
from proxy.features.failures import control, pages
from proxy.plane import Plane
from proxy.web.panels import NavigationItem
from truezero import models
from truezero.models.batches import Moment

router = APIRouter(responses=PROBLEMS)


@router.get(
    "/fingerprints",
    response_model=models.Fingerprints,
    tags=["batches"],
    operation_id="list_fingerprints",
)
async def fingerprints(service: Service) -> dict[str, Any]:
    """List causes across batches, most frequent first.

    Each with the rollouts and batches that it affected, and when it was seen.
    """
    return await control.fingerprints(service)


@router.get(
    "/fingerprints/unexplained",
    response_model=models.UnexplainedErrors,
    tags=["batches"],
    operation_id="list_unexplained",
)
async def unexplained(
    service: Service,
    since: Annotated[
        Moment | None, Query(description="seconds since the epoch; seven days ago by default")
    ] = None,
    until: Annotated[
        Moment | None, Query(description="seconds since the epoch; now by default")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="errors that are listed")] = 100,
) -> dict[str, Any]:
    """List errors that nothing explains, by upstream, status and code.

    Of failed calls for which only a status speaks, or a name that any error may have, and of
    answers that could not be read. `row` is to be completed and put into `truezero.toml`.
    """
    return (await control.unexplained_calls(service, since, until, limit=limit)).to_dict()


PLANE = Plane(
    routes=[*router.routes, *pages.router.routes],
    navigation=[NavigationItem("causes", "/ui/causes", "Causes")],
)
