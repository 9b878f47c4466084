"""The part of comparisons in REST and on pages; the list of batches leads to theirs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from proxy.api.problems import PROBLEMS, Service, json_answer
from proxy.features.compare import page
from proxy.features.compare.comparison import comparison_page
from proxy.plane import Plane
from proxy.web.panels import BatchAction, Panel, PanelPlace
from truezero import models

Named = Annotated[str, Query(min_length=1, max_length=200)]

router = APIRouter(responses=PROBLEMS, tags=["batches"])


@router.get("/compare", response_model=models.BatchComparison, operation_id="compare_batches")
async def compare(
    service: Service,
    a: Annotated[Named, Query(description="the batch to compare with")],
    b: Annotated[Named, Query(description="the batch that is compared")],
    change: Annotated[
        list[models.Change] | None, Query(description="only tasks with one of these changes")
    ] = None,
    after: Annotated[str | None, Query(description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="tasks on a page")] = 1000,
) -> Response:
    """Compare two batches task by task.

    `difference` is over the tasks that both measured; each weighs the same, however many
    repeats it has. A task that either did not measure is no difference. Broken tasks come
    first.
    """
    shown = await comparison_page(service, a, b, changes=change or (), after=after, limit=limit)
    return await json_answer(shown)


PLANE = Plane(
    routes=[*router.routes, *page.router.routes],
    panels=[Panel(place=PanelPlace.BATCH_CHECK, template="compare/before.html", read=page.before)],
    batch_actions=[
        BatchAction(path="/ui/compare", verb="Compare", label="Compare two ticked batches")
    ],
)
