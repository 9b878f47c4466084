"""The REST routes of lists of rollouts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse

from proxy.api.answers import json_answer
from proxy.api.list_formats import COLUMNS, FORMATS, LINES, Format, accepted, encoded, lines
from proxy.api.problems import documented
from proxy.api.routes import PROBLEMS
from proxy.api.state import Services
from proxy.control.listing import Listing
from proxy.control.queries import run_in_thread
from truezero import models

Asked = Annotated[models.ListParameters, Query()]

_TEXT = {"schema": {"type": "string"}}
_FILES = {
    name: {**_TEXT, "example": f"a file, rollouts.{each.ending}"} for name, each in FORMATS.items()
}
_LISTED: dict[int | str, dict[str, Any]] = {
    200: {"content": _FILES, "description": "OK"},
    406: documented("format not installed"),
}
_EXPORTED: dict[int | str, dict[str, Any]] = {200: {"content": {LINES: _TEXT}, "description": "OK"}}

router = APIRouter(responses=PROBLEMS)


@router.get(
    "/rollouts",
    response_model=models.RolloutPage,
    responses=_LISTED,
    tags=["rollouts"],
    operation_id="list_rollouts",
)
async def rollouts(
    services: Services,
    asked: Asked,
    accept: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Response:
    """List rollouts with their verdicts, oldest first unless asked otherwise.

    A filter takes several values, of which any may apply; different filters are combined. Pass
    `next` of a page as `after` to get the following one. `Accept` chooses a page of JSON, or
    all rows as CSV, JSON lines or Parquet. Of the rollouts that still run, eight are judged anew
    for a page of JSON, those first that were never judged, and all for the other formats.
    """
    wanted = accepted(accept)
    if wanted is not None:
        return await file_of(services.listing, asked, wanted)
    return await json_answer(await services.listing.page(asked))


@router.get(
    "/rollouts/export",
    tags=["rollouts"],
    response_class=StreamingResponse,
    responses=_EXPORTED,
    operation_id="export_rollouts",
)
async def export(services: Services, asked: Asked) -> StreamingResponse:
    """Export rollouts, outcomes and calls as JSON lines.

    Each line has a `record`: `rollout`, `outcome` or `exchange`. `truezero classify` judges
    them offline. Filters and order are those of `GET /rollouts`.
    """
    parts = await services.exporter.export(asked)
    return StreamingResponse(_as_lines(parts), media_type=LINES)


@router.get(
    "/batches", response_model=models.BatchPage, tags=["batches"], operation_id="list_batches"
)
async def batches(
    services: Services, after: str | None = None, limit: Annotated[int, Query(ge=1, le=100)] = 20
) -> Response:
    """List batches, the newest first.

    Each with its counts, coverage, score with its bounds and interval, and cost.
    """
    return await json_answer(await services.reports.listing.page(after=after, limit=limit))


async def file_of(
    listing: Listing,
    asked: models.ListParameters,
    wanted: Format,
    *,
    columns: Sequence[str] = COLUMNS,
) -> StreamingResponse:
    """Answer with all rows of a list as a file.

    Arguments:
        columns: of `RolloutItem`, in the order in which they are written.

    Raises:
        Refusal: 406 where the format needs what is not installed, 422 for a wrong cursor.
    """
    body = await encoded(wanted, listing.items(asked), columns)
    name = f'attachment; filename="rollouts.{wanted.ending}"'
    headers: Mapping[str, str] = {"content-disposition": name, "vary": "accept"}
    return StreamingResponse(body, media_type=wanted.media_type, headers=headers)


async def _as_lines(parts: AsyncIterator[Iterable[dict[str, Any]]]) -> AsyncIterator[bytes]:
    async for part in parts:
        yield await run_in_thread(lines, part)
