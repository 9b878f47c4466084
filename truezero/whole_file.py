"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(file: Path) -> Iterator[Path]:
    """Yield a path beside a file, to write to; what is there at the end takes the file's place.

    Raises:
        OSError: it cannot be written.
    """
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        yield beside
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)


def write_whole(file: Path, content: bytes) -> None:
    """Write a file.

    Raises:
        OSError: it cannot be written.
    """
    with whole(file) as copy:
        copy.write_bytes(content)
