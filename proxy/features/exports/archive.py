"""Export a database's rollouts and calls as records, and import them: whole rollouts or none.

Calls that belong to no rollout are records of their own. Secrets, workers and events are not
exported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from heapq import merge
from itertools import chain, groupby, islice
from operator import itemgetter, ne
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import orjson
from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    DefaultClause,
    Float,
    Integer,
    Select,
    exists,
    select,
    update,
)

from classifier.codec import CodecError, decode_limit_reached
from classifier.records import RESERVED, id_flaw
from classifier.verdicts import plural
from proxy.features.exports import rows
from proxy.features.exports.rows import (
    CHUNK,
    OF_BATCHES,
    OF_ROLLOUTS,
    RECORD_TYPES,
    Record,
    RecordError,
    RecordType,
    Row,
    place_of,
)
from proxy.store import migrations
from proxy.store.batch_counts import store_kinds
from proxy.store.batch_versions import note_changed
from proxy.store.rows import exchange_of, lost_row
from proxy.store.runs import note_imported
from proxy.store.tables import (
    exchanges,
    open_calls,
    rollouts,
    verdicts,
)
from proxy.store.verdicts import dequeue_judged, dequeue_unchanged
from truezero.foreign import ForeignError, parse

_CONFLICTS_KEPT = 10  # further ones are counted


_OWNER_AT = {name: record_type.owner_at for name, record_type in RECORD_TYPES.items()}
_CALL_AT = RECORD_TYPES["exchange"].columns.index("id")
_KINDS_OF_ROLLOUTS = tuple(OF_ROLLOUTS)
_RANK = {name: rank for rank, name in enumerate(OF_ROLLOUTS)}
_FACTS = OF_ROLLOUTS.keys() - {"verdict"}  # from which a verdict follows


@dataclass(slots=True, kw_only=True)
class ImportResult:
    """The result of an import: records by type, refusals, and the first conflicts."""

    added: Counter[str] = field(default_factory=Counter)
    unchanged: Counter[str] = field(default_factory=Counter)
    # By type: rollouts, calls without one and rows of batches that exist with different data.
    refusals: Counter[str] = field(default_factory=Counter)
    conflicts: list[str] = field(default_factory=list)  # the first refusals, a sentence each

    @property
    def refused(self) -> int:
        """The number of refusals; a rollout is one with all its records."""
        return self.refusals.total()

    def refuse(self, name: str, sentence: str, count: int = 1) -> None:
        """Count rollouts, calls without one or rows of batches that exist with different data."""
        self.refusals[name] += count
        if len(self.conflicts) < _CONFLICTS_KEPT:
            self.conflicts.append(sentence)


# --- out of a database ---------------------------------------------------------------------


@contextmanager
def export_records(url: str, *, batch: str | None = None) -> Iterator[Iterator[Record]]:
    """Read all rollouts and calls, or those of one batch, in one snapshot.

    Rollouts come by id, each followed by its exchanges by id and its verdict; then what is of a
    batch.
    Calls without a rollout stand where one of that id would. A call in flight is exported as
    `lost`.

    Raises:
        UnusableDatabase: this version cannot read the database.
    """
    with rows.reading(url) as connection:
        yield _records(connection, batch)


def _records(connection: Connection, batch: str | None) -> Iterator[Record]:
    mine = None if batch is None else select(rollouts.c.id).where(rollouts.c.batch == batch)
    yield from _about_rollouts(connection, mine)
    for name, record_type in OF_BATCHES.items():
        query = _in_order(connection, record_type, None if batch is None else [batch])
        for row in rows.stream(connection, query):
            yield name, row


def _about_rollouts(
    connection: Connection, mine: Select[Any] | Sequence[str] | None
) -> Iterator[Record]:
    sorted_rows = [_ranked(connection, name, mine) for name in OF_ROLLOUTS]
    for _owner, rank, row in merge(*sorted_rows, _in_flight(connection, mine)):
        yield _KINDS_OF_ROLLOUTS[rank], row


def _ranked(
    connection: Connection, name: str, mine: Select[Any] | Sequence[str] | None
) -> Iterator[tuple[str, int, Row]]:
    record_type, rank = RECORD_TYPES[name], _RANK[name]
    at = record_type.owner_at
    for row in rows.stream(connection, _in_order(connection, record_type, mine)):
        yield row[at], rank, row


def _in_order(
    connection: Connection, record_type: RecordType, mine: Select[Any] | Sequence[str] | None = None
) -> Select[Any]:
    query = select(*rows.copied(record_type.table)).order_by(
        *rows.by_key(connection, record_type.table)
    )
    if record_type.table is verdicts:
        # A verdict given while its rollout was deleted says nothing of a call.
        query = query.where(exists().where(rollouts.c.id == verdicts.c.rollout_id))
    return query if mine is None else query.where(record_type.table.c[record_type.owner].in_(mine))


def _in_flight(
    connection: Connection, mine: Select[Any] | Sequence[str] | None
) -> Iterator[tuple[str, int, Row]]:
    ended = select(exchanges.c.id).where(
        exchanges.c.rollout_id == open_calls.c.rollout_id, exchanges.c.id == open_calls.c.id
    )
    order = rows.exactly(connection, open_calls.c.rollout_id, open_calls.c.id)
    query = select(open_calls).where(~ended.exists()).order_by(*order)
    if mine is not None:
        query = query.where(open_calls.c.rollout_id.in_(mine))
    names = RECORD_TYPES["exchange"].columns
    for row in connection.execute(query).mappings():  # as many as there are calls in flight
        lost = lost_row(row)
        yield lost["rollout_id"], _RANK["exchange"], tuple(lost.get(name) for name in names)


# --- into a database -----------------------------------------------------------------------


def import_records(url: str, records: Iterable[Record]) -> ImportResult:
    """Import records into a database, whose schema is brought up to date first.

    A rollout is added whole or not at all. One that exists with the same data is left as it is,
    its verdict included; one that exists with different data is refused. So is each call without
    a rollout, by itself. After an interruption, the same import continues where it stopped.

    Arguments:
        records: in the order of ``export_records``.

    Raises:
        UnusableDatabase: this version cannot write the database.
        RecordError: a record is out of order.
    """
    result = ImportResult()
    chunks = _chunks(_groups(records))
    first = next(chunks, [])  # a bad archive is refused before a database is made
    with rows.writing(url) as engine:
        with engine.begin() as connection:
            migrations.refuse_unfinished(connection)
        for chunk in chain([first], chunks):
            with engine.begin() as connection:
                _add(connection, chunk, result)
    return result


Group: TypeAlias = tuple[str, list[Record]]  # an owner and all about it, or some of its lone calls


def _groups(records: Iterable[Record]) -> Iterator[Group]:
    """Group the records of one rollout, or of one type of a batch; calls without one in parts."""
    before: tuple[int, str] = (0, "")
    for at, group in groupby(records, place_of):
        if at < before:
            raise RecordError(f"{at[1]!r} comes after {before[1]!r}: records must be sorted")
        before = at
        yield from _parts(at[1], group)


def _parts(owner: str, group: Iterator[Record]) -> Iterator[Group]:
    first = next(group)
    if first[0] != "exchange":
        yield owner, _with_rollout(owner, [first, *group])
        return
    calls = chain([first], group)
    while part := list(islice(calls, CHUNK)):  # of one id there may be any number
        yield owner, _alone(owner, part)


def _with_rollout(owner: str, whole: list[Record]) -> list[Record]:
    if whole[0][0] == "verdict":
        raise RecordError(f"{owner!r}: no rollout record")
    if sum(name == "rollout" for name, _ in whole) > 1:
        raise RecordError(f"{owner!r}: more than one rollout record")
    return whole


def _alone(owner: str, part: list[Record]) -> list[Record]:
    if any(name != "exchange" for name, _ in part):
        raise RecordError(f"{owner!r}: no rollout record")
    return part


def _chunks(groups: Iterable[Group]) -> Iterator[list[Group]]:
    """Yield as many whole groups as one commit takes."""
    chunk: list[Group] = []
    size = 0
    for group in groups:
        chunk.append(group)
        size += len(group[1])
        if size >= CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _add(connection: Connection, chunk: Sequence[Group], result: ImportResult) -> None:
    by_kind: dict[str, list[Group]] = {name: [] for name in RECORD_TYPES}
    for group in chunk:
        by_kind[group[1][0][0]].append(group)
    new = [*_new_rollouts(connection, by_kind["rollout"], result)]
    for group in by_kind["exchange"]:
        new += _new_calls(connection, group, result)
    for group in (group for name in OF_BATCHES for group in by_kind[name]):
        new += _new_of_batch(connection, group, result)
    for name, record_type in RECORD_TYPES.items():
        rows.insert(connection, record_type.table, [row for kind, row in new if kind == name])
    _fill_in(connection, [row[_OWNER_AT[name]] for name, row in new if name == "verdict"])
    _note_added(connection, [row for kind, row in new if kind == "rollout"])
    result.added.update(name for name, _ in new)


def _fill_in(connection: Connection, judged: Sequence[str]) -> None:
    """Say of verdicts their kinds, and when their rollouts began, as archives since 0009 do."""
    began = select(rollouts.c.created_at).where(rollouts.c.id == verdicts.c.rollout_id)
    unsaid = verdicts.c.rollout_id.in_(judged), verdicts.c.began_at.is_(None)
    connection.execute(update(verdicts).where(*unsaid).values(began_at=began.scalar_subquery()))
    store_kinds(connection, verdicts.c.rollout_id.in_(judged))


def _note_added(connection: Connection, added: Sequence[Row]) -> None:
    """Note that the batches of these rollouts changed; verdicts that know all calls stand.

    A batch that is imported has ended: nobody starts further rollouts of it.
    """
    columns = RECORD_TYPES["rollout"].columns
    place, created = columns.index("batch"), columns.index("created_at")
    known = sorted((row[place], row[created]) for row in added if row[place] is not None)
    note_changed(connection, dict(known))
    note_imported(connection, dict(known))
    ids = [row[_OWNER_AT["rollout"]] for row in added]
    dequeue_judged(connection, ids)
    dequeue_unchanged(connection, ids)


def _new_rollouts(
    connection: Connection, groups: Sequence[Group], result: ImportResult
) -> Iterator[Record]:
    ids = [owner for owner, _ in groups]
    stored = _about_rollouts(connection, ids) if ids else ()
    existing = {owner: list(group) for (_, owner), group in groupby(stored, place_of)}
    for owner, group in groups:
        known = existing.get(owner)
        if known is None:
            yield from group
        elif _facts(known) == _facts(group):
            result.unchanged.update(name for name, _ in group)
        else:
            difference = _difference(_facts(group), _facts(known))
            result.refuse(
                "rollout", f"rollout {owner!r} already exists with different data ({difference})"
            )


def _facts(group: Iterable[Record]) -> list[tuple[str, Row]]:
    return [(name, tuple(row)) for name, row in group if name in _FACTS]


def _difference(mine: Sequence[Record], theirs: Sequence[Record]) -> str:
    if theirs[0][0] != "rollout":
        return "only calls are stored"
    if len(mine) != len(theirs):
        stored = plural(len(theirs) - 1, "exchange")
        return f"{stored} stored, {len(mine) - 1} in the archive"
    (name, row), (_, known) = next(pair for pair in zip(mine, theirs, strict=True) if ne(*pair))
    fields = zip(RECORD_TYPES[name].columns, row, known, strict=True)
    return f"{name}: {next(field for field, value, other in fields if value != other)}"


def _new_calls(connection: Connection, group: Group, result: ImportResult) -> Iterator[Record]:
    """Yield those of an id's lone calls that are not stored; what stands is left as it is."""
    owner, calls = group
    if connection.scalar(select(rollouts.c.id).where(rollouts.c.id == owner)) is not None:
        result.refuse(
            "exchange",
            f"rollout {owner!r} already exists with different data (only calls in the archive)",
            len(calls),
        )
        return
    stored = select(exchanges).where(
        exchanges.c.rollout_id == owner, exchanges.c.id.in_([row[_CALL_AT] for _, row in calls])
    )
    flying = (row for _, _, row in _in_flight(connection, [owner]))
    existing = {row[_CALL_AT]: tuple(row) for row in chain(flying, connection.execute(stored))}
    for name, row in calls:
        known = existing.get(row[_CALL_AT])
        if known is None:
            yield name, row
        elif known == tuple(row):
            result.unchanged[name] += 1
        else:
            fields = zip(RECORD_TYPES[name].columns, row, known, strict=True)
            field = next(field for field, value, other in fields if value != other)
            result.refuse(
                "exchange",
                f"call {row[_CALL_AT]!r} without a rollout already exists with different data "
                f"({field})",
            )


