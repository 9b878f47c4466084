"""REST routes of lists of rollouts and batches, as JSON, JSON lines or CSV."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import orjson
from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse

from proxy.api.problems import PROBLEMS, Service, json_answer
from proxy.control import listing, queries
from proxy.control.batches import batch_list
from proxy.control.queries import run_in_thread
from proxy.routing.errors import Refusal
from truezero import models
from truezero.csv_rows import csv_head, csv_lines
from truezero.models.rollouts import RolloutItem

# --- formats -----------------------------------------------------------------------------------
# Rows are encoded as they come.


JSON, LINES, CSV = "application/json", "application/x-ndjson", "text/csv"
_GONE = ("application/vnd.apache.parquet", "text/markdown")  # formats of the last release

Row = dict[str, Any]
Rows = Sequence[Row]

COLUMNS = tuple(RolloutItem.model_fields)


class Format(NamedTuple):
    """A format, and the ending of its files' names.

    ``head`` encodes what precedes the first row, ``rows`` some rows; both take the columns.
    """

    media_type: str
    ending: str
    head: Callable[[Sequence[str]], bytes]
    rows: Callable[[Sequence[str], Rows], bytes]


def accepted(accept: str | None) -> Format | None:
    """Return the format that a request prefers by its `Accept`; None is a page of JSON.

    Raises:
        Refusal: 406 if it takes nothing but formats of the last release.
    """
    weighed = [_weighed(part) for part in (accept or "").split(",")]
    supported = [each for each in weighed if each[0] > 0 and each[1] in {*FORMATS, *_PAGE}]
    gone = [name for _, name in weighed if name in _GONE]
    if gone and not supported:
        raise Refusal(406, "not_acceptable", f"{gone[0]} is gone: ask for {CSV} or {LINES}")
    _, name = max(supported, key=lambda each: each[0], default=(0.0, JSON))
    return FORMATS.get(name)


def _weighed(part: str) -> tuple[float, str]:
    name, *parameters = (each.strip().lower() for each in part.split(";"))
    weight = next((each[2:] for each in parameters if each.startswith("q=")), "1")
    try:
        return float(weight), name
    except ValueError:
        return 0.0, name


async def encoded(
    format_: Format, parts: AsyncIterator[Rows], columns: Sequence[str] = COLUMNS
) -> AsyncIterator[bytes]:
    """Read the first rows and return all of them, encoded. An error of the first is raised here.

    Arguments:
        columns: of `RolloutItem`, in the order in which they are written.
    """
    first: Rows = await anext(parts, [])
    return _encoded(format_, columns, first, parts)


async def _encoded(
    format_: Format, columns: Sequence[str], first: Rows, parts: AsyncIterator[Rows]
) -> AsyncIterator[bytes]:
    yield format_.head(columns) + await run_in_thread(format_.rows, columns, first)
    async for part in parts:
        yield await run_in_thread(format_.rows, columns, part)


def _lines(columns: Sequence[str], rows: Rows) -> bytes:
    return lines({name: row[name] for name in columns} for row in rows)


def lines(records: Iterable[Row]) -> bytes:
    """Encode records as JSON lines."""
    return b"".join(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in records)


def _csv_rows(columns: Sequence[str], rows: Rows) -> bytes:
    return csv_lines(columns, map(_numbered, rows)).encode()


def _numbered(row: Row) -> Row:
    """Return a row in which the first try of a task has numbers, for readers that group by them."""
    if not row.get("only_one"):
        return row
    return {**row, "repeat": 0, "attempt": row["attempt"] or 0}


FORMATS: Mapping[str, Format] = {
    each.media_type: each
    for each in (
        Format(LINES, "jsonl", lambda _columns: b"", _lines),
        Format(CSV, "csv", lambda columns: csv_head(columns).encode(), _csv_rows),
    )
}
_PAGE = frozenset((JSON, "application/*", "*/*"))


# --- routes ------------------------------------------------------------------------------------


Parameters = Annotated[models.ListParameters, Query()]

_TEXT = {"schema": {"type": "string"}}
_FILES = {
    name: {**_TEXT, "example": f"a file, rollouts.{each.ending}"} for name, each in FORMATS.items()
}
_LISTED: dict[int | str, dict[str, Any]] = {200: {"content": _FILES, "description": "OK"}}

router = APIRouter(responses=PROBLEMS)


@router.get(
    "/rollouts",
    response_model=models.RolloutPage,
    responses=_LISTED,
    tags=["rollouts"],
    operation_id="list_rollouts",
)
async def rollouts(
    service: Service,
    parameters: Parameters,
    accept: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Response:
    """List rollouts with their verdicts, oldest first unless asked otherwise.

    A filter takes several values, of which any may apply; different filters are combined. Pass
    `next` of a page as `after` to get the following one. `Accept` chooses a page of JSON, or
    all rows as CSV or JSON lines. Of the rollouts that still run, eight are
    judged anew for a page of JSON, those first that were never judged, and all for the others.
    """
    file_format = accepted(accept)
    if file_format is not None:
        return await file_of(service, parameters, file_format)
    return await json_answer(await listing.rollout_page(service, parameters))


@router.get(
    "/batches", response_model=models.BatchPage, tags=["batches"], operation_id="list_batches"
)
async def batches(
    service: Service, after: str | None = None, limit: Annotated[int, Query(ge=1, le=100)] = 20
) -> Response:
    """List batches, the newest first.

    Each with its counts, coverage, score with its bounds and interval, and cost.
    """
    return await json_answer(await batch_list(service, after=after, limit=limit))


async def file_of(
    service: queries.Service, parameters: models.ListParameters, file_format: Format
) -> StreamingResponse:
    """Answer with all rows of a list as a file.

    Raises:
        Refusal: 422 for a wrong cursor.
    """
    parts = listing.all_rollouts(service, parameters)
    return await file_response("rollouts", file_format, parts, COLUMNS)


async def file_response(
    name: str, file_format: Format, parts: AsyncIterator[Rows], columns: Sequence[str]
) -> StreamingResponse:
    """Answer with rows as a file of that name."""
    body = await encoded(file_format, parts, columns)
    named = f'attachment; filename="{name}.{file_format.ending}"'
    headers: Mapping[str, str] = {"content-disposition": named, "vary": "accept"}
    return StreamingResponse(body, media_type=file_format.media_type, headers=headers)


async def in_one(rows: Rows) -> AsyncIterator[Rows]:
    """Yield rows that are at hand as one part."""
    yield rows
