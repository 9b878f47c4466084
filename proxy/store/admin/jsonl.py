"""An archive as JSON lines: a head, a line for each record, and a last line that counts them.

It keeps no more than a line in memory, and takes nothing for whole that has no last line.
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
    """The whole archive or none: a file that stops in the middle would be believed.

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
    """The records of an archive.

    Raises:
        ArchiveError: it is none, a line of it is none of ours, or it ends early.
    """
    numbered = enumerate(lines, start=1)
    _read_head(numbered)
    count: Counter[str] = Counter()
    for number, line in numbered:
        found = _object(number, line)
        name = found.pop("type", None)
        if name == "end":
            _compare(found, count)
            return
        try:
            yield str(name), row_of(str(name), found)
        except RecordError as error:
            raise ArchiveError(f"line {number}: {error}") from None
        count[str(name)] += 1
    raise ArchiveError("the archive ends early: its last line is missing")


def _read_head(numbered: Iterator[tuple[int, bytes]]) -> None:
    for number, line in numbered:
        found = _object(number, line)
        if found.pop("type", None) == FORMAT:
            check_head(found)
            return
        break
    raise ArchiveError(
        "this is no archive: its first line does not say so (`truezero export --full` writes one)"
    )


def _object(number: int, line: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ArchiveError(f"line {number}: {error}") from None
    if not isinstance(found, dict):
        raise ArchiveError(f"line {number}: is no object")
    return found


def _compare(told: dict[str, Any], count: Counter[str]) -> None:
    if told != {name: count[name] for name in NOUNS}:
        raise ArchiveError("the archive does not hold as many records as its last line says")


def _line(value: dict[str, Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
