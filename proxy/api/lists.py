"""REST routes of lists of rollouts and batches, as JSON, JSON lines, CSV, Parquet or Markdown."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any, NamedTuple, Protocol

import orjson
from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse

from proxy.api.problems import Service, documented, json_answer
from proxy.api.routes import PROBLEMS
from proxy.control import listing, queries
from proxy.control.batches import batch_list
from proxy.control.queries import run_in_thread
from proxy.routing.errors import Refusal
from truezero import models
from truezero.models.rollouts import RolloutItem
from truezero.printable import visible

# --- formats -----------------------------------------------------------------------------------
# Rows are encoded as they come.


JSON, LINES, CSV = "application/json", "application/x-ndjson", "text/csv"
MARKDOWN = "text/markdown"
PARQUET = "application/vnd.apache.parquet"

Row = dict[str, Any]
Rows = Sequence[Row]

COLUMNS = tuple(RolloutItem.model_fields)
_ACTIVE = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
)  # begins of formulas in spreadsheets
# Parquet's types of columns that are not texts.
_TYPES: Mapping[str, str] = {
    "repeat": "int32", "attempt": "int32", "created_at": "float64", "registered": "bool_",
    "provisional": "bool_", "reward": "float64", "reported_reward": "float64",
    "total_tokens": "int64", "cost_usd": "float64", "own_failures": "bool_",
    "reported_at": "float64", "score": "float64", "measured": "int64", "repeats": "int64",
    "difference": "float64", "rollouts": "int64", "recent": "int64", "first_seen": "float64",
    "last_seen": "float64", "score_a": "float64", "measured_a": "int64", "repeats_a": "int64",
    "score_b": "float64", "measured_b": "int64", "repeats_b": "int64",
}  # fmt: skip


class Encoder(Protocol):
    """Encodes rows one part after another."""

    def rows(self, rows: Rows) -> bytes:
        """Encode some rows; the first ones with the header."""
        ...

    def end(self) -> bytes:
        """Return the footer, with the header if there were no rows."""
        ...


class Format(NamedTuple):
    """A format, and the ending of its files' names."""

    media_type: str
    ending: str
    encoder: Callable[[Sequence[str]], Encoder]


def accepted(accept: str | None) -> Format | None:
    """Return the format that a request prefers by its `Accept`; None is a page of JSON."""
    weighed = [_weighed(part) for part in (accept or "").split(",")]
    supported = [each for each in weighed if each[0] > 0 and each[1] in {*FORMATS, *_PAGE}]
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

    Raises:
        Refusal: 406 if a package that the format needs is not installed.
    """
    encoder = format_.encoder(columns)
    first: Rows = await anext(parts, [])
    return _encoded(encoder, first, parts)


async def _encoded(
    encoder: Encoder, first: Rows, parts: AsyncIterator[Rows]
) -> AsyncIterator[bytes]:
    if first:
        yield await run_in_thread(encoder.rows, first)
    async for part in parts:
        yield await run_in_thread(encoder.rows, part)
    if last := await run_in_thread(encoder.end):
        yield last


class _JsonLines:
    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns

    def rows(self, rows: Rows) -> bytes:
        return lines({name: row[name] for name in self._columns} for row in rows)

    def end(self) -> bytes:
        return b""


def lines(records: Iterable[Row]) -> bytes:
    """Encode records as JSON lines."""
    return b"".join(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in records)


class _Csv:
    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._begun = False

    def rows(self, rows: Rows) -> bytes:
        text = io.StringIO()
        writer = csv.writer(text)
        if not self._begun:
            writer.writerow(self._columns)
            self._begun = True
        writer.writerows([_cell(row[name]) for name in self._columns] for row in rows)
        return text.getvalue().encode()

    def end(self) -> bytes:
        return b"" if self._begun else self.rows([])


def _cell(value: Any) -> Any:
    """Return a value as a cell. Unknown is empty, and a text never begins a formula."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return " ".join(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(_ACTIVE) else value