def _new_of_batch(connection: Connection, group: Group, result: ImportResult) -> Iterator[Record]:
    """Yield those of a batch's rows in one table that are not stored."""
    batch, records = group
    record_type = RECORD_TYPES[records[0][0]]
    keys = [record_type.columns.index(str(key.name)) for key in record_type.table.primary_key]

    def key_of(row: Row) -> tuple[Any, ...]:
        return tuple(row[at] for at in keys)

    query = _in_order(connection, record_type, [batch])
    existing = {key_of(row): tuple(row) for row in connection.execute(query)}
    for name, row in records:
        known = existing.get(key_of(row))
        if known is None:
            yield name, row
        elif known == tuple(row):
            result.unchanged[name] += 1
        else:
            which = " on ".join(map(repr, key_of(row)))
            result.refuse(name, f"the {name} of {which} already exists in a different state")


# --- validation of records ---------------------------------------------------------------------


_YEAR_9999 = 253_370_764_800.0  # in epoch seconds; Python's calendar ends soon after
_SHAPES = 10_000  # combinations of types that are remembered
_KINDS: tuple[tuple[type[Any], frozenset[type]], ...] = (
    (Boolean, frozenset({bool})),
    (Integer, frozenset({int})),
    (Float, frozenset({float, int})),
)


