"""The part of reruns in REST, and the tab of a batch's page that lists them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from classifier.reruns import Rerun, RerunCounts
from proxy.api.problems import BATCH, PROBLEMS, Service, json_answer
from proxy.features.reruns import listing, page
from proxy.plane import Plane
from proxy.web.batch_tabs import BatchTab, Facts
from truezero import models

router = APIRouter(responses=PROBLEMS, tags=["batches"])


@router.get("/batches/{batch:path}/rerun", response_model=models.Reruns, operation_id="list_reruns")
async def rerun(
    service: Service,
    batch: Annotated[str, BATCH],
    parameters: Annotated[models.RerunParameters, Query()],
) -> Response:
    """List what a batch has to run again, by what is to be done first.

    Each repeat of a task without a score is in one list, by its last attempt: attempts that
    a later one superseded are in none. With `limit` or `after` the answer is a page: counts and
    causes are over everything, as of the first page, and `items` are those of the page.
    """
    if parameters.limit is None and parameters.after is None:
        return await json_answer(await listing.rerun(service, batch))
    limit = parameters.limit or models.LONGEST_PAGE
    page = await listing.rerun_page(service, batch, after=parameters.after, limit=limit)
    return await json_answer(page)


def _waiting(facts: Facts) -> str | None:
    """Write how many repeats of a batch can be run again."""
    reruns: RerunCounts = facts["reruns"]
    count = sum(reruns.kinds.values())
    return f"{count:,}" if count else None


PLANE = Plane(
    routes=router.routes,
    tabs=[
        BatchTab(
            name="again",
            label="Run again",
            template="reruns/tab.html",
            read=page.read,
            sections=frozenset(Rerun),
            count=_waiting,
            shorter=page.shorter,
            file=page.file,
        )
    ],
)
