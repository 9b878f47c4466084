"""Conversion between rows of calls and the classifier's records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from enum import Enum
from itertools import groupby
from typing import Any

from sqlalchemy import RowMapping

from classifier.declarations import generated
from classifier.records import (
    Attribution,
    Cause,
    Exchange,
    Kind,
    RecordedField,
    Timing,
    Usage,
    columns,
)
from proxy.store.tables import EXCHANGE_COLUMNS

_HOLDERS = {"": "e", "timing": "t", "usage": "u", "cause": "c"}
_AT_ONCE = 30  # items of a tuple; Python builds a larger one as a list first
_BY_NAME = {column.name: column for column in columns()}
_COLUMNS = tuple(_BY_NAME[name] for name in EXCHANGE_COLUMNS)


def _tuples(values: Sequence[str]) -> list[str]:
    starts = range(0, len(values), _AT_ONCE)
    return [f"({', '.join(values[at : at + _AT_ONCE])},)" for at in starts]


def _writer() -> Callable[[Exchange], tuple[Any, ...]]:
    pieces: list[str] = []
    for caused, run in groupby(_COLUMNS, lambda column: column.part == "cause"):
        values = []
        for column in run:
            value = f"{_HOLDERS[column.part]}.{column.field}"
            if issubclass(column.type, Enum):  # `value` costs two calls of Python's
                plain = f"{value}._value_"
                value = f"{value} and {plain}" if column.optional else plain
            values.append(value)
        made = _tuples(values)
        nothing = (None,) * len(values)
        pieces += [f"({' + '.join(made)} if c else {nothing})"] if caused else made
    write: Callable[[Exchange], tuple[Any, ...]] = generated(
        "exchange_row",
        "def exchange_row(e):\n"
        ' "Return an exchange as the values of EXCHANGE_COLUMNS, in their order."\n'
        " t, u, c = e.timing, e.usage, e.cause\n"
        f" return {' + '.join(pieces)}",
    )
    return write


def _reader() -> Callable[[Sequence[Any]], Exchange]:
    known: dict[str, Any] = {"FLAGS": {None: None, 0: False, 1: True}}  # True and 1 are one key

    def value(column: RecordedField) -> str:
        if column.type is bool:
            return f"FLAGS[{column.name}]"
        if not issubclass(column.type, Enum):
            return column.name
        members = {member.value: member for member in column.type}
        known[column.type.__name__] = members | {None: None}  # a look-up costs a third of a call
        return f"{column.type.__name__}[{column.name}]"

    parts = {part: [value(each) for each in columns() if each.part == part] for part in _HOLDERS}
    built = {
        "timing": f"Timing({', '.join(parts['timing'])})",
        "usage": f"Usage({', '.join(parts['usage'])})",
        "cause": "Cause("
        + ", ".join(f"{each.field}={value(each)}" for each in columns() if each.part == "cause")
        + ") if subcategory else None",
    }
    own = iter(parts[""])
    in_order = [built[name] if name in built else next(own) for name in _FIELDS]
    read: Callable[[Sequence[Any]], Exchange] = generated(
        "exchange_of",
        "def exchange_of(row):\n"
        ' "Return the exchange of a row of `exchanges`, in the order of EXCHANGE_COLUMNS."\n'
        f" {', '.join(column.name for column in _COLUMNS)} = row\n"
        f" return Exchange(*({' + '.join(_tuples(in_order))}))",  # by position: half of the time
        Exchange=Exchange, Timing=Timing, Usage=Usage, Cause=Cause, **known,
    )  # fmt: skip
    return read


# Those that are recorded, in the order of `Exchange`'s arguments.
_FIELDS = tuple(f.name for f in fields(Exchange) if f.name in _HOLDERS or f.name in {
    column.field for column in columns() if not column.part
})  # fmt: skip
exchange_row = _writer()
exchange_of = _reader()


def open_row(e: Exchange, worker: str) -> tuple[Any, ...]:
    """Return a call in flight as the values of OPEN_COLUMNS, in their order."""
    return (
        e.id, e.rollout_id, worker, e.timing.started_at, e.kind._value_, e.method, e.role,
        e.upstream, e.api, e.model, e.attribution._value_, e.key_digest,
    )  # fmt: skip


def open_exchange_of(row: RowMapping) -> Exchange:
    """Return a row of `open_calls` as an exchange that has not ended."""
    return Exchange(
        id=row["id"],
        rollout_id=row["rollout_id"],
        upstream=row["upstream"],
        api=row["api"],
        timing=Timing(started_at=row["started_at"]),
        kind=Kind(row["kind"]),
        method=row["method"],
        role=row["role"],
        model=row["model"],
        attribution=Attribution(row["attribution_source"]),
        key_digest=row["key_digest"],
    )


def lost_row(row: RowMapping) -> dict[str, Any]:
    """Return a row of `open_calls` as columns of `exchanges`, its ending `lost`."""
    columns = {name: value for name, value in row.items() if name != "worker"}
    unknown = {"request_bytes": 0, "response_bytes": 0, "injected": False}
    return {**columns, **unknown, "ending": "lost", "usage_source": "absent"}
