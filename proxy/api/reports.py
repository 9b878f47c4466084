"""The REST routes that compare batches, and say what one used and has to run again."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from proxy.api.answers import json_answer
from proxy.api.routes import BATCH, PROBLEMS
from proxy.api.state import Services
from proxy.control.reports import DEFAULT
from proxy.routing.errors import Refusal
from truezero import models

Named = Annotated[str, Query(min_length=1, max_length=200)]

# Its routes come before `/batches/{batch}`, whose path matches theirs.
reports_router = APIRouter(responses=PROBLEMS, tags=["batches"])


@reports_router.get(
    "/compare", response_model=models.BatchComparison, operation_id="compare_batches"
)
async def compare(
    services: Services,
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
    page = services.reports.comparisons.page(a, b, changes=change or (), after=after, limit=limit)
    return await json_answer(await page)


@reports_router.get(
    "/batches/{batch:path}/rerun", response_model=models.Reruns, operation_id="list_reruns"
)
async def rerun(
    services: Services,
    batch: Annotated[str, BATCH],
    asked: Annotated[models.RerunParameters, Query()],
) -> Response:
    """List what a batch has to run again, by what is to be done first.

    Each repeat of a task without a score is in one list, by its last attempt: attempts that
    a later one superseded are in none. With `limit` or `after` the answer is a page: counts and
    causes are over everything, as of the first page, and `items` are those of the page.
    """
    reruns = services.reports.reruns
    if asked.limit is None and asked.after is None:
        return await json_answer(await reruns.of_batch(batch))
    limit = asked.limit or models.LONGEST_PAGE
    return await json_answer(await reruns.page(batch, after=asked.after, limit=limit))


@reports_router.get(
    "/batches/{batch:path}/usage", response_model=models.BatchUsage, operation_id="get_usage"
)
async def usage(
    services: Services,
    batch: Annotated[str, BATCH],
    by: Annotated[
        str,
        Query(description="any of model, upstream, role, task; separated by commas"),
    ] = ",".join(DEFAULT),
) -> Response:
    """Add up a batch's calls by model, upstream, role or task.

    Inference calls of every role count, once they have ended. Each sum says how many calls it
    stands on: `tokens_known_calls` and `cost_known_calls` of `billable_calls`.
    """
    return await json_answer(await services.reports.usage.of_batch(batch, by=_dimensions(by)))


def _dimensions(by: str) -> list[str]:
    """Return the names in a list.

    Raises:
        Refusal: 422 where one is no dimension.
    """
    names = list(dict.fromkeys(filter(None, by.split(","))))
    for name in names:
        if name not in models.USAGE_DIMENSIONS:
            known = ", ".join(models.USAGE_DIMENSIONS)
            raise Refusal(422, "invalid", f"by: {name!r} is none of {known}")
    return names
