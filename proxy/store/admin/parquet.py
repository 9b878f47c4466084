"""Archives as a folder of Parquet files, one for each type of record.

Needs pyarrow (the extra ``parquet``); one row group is held in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from errno import EEXIST
from heapq import merge
from importlib import import_module
from os import strerror
from pathlib import Path
from typing import Any

from sqlalchemy import Boolean, Column, Float, Integer

from proxy.store.admin.archive import row_of
from proxy.store.admin.rows import (
    FORMAT,
    RECORD_TYPES,
    ArchiveError,
    Record,
    RecordError,
    RecordType,
    Row,
    check_head,
    head,
)

_GROUP = 20_000  # rows in a row group

_TYPES = ((Boolean, "bool_"), (Integer, "int64"), (Float, "float64"))


def write_folder(records: Iterable[Record], folder: Path) -> Counter[str]:
    """Write an archive to a new folder, which gets its name once it is complete.

    Returns:
        How many records of each type it holds.

    Raises:
        ArchiveError: pyarrow is not installed.
        OSError: the folder exists already, or cannot be written.
    """
    arrow = _arrow()
    if folder.exists():
        raise FileExistsError(EEXIST, strerror(EEXIST), str(folder))
    part = folder.with_name(folder.name + ".part")
    _clear(part)  # of an export that was killed
    part.mkdir()
    try:
        count = _write(arrow, records, part)
        part.rename(folder)
    finally:
        _clear(part)
    return count


def _write(arrow: Any, records: Iterable[Record], folder: Path) -> Counter[str]:
    with ExitStack() as open_files:
        tables = {
            name: open_files.enter_context(_Table(arrow, _file(folder, name), record_type))
            for name, record_type in RECORD_TYPES.items()
        }
        for name, row in records:
            tables[name].add(row)
    return Counter({name: table.rows for name, table in tables.items()})


def _clear(folder: Path) -> None:
    if folder.is_dir():
        for name in RECORD_TYPES:
            _file(folder, name).unlink(missing_ok=True)
        folder.rmdir()


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}s.parquet"


class _Table:
    """One type's file while it is being written."""

    def __init__(self, arrow: Any, path: Path, record_type: RecordType) -> None:
        self._arrow = arrow
        fields = [_field(arrow, column) for column in record_type.table.columns]
        header = {FORMAT: "", **{name: str(value) for name, value in head().items()}}
        self._schema = arrow.schema(fields, metadata=header)
        parquet = import_module("pyarrow.parquet")
        self._file = parquet.ParquetWriter(path, self._schema, compression="zstd")
        self._waiting: list[Row] = []
        self.rows = 0

    def __enter__(self) -> _Table:
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        if failed is None:
            self._flush()
        self._file.close()

    def add(self, row: Row) -> None:
        """Add a row; rows are written in groups."""
        self._waiting.append(row)
        if len(self._waiting) == _GROUP:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        columns = zip(zip(*self._waiting, strict=True), self._schema, strict=True)
        arrays = [self._arrow.array(values, field.type) for values, field in columns]
        self._file.write(self._arrow.table(arrays, schema=self._schema))
        self.rows += len(self._waiting)
        self._waiting = []


def read(folder: Path) -> Iterator[Record]:
    """Yield the records of an archive.

    Raises:
        ArchiveError: pyarrow is not installed, the folder is not an archive, or a row is invalid.
    """
    arrow = _arrow()
    of_rollouts = [name for name in RECORD_TYPES if name != "breaker"]
    sorted_rows = (_ranked(arrow, folder, name, rank) for rank, name in enumerate(of_rollouts))
    for _owner, rank, row in merge(*sorted_rows):
        yield of_rollouts[rank], row
    for row in _rows(arrow, folder, "breaker"):
        yield "breaker", row


def _ranked(arrow: Any, folder: Path, name: str, rank: int) -> Iterator[tuple[str, int, Row]]:
    at = RECORD_TYPES[name].owner_at
    for row in _rows(arrow, folder, name):
        yield row[at], rank, row


def _rows(arrow: Any, folder: Path, name: str) -> Iterator[Row]:
    path = _file(folder, name)
    parquet = import_module("pyarrow.parquet")
    try:
        with parquet.ParquetFile(path) as file:
            check_head(_header(file.schema_arrow.metadata))
            names = file.schema_arrow.names
            for batch in file.iter_batches(batch_size=_GROUP):
                columns = [column.to_pylist() for column in batch.columns]
                yield from _checked(name, names, zip(*columns, strict=True))
    except FileNotFoundError:
        raise ArchiveError(f"{folder} is not an archive: {path.name} is missing") from None
    except arrow.ArrowException as error:
        raise ArchiveError(f"{path.name}: {str(error).splitlines()[0]}") from None
    except RecordError as error:
        raise ArchiveError(f"{path.name}: {error}") from None


def _checked(name: str, names: Sequence[str], rows: Iterable[Row]) -> Iterator[Row]:
    for row in rows:
        yield row_of(name, dict(zip(names, row, strict=True)))


def _header(metadata: Mapping[bytes, bytes] | None) -> dict[str, object]:
    header = {key.decode(): value.decode() for key, value in (metadata or {}).items()}
    if FORMAT not in header:
        raise RecordError("not part of an archive (`truezero export --full` writes one)")
    return {**header, "version": int(header["version"])}


def _field(arrow: Any, column: Column[Any]) -> Any:
    kind = next((name for known, name in _TYPES if isinstance(column.type, known)), "string")
    return arrow.field(column.name, getattr(arrow, kind)(), nullable=bool(column.nullable))


def _arrow() -> Any:
    try:
        return import_module("pyarrow")
    except ModuleNotFoundError:
        raise ArchiveError(
            "Parquet needs pyarrow, which is not installed: pip install 'truezero[parquet]'"
        ) from None
