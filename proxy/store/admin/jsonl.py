"""Archives as JSON lines: a head, a line for each record, and a last line with the counts.

Only one line is held in memory; an archive without its last line is refused as truncated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from proxy.store.admin.manifest import FORMAT, ArchiveError, check_head, head
from proxy.store.admin.nouns import NOUNS, Record, RecordError
from proxy.store.admin.validate import row_of

_NAMES = {name: ("type", *noun.columns) for name, noun in NOUNS.items()}


def write(records: Iterable[Record], out: BinaryIO) -> Counter[str]:
    """Write an archive; returns how many records of each noun it holds."""
    count: Counter[str] = Counter()
    out.write(_line({"type": FORMAT, **head()}))
    for name, row in records:
        out.write(_line(dict(zip(_NAMES[name], (name, *row), strict=True))))
        count[name] += 1
    out.write(_line({"type": "end", **{name: count[name] for name in NOUNS}}))
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
        if record.pop("type", None) == FORMAT:
            check_head(record)
            return
        break
    raise ArchiveError(
        "not an archive: the first line is not an archive header "
        "(`truezero export --full` writes one)"
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
    if counts != {name: count[name] for name in NOUNS}:
        raise ArchiveError("the number of records differs from the archive's last line")


def _line(value: dict[str, Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