def row_of(name: str, record: Mapping[str, object]) -> Row:
    """Convert a record's fields to a row of its type's table.

    A field that a later version added may be missing; it gets its column's default.

    Raises:
        RecordError: the type is unknown, or a field is missing, unknown or of the wrong type.
    """
    record_type = RECORD_TYPES.get(name)
    if record_type is None:
        raise RecordError(f"type: {name!r} is not one of {', '.join(RECORD_TYPES)}")
    shape = _shape(name)
    row = shape.values(record) if record.keys() == shape.names else None
    if row is None or not shape.fits(row):
        row = _completed(name, record)
    _check_meaning(name, record_type, row)
    return row


_FLAWED_KEPT = 3  # further ones are counted
_OWNER_SHOWN = 80  # characters of an id that may be too long


@dataclass(slots=True, kw_only=True)
class FlawedRecords:
    """Records that an import refuses: their number, and the first with the reason."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def passing(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield all records; check each as an import does."""
        for name, row in records:
            try:
                row_of(name, dict(zip(RECORD_TYPES[name].columns, row, strict=True)))
            except RecordError as error:
                self._add(name, row, error)
            yield name, row

    def _add(self, name: str, row: Row, error: RecordError) -> None:
        self.count += 1
        if len(self.first) < _FLAWED_KEPT:
            owner = repr(row[_OWNER_AT[name]][:_OWNER_SHOWN])
            self.first.append(f"{name}{'' if name == 'rollout' else ' of'} {owner} ({error})")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    names: frozenset[str]
    types: tuple[frozenset[type], ...]
    values: Callable[[Mapping[str, object]], Row]
    fitted: set[tuple[type, ...]] = field(default_factory=set)  # as most rows' types have

    def fits(self, row: Row) -> bool:
        """Return True if each value has the type of its column."""
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
    record_type = RECORD_TYPES[name]
    types = tuple(_types(column) for column in rows.copied(record_type.table))
    return _Shape(
        names=frozenset(record_type.columns), types=types, values=itemgetter(*record_type.columns)
    )


