"""The dialect of unknown formats: usage stays absent, output unknown."""

from __future__ import annotations

from proxy.wire.dialect import Dialect, Payload, Reading


def _read(reading: Reading, payload: Payload, event: str | None) -> None:
    """Read nothing; errors are read from any payload (`payloads`)."""


def _totals(reading: Reading) -> tuple[int | None, int | None]:
    return reading.input_total, reading.output_total


OPAQUE: Dialect = Dialect(name="opaque", read=_read, totals=_totals, known=False)
