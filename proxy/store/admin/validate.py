"""Check a record of an archive and turn it into a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from typing import Any

import orjson
from sqlalchemy import Boolean, Column, DefaultClause, Float, Integer

from classifier.records import UNATTRIBUTED, id_flaw
from proxy.store.admin.nouns import NOUNS, Noun, RecordError
from proxy.store.admin.rows import Row
from proxy.store.rows import exchange_of

_YEAR_9999 = 253_370_764_800.0  # in epoch seconds; Python's calendar ends soon after
_SHAPES = 10_000  # combinations of types that are remembered
_KINDS: tuple[tuple[type[Any], frozenset[type]], ...] = (
    (Boolean, frozenset({bool})),
    (Integer, frozenset({int})),
    (Float, frozenset({float, int})),
)


def row_of(name: str, record: Mapping[str, object]) -> Row:
    """Convert a record's fields to a row of its noun's table.

    A field that a later version added may be missing; it gets its column's default.

    Raises:
        RecordError: the noun is unknown, or a field is missing, unknown or of the wrong type.
    """
    noun = NOUNS.get(name)
    if noun is None:
        raise RecordError(f"type: {name!r} is not one of {', '.join(NOUNS)}")
    shape = _shape(name)
    row = shape.values(record) if record.keys() == shape.names else None
    if row is None or not shape.fits(row):
        row = _completed(name, record)
    _check_meaning(name, noun, row)
    return row


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    names: frozenset[str]
    types: tuple[frozenset[type], ...]
    values: Callable[[Mapping[str, object]], Row]
    fitted: set[tuple[type, ...]] = field(default_factory=set)  # as most rows' types have

    def fits(self, row: Row) -> bool:
        """Whether each value is of its column's type."""
        types = tuple(map(type, row))
        if types in self.fitted:
            return True
        if not all(each in of for each, of in zip(types, self.types, strict=True)):
            return False
        if len(self.fitted) < _SHAPES:
            self.fitted.add(types)
        return True


@cache
def _shape(name: str) -> _Shape:
    noun = NOUNS[name]
    types = tuple(_types(column) for column in noun.table.columns)
    return _Shape(names=frozenset(noun.columns), types=types, values=itemgetter(*noun.columns))


def _types(column: Column[Any]) -> frozenset[type]:
    kinds = (types for kind, types in _KINDS if isinstance(column.type, kind))
    none = frozenset({type(None)}) if column.nullable else frozenset()
    return next(kinds, frozenset({str})) | none


def _completed(name: str, record: Mapping[str, object]) -> Row:
    """Fill in the fields that a later version added.

    Raises:
        RecordError: a field is missing, unknown or of the wrong type.
    """
    if unknown := record.keys() - _shape(name).names:
        raise RecordError(f"{min(unknown)}: not a field of {name}")
    return tuple(_value(column, record) for column in NOUNS[name].table.columns)


def _value(column: Column[Any], record: Mapping[str, object]) -> object:
    if column.name not in record:
        return _default(column)
    value = record[column.name]
    if type(value) not in _types(column):
        raise RecordError(f"{column.name}: {value!r} has the wrong type")
    return value


def _default(column: Column[Any]) -> object:
    if isinstance(column.server_default, DefaultClause):
        text = str(column.server_default.arg)
        return text if str in _types(column) else column.type.python_type(int(text))
    if not column.nullable:
        raise RecordError(f"{column.name}: missing")
    return None


def _check_meaning(name: str, noun: Noun, row: Row) -> None:
    """Check what a column's type cannot: ids, enumerated names, times and JSON."""
    if name != "breaker":
        _check_id(name, row[noun.owner_at])
    if name == "exchange":
        try:
            exchange_of(row)
        except (KeyError, ValueError) as error:
            raise RecordError(f"{error} is not a known value") from None
    for column in _times(name):
        at = row[noun.columns.index(column)]
        if at is not None and not 0 <= at < _YEAR_9999:
            raise RecordError(f"{column}: {at!r} is not a valid time")
    for column in noun.json:
        value = row[noun.columns.index(column)]
        if value is not None and not _is_object(value):
            raise RecordError(f"{column}: not a JSON object")


@cache
def _times(name: str) -> tuple[str, ...]:
    """Return the columns that hold epoch seconds."""
    return tuple(column for column in NOUNS[name].columns if column.endswith("_at"))


def _check_id(name: str, rollout_id: str) -> None:
    """Refuse an id that registration refuses; under a reserved one there are calls only."""
    flaw = id_flaw(rollout_id)
    if flaw is None and rollout_id == UNATTRIBUTED and name != "exchange":
        flaw = f"{rollout_id!r} is reserved for calls that name no rollout"
    if flaw is not None:
        raise RecordError(f"{NOUNS[name].owner}: {flaw}")


def _is_object(value: str) -> bool:
    try:
        return isinstance(orjson.loads(value), dict)
    except orjson.JSONDecodeError:
        return False