class _Markdown:
    """Writes a table as GitHub Flavored Markdown (§4.10), for a report or an issue."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._begun = False

    def rows(self, rows: Rows) -> bytes:
        head = [] if self._begun else [self._columns, ["---"] * len(self._columns)]
        self._begun = True
        cells = [[_in_table(row[name]) for name in self._columns] for row in rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in (*head, *cells)).encode()

    def end(self) -> bytes:
        return b"" if self._begun else self.rows([])


def _in_table(value: Any) -> str:
    """Return a value as a cell: one line of text, no markup in it. Unknown is empty."""
    text = "" if value is None else str(_cell(value))
    return _MARKUP.sub(r"\\\g<0>", visible(text))


# What begins markup inside a cell.
_MARKUP = re.compile(r"[\\`*_\[\]<>|~&!]")


class _Parquet:
    """Writes a row group for each part; the footer comes last."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._arrow = _pyarrow()
        types = {name: getattr(self._arrow, _TYPES.get(name, "string"))() for name in columns}
        if "validity" in types:
            types["validity"] = self._arrow.list_(self._arrow.string())
        self._schema = self._arrow.schema(list(types.items()))
        self._written = _Written()
        parquet = import_module("pyarrow.parquet")
        self._writer = parquet.ParquetWriter(self._written, self._schema, compression="zstd")

    def rows(self, rows: Rows) -> bytes:
        chosen = [{name: row[name] for name in self._schema.names} for row in rows]
        self._writer.write_table(self._arrow.Table.from_pylist(chosen, schema=self._schema))
        return self._written.taken()

    def end(self) -> bytes:
        self._writer.close()
        return self._written.taken()


class _Written(io.RawIOBase):
    """A file that keeps only the bytes not taken yet."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._length = 0

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        taken = bytes(part)
        self._parts.append(taken)
        self._length += len(taken)
        return len(taken)

    def tell(self) -> int:
        return self._length

    def taken(self) -> bytes:
        """Return the bytes written since the last call."""
        whole = b"".join(self._parts)
        self._parts.clear()
        return whole


def _pyarrow() -> ModuleType:
    try:
        return import_module("pyarrow")
    except ModuleNotFoundError:
        raise Refusal(
            406,
            "not_acceptable",
            "Parquet needs an extra on the service's side: pip install 'truezero[parquet]'",
        ) from None


FORMATS: Mapping[str, Format] = {
    each.media_type: each
    for each in (
        Format(LINES, "jsonl", _JsonLines),
        Format(CSV, "csv", _Csv),
        Format(PARQUET, "parquet", _Parquet),
        Format(MARKDOWN, "md", _Markdown),
    )
}
_PAGE = frozenset((JSON, "application/*", "*/*"))


# --- routes ------------------------------------------------------------------------------------


Parameters = Annotated[models.ListParameters, Query()]

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
    service: Service,
    parameters: Parameters,
    accept: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Response:
    """List rollouts with their verdicts, oldest first unless asked otherwise.

    A filter takes several values, of which any may apply; different filters are combined. Pass
    `next` of a page as `after` to get the following one. `Accept` chooses a page of JSON, or
    all rows as CSV, JSON lines, Parquet or Markdown. Of the rollouts that still run, eight are
    judged anew for a page of JSON, those first that were never judged, and all for the others.
    """
    file_format = accepted(accept)
    if file_format is not None:
        return await file_of(service, parameters, file_format)
    return await json_answer(await listing.rollout_page(service, parameters))


@router.get(
    "/rollouts/export",
    tags=["rollouts"],
    response_class=StreamingResponse,
    responses=_EXPORTED,
    operation_id="export_rollouts",
)
async def export(service: Service, parameters: Parameters) -> StreamingResponse:
    """Export rollouts, outcomes and calls as JSON lines.

    Each line has a `record`: `rollout`, `outcome` or `exchange`. `truezero classify` judges
    them offline. Filters and order are those of `GET /rollouts`.
    """
    parts = await listing.export(service, parameters)
    return StreamingResponse(_as_lines(parts), media_type=LINES)


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
    service: queries.Service,
    parameters: models.ListParameters,
    file_format: Format,
    *,
    columns: Sequence[str] = COLUMNS,
) -> StreamingResponse:
    """Answer with all rows of a list as a file.

    Arguments:
        columns: of `RolloutItem`, in the order in which they are written.

    Raises:
        Refusal: 406 if a package that the format needs is not installed, 422 for a wrong cursor.
    """
    parts = listing.all_rollouts(service, parameters)
    return await file_response("rollouts", file_format, parts, columns)


async def file_response(
    name: str, file_format: Format, parts: AsyncIterator[Rows], columns: Sequence[str]
) -> StreamingResponse:
    """Answer with rows as a file of that name.

    Raises:
        Refusal: 406 if a package that the format needs is not installed.
    """
    body = await encoded(file_format, parts, columns)
    named = f'attachment; filename="{name}.{file_format.ending}"'
    headers: Mapping[str, str] = {"content-disposition": named, "vary": "accept"}
    return StreamingResponse(body, media_type=file_format.media_type, headers=headers)


async def in_one(rows: Rows) -> AsyncIterator[Rows]:
    """Yield rows that are at hand as one part."""
    yield rows


async def _as_lines(parts: AsyncIterator[Iterable[dict[str, Any]]]) -> AsyncIterator[bytes]:
    async for part in parts:
        yield await run_in_thread(lines, part)
