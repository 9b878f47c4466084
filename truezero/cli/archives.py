"""Archives on the command line: opened, and their records counted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from truezero.cli.data import DataError, readable_errors
from truezero.foreign import ForeignError, byte_lines, open_file
from truezero.printable import plural

_PROGRESS_EVERY = 5000


@contextmanager
def reading(source: str) -> Iterator[Iterator[Any]]:
    """Open an archive: a file of JSON lines, or ``-`` for standard input.

    Raises:
        DataError: it is a folder, as archives in Parquet were.
    """
    from proxy.features.exports import archive  # noqa: PLC0415

    if source == "-":
        yield archive.read(byte_lines(sys.stdin.buffer))
    elif Path(source).is_dir():
        raise DataError(
            f"{source} is a folder: an archive is a file of JSON lines; one in Parquet is imported "
            "by the version that wrote it, and exported from there"
        )
    else:
        with open_file(Path(source)) as file:
            yield archive.read(byte_lines(file))


@contextmanager
def readable_archives() -> Iterator[None]:
    """Raise errors of archives too as a ``DataError`` with one sentence."""
    from proxy.features.exports.archive import ArchiveError  # noqa: PLC0415
    from proxy.features.exports.rows import RecordError  # noqa: PLC0415

    with readable_errors():
        try:
            yield
        except (ArchiveError, ForeignError, RecordError) as error:
            raise DataError(str(error)) from None


def counting(records: Iterator[Any], show: Callable[[str], None]) -> Iterator[Any]:
    """Yield records, and show from time to time how many there were."""
    for number, record in enumerate(records, start=1):
        yield record
        if number % _PROGRESS_EVERY == 0:
            show(plural(number, "record"))


def counts(count: Mapping[str, int]) -> str:
    """Return the numbers of records by type, in words."""
    from proxy.features.exports.rows import RECORD_TYPES  # noqa: PLC0415

    return ", ".join(plural(count.get(name, 0), name) for name in RECORD_TYPES)