def _types(column: Column[Any]) -> frozenset[type]:
    kinds = (types for kind, types in _KINDS if isinstance(column.type, kind))
    none = frozenset({type(None)}) if column.nullable else frozenset()
    return next(kinds, frozenset({str})) | none


def _completed(name: str, record: Mapping[str, object]) -> Row:
    """Fill in the fields that a later version added.

    Raises:
        RecordError: a field is missing, unknown or of the wrong type.
    """
    record_type = RECORD_TYPES[name]
    if unknown := record.keys() - _shape(name).names - record_type.gone:
        raise RecordError(f"{min(unknown)}: not a field of {name}")
    if record_type.carried is not None and record.keys() & record_type.gone:
        name, carry = record_type.carried
        record = {name: carry(record), **record}
    return tuple(_value(column, record) for column in rows.copied(record_type.table))


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


def _check_meaning(name: str, record_type: RecordType, row: Row) -> None:
    """Check what a column's type cannot: ids, enumerated names, times and JSON."""
    if name in OF_ROLLOUTS:
        _check_id(name, row[record_type.owner_at])
    if name == "exchange":
        try:
            exchange_of(row)
        except (KeyError, ValueError) as error:
            raise RecordError(f"{error} is not a known value") from None
    for column in _times(name):
        at = row[record_type.columns.index(column)]
        if at is not None and not 0 <= at < _YEAR_9999:
            raise RecordError(f"{column}: {at!r} is not a valid time")
    for column in record_type.json:
        value = row[record_type.columns.index(column)]
        if value is not None and not _is_object(value):
            raise RecordError(f"{column}: not a JSON object")
    if name == "rollout" and (reached := row[record_type.columns.index("limit_reached")]):
        try:
            decode_limit_reached(orjson.loads(reached))
        except CodecError as error:
            raise RecordError(str(error)) from None


