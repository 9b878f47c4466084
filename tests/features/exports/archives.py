"""Archives of a database as bytes, for the tests of exporting and importing."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

from proxy.features.exports import archive
from proxy.features.exports.archive import ImportResult


def exported(url: str, batch: str | None = None) -> bytes:
    out = io.BytesIO()
    with archive.export_records(url, batch=batch) as records:
        archive.write(records, out)
    return out.getvalue()


def imported(url: str, whole: bytes) -> ImportResult:
    return archive.import_records(url, archive.read(whole.splitlines(keepends=True)))


def records_of(whole: bytes, kind: str) -> list[dict[str, Any]]:
    everything = [json.loads(line) for line in whole.splitlines()]
    return [record for record in everything if record["type"] == kind]


def changed(whole: bytes, change: Callable[[dict[str, Any]], object], *, at: int = 0) -> bytes:
    """Change one of an archive's exchanges."""
    lines = whole.splitlines(keepends=True)
    where = [n for n, line in enumerate(lines) if b'{"type":"exchange"' in line][at]
    record = json.loads(lines[where])
    change(record)
    lines[where] = json.dumps(record).encode() + b"\n"
    return b"".join(lines)