@cache
def _times(name: str) -> tuple[str, ...]:
    """Return the columns that hold epoch seconds."""
    return tuple(column for column in RECORD_TYPES[name].columns if column.endswith("_at"))


def _check_id(name: str, rollout_id: str) -> None:
    """Refuse an id that registration refuses; under a reserved one there are calls only."""
    flaw = id_flaw(rollout_id)
    if flaw is None and rollout_id in RESERVED and name != "exchange":
        flaw = f"{rollout_id!r} is reserved for calls that name no rollout"
    if flaw is not None:
        raise RecordError(f"{RECORD_TYPES[name].owner}: {flaw}")


def _is_object(value: str) -> bool:
    try:
        return isinstance(orjson.loads(value), dict) and isinstance(parse(value), dict)
    except (orjson.JSONDecodeError, ForeignError):  # parse() reads less deep than orjson
        return False


# --- archives as JSON lines --------------------------------------------------------------------
# A head, a line for each record, and a last line with the counts. Only one line is held in memory;
# an archive without its last line is refused as truncated.


_FORMAT, _VERSION = "truezero-archive", 1
_NAMES = {name: ("type", *record_type.columns) for name, record_type in RECORD_TYPES.items()}


class ArchiveError(Exception):
    """An archive cannot be read or written; the message is one sentence."""


def write(records: Iterable[Record], out: BinaryIO) -> Counter[str]:
    """Write an archive; returns how many records of each type it holds."""
    count: Counter[str] = Counter()
    out.write(_line({"type": _FORMAT, "version": _VERSION, "schema": migrations.HEAD}))
    for name, row in records:
        out.write(_line(dict(zip(_NAMES[name], (name, *row), strict=True))))
        count[name] += 1
    out.write(_line({"type": "end", **{name: count[name] for name in RECORD_TYPES}}))
    return count


def write_file(records: Iterable[Record], path: Path) -> Counter[str]:
    """Write an archive to a file, which gets its name once it is complete.

    Raises:
        OSError: the file cannot be written.
    """
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            count = write(records, file)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return count


def read(lines: Iterable[bytes]) -> Iterator[Record]:
    """Yield the records of an archive.

    Raises:
        ArchiveError: it is not an archive, a line of it is invalid, or it is truncated.
    """
    numbered = enumerate(lines, start=1)
    _read_head(numbered)
    count: Counter[str] = Counter()
    for number, line in numbered:
        record = _object(number, line)
        name = record.pop("type", None)
        if name == "end":
            _compare(record, count)
            return
        try:
            yield str(name), row_of(str(name), record)
        except RecordError as error:
            raise ArchiveError(f"line {number}: {error}") from None
        count[str(name)] += 1
    raise ArchiveError("the archive is truncated: its last line is missing")


def _read_head(numbered: Iterator[tuple[int, bytes]]) -> None:
    for number, line in numbered:
        record = _object(number, line)
        if record.pop("type", None) == _FORMAT:
            _check_head(record)
            return
        break
    raise ArchiveError(
        "not an archive: the first line is not an archive header "
        "(`truezero export --full` writes one)"
    )


def _check_head(head: Mapping[str, object]) -> None:
    """Refuse an archive that a later version wrote."""
    if head.get("version") != _VERSION:
        raise ArchiveError(
            f"the archive has format version {head.get('version')}, but this version of truezero "
            f"reads {_VERSION}"
        )
    schema = str(head.get("schema"))
    if migrations.is_newer(schema):
        raise ArchiveError(
            f"the archive has schema {schema}, but this version of truezero supports schemas "
            f"up to {migrations.HEAD}"
        )


def _object(number: int, line: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ArchiveError(f"line {number}: {error}") from None
    if not isinstance(value, dict):
        raise ArchiveError(f"line {number}: not a JSON object")
    return value


def _compare(counts: dict[str, Any], count: Counter[str]) -> None:
    # Of a type that a feature adds, a service without it says nothing.
    if {name: number for name, number in counts.items() if number != 0} != +count:
        raise ArchiveError("the number of records differs from the archive's last line")


def _line(value: dict[str, Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
